// What this process has seen of each node's certificates: the end of the newest that was issued, and the newest request
// that was approved. It lives in memory, where neither the node nor the bootstrap identity can write; issued requests
// leave the API after an hour (pkg/controller/certificates/cleaner), so what was issued before this process is not known.
// Certificates are believed because only who may sign for the signer can put one into a request.
import { kubeletClientSigner, type Requester } from '../bootstrap-identity.ts';
import { parseCertificates } from '../pki/certificate.ts';
import type { Approval } from './judge.ts';
import { askedNode } from './outline.ts';
import { approvedAt, isAskedBy, requestedAt, type SigningRequest } from './request.ts';
import { nodeOf } from './shape.ts';

export interface NodeRecord {
  readonly issuedUntil?: Date;
  readonly approval?: Approval;
}

const bytesOf = (base64: string): Buffer => Buffer.from(base64, 'base64');

/** The name of the object in messages. */
export const requestText = ({ metadata }: SigningRequest): string => `CertificateSigningRequest "${metadata.name}"`;

export class Records {
  readonly #requester: Requester;
  readonly #nodes = new Map<string, NodeRecord>();

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  of(node: string): NodeRecord {
    return this.#nodes.get(node) ?? {};
  }

  /** Any request as the API has it now, whoever asked. Never throws. */
  see(request: SigningRequest): void {
    if (request.spec.signerName !== kubeletClientSigner) return;
    const issued = issuedCertificate(request);
    if (issued !== undefined) {
      const { issuedUntil = issued.notAfter } = this.of(issued.node);
      const newest = issuedUntil > issued.notAfter ? issuedUntil : issued.notAfter;
      this.#nodes.set(issued.node, { ...this.of(issued.node), issuedUntil: newest });
    }
    const at = approvedAt(request);
    if (at === undefined || !isAskedBy(request, this.#requester)) return;
    const node = issued?.node ?? askedNode(request);
    if (node !== undefined) this.approved(node, request, at);
  }

  approved(node: string, request: SigningRequest, at: Date): void {
    const { uid } = request.metadata;
    const known = this.of(node).approval;
    const asked = requestedAt(request);
    if (known !== undefined && known.uid !== uid && known.requestedAt > asked) return;
    const isIssued = (request.status?.certificate ?? '') !== '';
    this.#nodes.set(node, { ...this.of(node), approval: { uid, at, requestedAt: asked, isIssued } });
  }
}

function issuedCertificate(request: SigningRequest): { readonly node: string; readonly notAfter: Date } | undefined {
  const { certificate = '' } = request.status ?? {};
  if (certificate === '') return undefined;
  try {
    const [leaf] = parseCertificates(bytesOf(certificate), requestText(request), 'skipped');
    const node = nodeOf(leaf?.facts.commonName ?? '');
    return leaf === undefined || node === undefined ? undefined : { node, notAfter: leaf.facts.notAfter };
  } catch {
    return undefined; // whatever a foreign signer has put there: no kubelet can use it either
  }
}
