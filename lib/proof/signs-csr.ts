// A CSR signer is in use when a certificate that kube-controller-manager issued carries its signature. Passive: it looks
// at what has been signed and never asks for anything, because a CSR of ours could be approved by somebody.
import { X509Certificate } from 'node:crypto';
import { errorText } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { list } from '../kube/list.ts';
import type { ProofResult } from './result.ts';

export interface SignedRequest {
  readonly metadata?: { readonly name?: string };
  /** Base64 of PEM. */
  readonly status?: { readonly certificate?: string };
}

/**
 * Whether a request was answered with a certificate that the present signer's key has signed. Pure. `signer`: PEM of its
 * certificate that lies on disk now.
 */
export function isSignedBy(signer: string): (request: SignedRequest) => boolean {
  const authority = parse(signer);
  return ({ status }) => {
    const leaf = parse(Buffer.from(status?.certificate ?? '', 'base64').toString());
    return authority !== undefined && leaf?.verify(authority.publicKey) === true;
  };
}

/** What the name of a request that is signed so says; undefined: none is. */
export function judgeSigned(name: string | undefined, now: Date): ProofResult {
  return name === undefined
    ? { state: 'unproven', message: 'No CertificateSigningRequest has been signed by the present signer yet', at: now }
    : { state: 'proven', message: `CertificateSigningRequest "${name}" was signed by the present signer`, at: now };
}

function parse(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined; // empty, or whatever a foreign signer wrote: it is not our signature
  }
}

export interface ProveSigns {
  readonly connection: KubeConnection;
  readonly signer: string;
  readonly now: () => Date;
  readonly signal: AbortSignal;
}

/** Requests are small, unless somebody wants them large: then list() asks for fewer. */
const pageSize = 200;
/** kube-controller-manager removes issued requests after an hour; more than this many say that something floods. */
const enough = { read: 2000 };

export async function proveSignsCsr({ connection, signer, now, signal }: ProveSigns): Promise<ProofResult> {
  const path = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
  const isSigned = isSignedBy(signer);
  const keep = (request: SignedRequest): string | undefined =>
    isSigned(request) ? (request.metadata?.name ?? '') : undefined;
  try {
    const { objects } = await list({ connection, path, pages: { size: pageSize, keep, enough }, signal });
    return judgeSigned(objects[0], now());
  } catch (err) {
    return { state: 'unproven', message: errorText(err), at: now() };
  }
}
