// The verdict on a certificate issued to a worker, before it replaces the expired pair, which alone proves the worker's
// identity: it must match the request, and the API server must accept it. kube-controller-manager may sign with a CA
// that kube-apiserver does not have, and a certificate may be fetched too late.
import { createHash, type KeyObject } from 'node:crypto';
import { isCode } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { resourcePath } from '../kube/resources.ts';
import { issuedProblem, kubeletOf } from '../plan/request-rules.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { keyMatches, parsePrivateKey } from '../pki/key.ts';
import { unlessInvalid } from '../pki/pem.ts';
import type { Entries } from '../store/store.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation, Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';

/** The expired pair, from which a request is made. */
export interface Expired {
  readonly node: string;
  readonly leaf: Certificate;
  readonly key: KeyObject;
}

/** The pair of a kubelet, whatever its dates; undefined where nothing can be requested with it. */
export function pairIn({ [certificateKey]: certificate, [privateKeyKey]: keyPem }: Entries): Expired | undefined {
  if (certificate === undefined || keyPem === undefined) return undefined;
  const leaf = unlessInvalid(() => parseCertificates(certificate, 'it', 'skipped')[0]);
  const key = unlessInvalid(() => parsePrivateKey(keyPem, 'it'));
  const node = kubeletOf(leaf?.facts);
  if (leaf === undefined || key === undefined || node === undefined || !keyMatches(leaf, key)) return undefined;
  return { node, leaf, key };
}

/** The kubeconfig of the kubelet, which names the API server. */
export function kubeletKubeconfig({ artefacts }: Resolved): string {
  const places = artefacts.flatMap(({ location }): readonly DiskLocation[] => (isFile(location) ? [location] : []));
  return places.flatMap((place) => (place.kind === 'kubeconfig' ? [place.file] : []))[0] ?? '';
}

/** Opens a connection with this pair, PEM. Sends nothing yet. */
export type ConnectAsIssued = (pair: { readonly cert: Buffer; readonly key: Buffer }) => Promise<KubeConnection>;

export interface IssuedTrial {
  readonly connectAs: ConnectAsIssued;
  readonly signal: AbortSignal;
  readonly now: Date;
}

const tryMs = 5000;

/**
 * The leaf alone, as no chain belongs into a kubelet's file; or why it cannot be used, with its issuer. Throws errors
 * of `request` where the API server gives no verdict.
 */
export async function judgeIssued(
  issued: Buffer,
  expired: Expired,
  trial: IssuedTrial,
): Promise<Buffer | { readonly problem: string }> {
  const made = unlessInvalid(() => parseCertificates(issued, 'answer')[0]);
  if (made === undefined) return { problem: 'it cannot be read' };
  const leaf = Buffer.from(made.pem);
  const problem = issuedProblem(made, expired.leaf, trial.now) ?? (await refusalOf(leaf, expired, trial));
  return problem === undefined ? leaf : { problem: `signed by "${made.facts.issuer}", ${problem}` };
}

/** Undefined: the API server authenticates the pair, whatever its rights. */
async function refusalOf(
  cert: Buffer,
  { node, key }: Expired,
  { connectAs, signal }: IssuedTrial,
): Promise<string | undefined> {
  const connection = await connectAs({ cert, key: Buffer.from(key.export({ type: 'pkcs8', format: 'pem' })) });
  try {
    const path = resourcePath('Node', { name: node });
    await connection.request({ method: 'GET', path, timeoutMs: tryMs, signal });
    return undefined;
  } catch (err) {
    if (isCode(err, 'KubeForbidden', 'KubeNotFound')) return undefined;
    if (!isCode(err, 'KubeUnauthorized')) throw err;
    return 'the API server answers 401 to it: see that kube-controller-manager signs by a CA in its --client-ca-file';
  } finally {
    await connection.close();
  }
}

/** Name of the request after an unusable certificate: the same for every run, so that a timer floods no cluster. */
export const nextRequestName = (firstName: string, issued: Buffer): string =>
  `${firstName}-${createHash('sha256').update(issued).digest('hex').slice(0, 8)}`;
