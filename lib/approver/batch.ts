// Requests that wait for a decision: the fields kept in memory of each, and which requests are judged in this round.
// Pure. A request is read again when it is judged, because the requester decides how large it is, up to 1.5 MiB, and
// how many there are. A kubelet that could not start for a day has left hundreds: they are judged in batches, and none
// is left out for good.
import { bounds } from '../bounds.ts';
import { judgeSize, requestedAt, type SigningRequest } from './request.ts';
import type { SignerPolicy } from './signer-policy.ts';

export interface RequestSummary {
  readonly name: string;
  readonly signer: string;
  readonly uid: string | undefined;
  readonly requestedAt: Date;
  /** Bytes of the whole object as JSON; Infinity: it is too large and was not read. */
  readonly size: number;
  /** The node that the request names, read once; undefined: it names none, is too large or cannot be read. */
  readonly node?: string;
}

export function requestSummary(request: SigningRequest, policy: Pick<SignerPolicy, 'nodeOf'>): RequestSummary {
  const { name, uid } = request.metadata;
  const size = sizeOf(request);
  const node = judgeSize(size) === undefined ? policy.nodeOf(request) : undefined;
  return {
    name,
    signer: request.spec.signerName,
    uid,
    requestedAt: requestedAt(request),
    size,
    ...(node !== undefined && { node }),
  };
}

/** Bytes as the API server sends it: encoding/json of Go escapes `<`, `>` and `&`, and both line separators. */
function sizeOf(request: SigningRequest): number {
  const text = JSON.stringify(request);
  return Buffer.byteLength(text) + 5 * countOf(/[<>&]/g, text) + 3 * countOf(/[\u2028\u2029]/g, text);
}

const countOf = (pattern: RegExp, text: string): number => text.match(pattern)?.length ?? 0;

/**
 * Requests judged in a round under a flood, where a round begins every second: 6000 a minute. A judgement takes up to
 * three reads, some 8 ms of an API server that has one more to do. A request that arrives during a round waits for one
 * round: see `newestAtOnce`.
 */
export const mostAtOnce = 100;
export const batchEveryMs = 1000;
/**
 * So that up to 2400 new requests a minute, whatever they name, are all judged in the round after they arrived: the
 * newest forty are all that arrived since the round before.
 */
const newestAtOnce = 40;
/** Nodes that exist are as many as the cluster has: under a faster flood, each of them is still judged. */
const knownAtOnce = 20;
/** Requests from before the flood, oldest first, one per node. */
const oldestAtOnce = 20;
/** Requests whose judgement failed, as while the API was away: each had its turn already. */
const failedAtOnce = 4;
/** Requests that were left before yield to requests never judged, but not for ever. */
const againAtOnce = 15;

/** Fields that the order depends on. */
export interface Due {
  readonly summary: Pick<RequestSummary, 'signer' | 'requestedAt' | 'node'>;
  /** Milliseconds of uptime; undefined: never judged. */
  readonly lookAt?: number;
  /** Judgements in a row that failed. */
  readonly failures?: number;
}

/** Nodes whose requests come first. */
export interface Nodes {
  readonly own: string;
  /** Nodes that a judgement has found to exist. */
  readonly known: ReadonlySet<string>;
}

/**
 * Due requests of this round, at most `mostAtOnce`: first one of this machine's own node, however many other requests
 * are due. Where not all fit into a round, each kind of request has a share, so that no kind keeps another waiting; the
 * unused part of a share goes to requests never judged, the newest first.
 */
