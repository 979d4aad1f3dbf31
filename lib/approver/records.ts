// Certificates of each node that this process has seen: the notAfter of the newest issued, and the newest request that
// was approved. Kept in memory, where neither the node nor the bootstrap identity can write; issued requests leave the
// API after an hour (pkg/controller/certificates/cleaner), so certificates issued before this process started are not
// known. Certificates are believed because only users that may sign for the signer can put one into a request.
import type { Requester } from '../bootstrap-identity.ts';
import { type Clock, steadyMs } from '../clock.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { askedNode, requesterIn } from './client-request.ts';
import { type IssuedCertificate, isNewer } from './issued-certificates.ts';
import type { Approval, NodeFacts } from './node-state.ts';
import { keyHash } from './possession.ts';
import { canBeHeard } from './signs-of-life.ts';
import { watch, type Watched } from './silence.ts';
import { approvedAt, isBefore, nodeOf, requestedAt, type SigningRequest } from './request.ts';

const bytesOf = (base64: string): Buffer => Buffer.from(base64, 'base64');

/** The name of the object in messages. */
export const requestText = ({ metadata }: SigningRequest): string => `CertificateSigningRequest "${metadata.name}"`;

/**
 * Longest time without a word of the API after which no issued request has gone unseen: kube-controller-manager removes
 * one an hour after its approval (pkg/controller/certificates/cleaner), and the list takes its time.
 */
const longestSilenceMs = 50 * 60_000;

type NodeRecord = Pick<NodeFacts, 'issuedUntil' | 'issuedKey' | 'issuedUnseen' | 'approval'>;

/** Times in milliseconds of uptime. */
interface Known {
  /** The newest certificate. */
  readonly issued?: IssuedCertificate & { readonly seenMs: number };
  readonly approval?: Omit<Approval, 'knownMs'> & { readonly sinceMs: number };
}

export class Records {
  readonly #requesters: readonly Requester[];
  readonly #clock: Clock;
  readonly #nodes = new Map<string, Known>();
  /** Uptime of the last word of the API about requests, and of the last before it was silent for too long. */
  #followedMs: number;
  #silentFromMs = -Infinity;
  /** Only nodes that the API has, because a requester can name any number of other nodes. */
  readonly #watched = new Map<string, Watched>();

  constructor(requesters: readonly Requester[], clock: Clock) {
    this.#requesters = requesters;
    this.#clock = clock;
    this.#followedMs = steadyMs(clock);
  }

  /** Notes that all requests of now have been seen, or that none has changed. */
  followed(): void {
    const nowMs = steadyMs(this.#clock);
    if (nowMs - this.#followedMs > longestSilenceMs) this.#silentFromMs = this.#followedMs;
    this.#followedMs = nowMs;
  }

  of(node: string): NodeRecord {
    const { approval, issued } = this.#nodes.get(node) ?? {};
    const record: NodeRecord = issued === undefined ? {} : this.#lastOf(issued);
    if (approval === undefined) return record;
    const { sinceMs, ...known } = approval;
    return { ...record, approval: { ...known, knownMs: steadyMs(this.#clock) - sinceMs } };
  }

  #lastOf({ notAfter, key, seenMs }: NonNullable<Known['issued']>): NodeRecord {
    const isSilent = steadyMs(this.#clock) - this.#followedMs > longestSilenceMs;
    const isUnseen = seenMs <= (isSilent ? this.#followedMs : this.#silentFromMs);
    return { issuedUntil: notAfter, issuedKey: key, ...(isUnseen && { issuedUnseen: true }) };
  }

  /** Adds to the facts the signs of life observed up to now of another machine's node. */
  watch(node: string, facts: NodeFacts): NodeFacts {
    if (!canBeHeard(facts)) {
      this.#watched.delete(node);
      return facts;
    }
    const { renewedAt, heartbeatAt, renewalMs } = facts;
    const watched = watch(this.#watched.get(node), { renewedAt, heartbeatAt, renewalMs }, steadyMs(this.#clock));
    this.#watched.set(node, watched);
    return { ...facts, watched };
  }

  /**
   * Records any request for the signer of kubelets' client certificates as the API has it now, of any requester.
   * Returns the certificate in it, unless a newer one of its node was seen: the record must not go back to it. Never
   * throws.
   */
  see(request: SigningRequest): IssuedCertificate | undefined {
    const issued = issuedCertificate(request);
    const kept = issued && this.#nodes.get(issued.node);
    const newest = issued && kept?.issued && isNewer(kept.issued, issued) ? undefined : issued;
    if (newest !== undefined)
      this.#nodes.set(newest.node, { ...kept, issued: { ...newest, seenMs: steadyMs(this.#clock) } });
    const at = approvedAt(request);
    if (at === undefined || requesterIn(request, this.#requesters) === undefined) return newest;
    const node = issued?.node ?? askedNode(request);
    if (node !== undefined) this.approved(node, request, at);
    return newest;
  }

  approved(node: string, request: SigningRequest, at: Date): void {
    const { uid } = request.metadata;
    const kept = this.#nodes.get(node);
    const known = kept?.approval;
    const asked = requestedAt(request);
    if (known !== undefined && known.uid !== uid && isBefore(asked, known.requestedAt, this.#clock.now())) return;
    const isIssued = (request.status?.certificate ?? '') !== '';
    const sinceMs = known !== undefined && known.uid === uid ? known.sinceMs : steadyMs(this.#clock);
    this.#nodes.set(node, { ...kept, approval: { uid, at, requestedAt: asked, isIssued, sinceMs } });
  }
}

function issuedCertificate(request: SigningRequest): IssuedCertificate | undefined {
  const { certificate = '' } = request.status ?? {};
  if (certificate === '') return undefined;
  try {
    const [leaf] = parseCertificates(bytesOf(certificate), requestText(request), 'skipped');
    const node = nodeOf(leaf?.facts.commonName ?? '');
    if (leaf === undefined || node === undefined) return undefined;
    const { notBefore, notAfter } = leaf.facts;
    return { node, notBefore, notAfter, key: keyHash(leaf.fields.publicKeyInfo) };
  } catch {
    return undefined; // content from a foreign signer: no kubelet can use it either
  }
}
