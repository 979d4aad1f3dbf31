// Kubeconfig files for tests. They name certificate files rather than embed them, so that a client that re-reads its
// files needs no restart. JSON is YAML.
import { writeFile } from 'node:fs/promises';
import type { Pair } from './certificates.ts';

export interface KubeconfigOptions {
  readonly server: string;
  readonly certificateAuthority: string;
  readonly tlsServerName?: string;
  readonly token?: string;
  readonly pair?: Pair;
}

export function kubeconfigText({
  server,
  certificateAuthority,
  tlsServerName,
  token,
  pair,
}: KubeconfigOptions): string {
  const cluster = {
    server,
    'certificate-authority': certificateAuthority,
    ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
  };
  const user = {
    ...(token !== undefined && { token }),
    ...(pair && { 'client-certificate': pair.cert, 'client-key': pair.key }),
  };
  return kubeconfigOf(cluster, user);
}

/** Of one cluster and one user, as their fields are written there. */
export function kubeconfigOf(cluster: object, user: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  });
}

export async function writeKubeconfig(path: string, options: KubeconfigOptions): Promise<string> {
  await writeFile(path, kubeconfigText(options), { mode: 0o600 });
  return path;
}