export function nextBatch<T extends Due>(due: readonly T[], { own, known }: Nodes): readonly T[] {
  const isOwn = ({ summary }: Due): number => Number(summary.node === own);
  const ordered = due.toSorted((a, b) => isOwn(b) - isOwn(a) || byOrder(a, b));
  if (due.length <= mostAtOnce) return ordered;
  const fresh = ordered.filter(({ lookAt }) => lookAt === undefined);
  const again = ordered.filter(({ lookAt }) => lookAt !== undefined);
  const isKnown = ({ summary: { node } }: Due): boolean => node !== undefined && known.has(node);
  const shares: readonly (readonly [Iterable<T>, number])[] = [
    [ordered, 1],
    [onePerNode(ordered.filter(isKnown)), knownAtOnce],
    [again.filter(({ failures = 0 }) => failures > 0), failedAtOnce],
    [fresh, newestAtOnce],
    [onePerNode(fresh.toReversed()), oldestAtOnce],
    [onePerNode(again), againAtOnce],
  ];
  const taken = new Set<T>();
  for (const [from, count] of shares) take(from, Math.min(taken.size + count, mostAtOnce), taken);
  take(fresh, mostAtOnce, taken);
  // Requests left before whose node has no Node get their share and no more: else a flood is read again without end.
  take(onePerNode(again.filter(isKnown)), mostAtOnce, taken);
  return [...taken];
}

/** Adds requests until `taken` has `most`. */
function take<T>(from: Iterable<T>, most: number, taken: Set<T>): void {
  for (const each of from) {
    if (taken.size >= most) return;
    taken.add(each);
  }
}

function byOrder(a: Due, b: Due): number {
  if (a.lookAt === undefined && b.lookAt === undefined) {
    return b.summary.requestedAt.getTime() - a.summary.requestedAt.getTime();
  }
  return (a.lookAt ?? -Infinity) - (b.lookAt ?? -Infinity);
}

/**
 * First request of each node and signer, so that a client-certificate request in a node's name does not keep the node's
 * own requests waiting. Requests that name no node are all kept.
 */
function* onePerNode<T extends Due>(ordered: readonly T[]): Generator<T> {
  const seen = new Set<string>();
  for (const each of ordered) {
    const { signer, node } = each.summary;
    const asked = `${signer} ${node}`;
    if (node !== undefined && seen.has(asked)) continue;
    if (node !== undefined) seen.add(asked);
    yield each;
  }
}

/** More new requests in a minute than kubelets make: requesters must not decide how often each request is reported. */
export class Pressure {
  #minute = 0;
  #count = 0;
  #before = 0;

  /** `uptimeMs`: uptime, so that a change of the clock does not count. */
  note(count: number, uptimeMs: number): void {
    this.#beginRound(uptimeMs);
    this.#count += count;
  }

  /** Stays high for a minute after the pressure has gone. */
  isHigh(uptimeMs: number): boolean {
    this.#beginRound(uptimeMs);
    return Math.max(this.#count, this.#before) > mostAtOnce;
  }

  #beginRound(uptimeMs: number): void {
    const minute = Math.floor(uptimeMs / 60_000);
    if (minute === this.#minute) return;
    this.#before = minute === this.#minute + 1 ? this.#count : 0;
    this.#minute = minute;
    this.#count = 0;
  }
}

/** Requests judged at a time: one that waits for the API server delays no other. */
export const lanes = 4;

/** The requests of one node stay in one lane, in their order: the decision on the first counts for the next. */
export function byNode<T extends Due>(batch: readonly T[]): readonly (readonly T[])[] {
  return [...Map.groupBy(batch, (each) => each.summary.node ?? each).values()];
}

export const mostRemembered = bounds.request.most.remembered;

interface Remembered extends Due {
  readonly isSettled?: boolean;
}

/**
 * Requests to forget where there are too many: first settled ones, then those that were left, the oldest of each first,
 * then those never judged. Requests of known nodes and of this machine's own are the last.
 */
export function toForget<T extends Remembered>(waiting: readonly T[], { own, known }: Nodes): readonly T[] {
  const count = waiting.length - mostRemembered;
  if (count <= 0) return [];
  const rank = ({ isSettled = false, lookAt, summary: { node = '' } }: Remembered): number => {
    if (isSettled) return 0;
    return (node === own || known.has(node) ? 3 : 1) + Number(lookAt === undefined);
  };
  const ordered = waiting.toSorted(
    (a, b) => rank(a) - rank(b) || a.summary.requestedAt.getTime() - b.summary.requestedAt.getTime(),
  );
  return ordered.slice(0, count);
}
