// A CSR signer is in use when a certificate that kube-controller-manager issued carries its signature. Passive: it looks
// at what has been signed and never asks for anything, because a CSR of ours could be approved by somebody.
import { X509Certificate } from 'node:crypto';
import { errorText } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { ProofResult } from './result.ts';

export interface SignedRequest {
  readonly metadata?: { readonly name?: string };
  /** Base64 of PEM. */
  readonly status?: { readonly certificate?: string };
}

export interface JudgeSigned {
  readonly requests: readonly SignedRequest[];
  /** PEM of the signer's certificate that lies on disk now. */
  readonly signer: string;
  readonly now: Date;
}

/** Whether one of the requests was answered with a certificate that the present signer's key has signed. */
export function judgeSigned({ requests, signer, now }: JudgeSigned): ProofResult {
  const authority = parse(signer);
  if (authority === undefined)
    return { state: 'unproven', message: 'The signer on disk is not a certificate', at: now };
  const signed = requests.find(({ status }) => {
    const leaf = parse(Buffer.from(status?.certificate ?? '', 'base64').toString());
    return leaf?.verify(authority.publicKey) === true;
  });
  if (signed === undefined) {
    return {
      state: 'unproven',
      message: 'No CertificateSigningRequest has been signed by the present signer yet',
      at: now,
    };
  }
  const name = signed.metadata?.name ?? '';
  return { state: 'proven', message: `CertificateSigningRequest "${name}" was signed by the present signer`, at: now };
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

interface List {
  readonly items?: readonly SignedRequest[] | null;
  readonly metadata?: { readonly continue?: string };
}

const pageSize = 200;
/** kube-controller-manager removes issued requests after an hour; more than this many say that something floods. */
const pages = 10;

export async function proveSignsCsr({ connection, signer, now, signal }: ProveSigns): Promise<ProofResult> {
  const base = `/apis/certificates.k8s.io/v1/certificatesigningrequests?limit=${pageSize}`;
  let result: ProofResult = judgeSigned({ requests: [], signer, now: now() });
  let from = '';
  try {
    for (let page = 0; page < pages; page += 1) {
      const path = from === '' ? base : `${base}&continue=${encodeURIComponent(from)}`;
      const list = await connection.request<List>({ method: 'GET', path, signal });
      result = judgeSigned({ requests: list.items ?? [], signer, now: now() });
      from = list.metadata?.continue ?? '';
      if (result.state === 'proven' || from === '') break;
    }
    return result;
  } catch (err) {
    return { state: 'unproven', message: errorText(err), at: now() };
  }
}
