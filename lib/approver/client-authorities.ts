// The CAs by which the API server authenticates clients, published by it in a ConfigMap from its --client-ca-file
// (pkg/controlplane/controller/clusterauthenticationtrust), for servers that accept the same clients.
import { clientAuthoritiesName } from '../bootstrap-identity.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { ConfigMap } from '../kube/kube.ts';
import { objectPath } from '../kube/objects.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { locationText } from '../store/store.ts';
import type { ApproverOptions } from './settings.ts';

const place = { kind: 'configMap', namespace: 'kube-system', name: clientAuthoritiesName } as const;
const key = 'client-ca-file';

/** Throws an error that names the missing object or key, and when the API refuses otherwise. */
export async function readClientAuthorities({
  connection,
  signal,
}: Pick<ApproverOptions, 'connection' | 'signal'>): Promise<readonly Certificate[]> {
  const what = locationText(place);
  const failed = (code: 'KubeForbidden' | 'KubeNotFound' | 'MaterialInvalid', problem: string, cause?: unknown) =>
    new RecoveryError(code, `Cannot tell which CAs the API server believes of clients: ${what} ${problem}`, { cause });
  let found: ConfigMap;
  try {
    found = await connection.request({ method: 'GET', path: objectPath(place), signal });
  } catch (err) {
    if (isCode(err, 'KubeNotFound')) throw failed('KubeNotFound', 'is not there', err);
    if (!isCode(err, 'KubeForbidden')) throw err;
    throw failed(
      'KubeForbidden',
      'may not be read; run again what installed this approver (init, init adopt or init approver), which allows it',
      err,
    );
  }
  const text = found.data?.[key] ?? '';
  if (text === '') throw failed('MaterialInvalid', `has no ${key}; does kube-apiserver run with --client-ca-file?`);
  return parseCertificates(Buffer.from(text), `${what}, ${key}`, 'skipped');
}
