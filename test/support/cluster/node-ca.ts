// The ConfigMap of `init node-ca` in a cluster of the tests, and commands of the program.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { run } from '../../../cmd/cli.ts';
import { createAuthority } from '../certificates/certificates.ts';
import type { ControlPlane } from './control-plane.ts';

export const namespace = 'kube-cert-recovery';
export const collection = `/api/v1/namespaces/${namespace}/configmaps`;

/** A command in this process. */
export async function commandIn(
  cwd: string,
  argv: readonly string[],
): Promise<{ exit: number; out: string; err: string }> {
  const [out, err]: [string[], string[]] = [[], []];
  const stdout = { write: (text: string) => out.push(text) };
  const stderr = { write: (text: string) => err.push(text) };
  const signal = AbortSignal.timeout(120_000);
  const exit = await run({ argv, env: {}, cwd, stdout, stderr, signal });
  return { exit, out: out.join(''), err: err.join('') };
}

export type Publish = (
  data: Readonly<Record<string, string>>,
  annotations?: Readonly<Record<string, string>>,
) => Promise<void>;

/** Makes the namespace; the answer writes the ConfigMap. */
export async function nodeCaIn(controlPlane: ControlPlane): Promise<Publish> {
  await controlPlane.kubectl('create', 'namespace', namespace);
  return async (data, annotations = {}) => {
    const body = { metadata: { name: 'node-ca', annotations }, data };
    const { status } = await controlPlane.admin(`${collection}/node-ca`, { method: 'PUT', body });
    if (status === 200) return;
    expect(await controlPlane.admin(collection, { method: 'POST', body })).toMatchObject({ status: 201 });
  };
}

/** A function that makes a CA of that name below `root`; the answer is its PEM text. */
export const caMaker =
  (root: string) =>
  async (commonName: string): Promise<string> =>
    readFile((await createAuthority(join(root, commonName), { commonName })).cert, 'utf8');

/** The same CAs for both keys. */
export const both = (...cas: readonly string[]) => ({ 'client-ca.crt': cas.join(''), 'server-ca.crt': cas.join('') });
