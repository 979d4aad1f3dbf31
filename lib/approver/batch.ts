// Requests that wait for a decision: what stays in memory of each, and which of them are looked at now. Pure. A request
// is read again when it is looked at, because the requester decides how large it is, up to 1.5 MiB, and how many there
// are. A kubelet that could not start for a day has left hundreds: they are looked at in batches, and none is left out
// for good.
import { bounds } from '../bounds.ts';
import { judgeSize, requestedAt, type SigningRequest } from './request.ts';
import type { SignerPolicy } from './signer-policy.ts';

export interface RequestSummary {
  readonly name: string;
  readonly signer: string;
  readonly uid: string | undefined;
  readonly requestedAt: Date;
  /** Characters of the whole object as JSON. */
  readonly size: number;
  /** The node that it asks for, read once; undefined: it names none, is too large or cannot be read. */
  readonly node?: string;
}

export function requestSummary(request: SigningRequest, policy: Pick<SignerPolicy, 'nodeOf'>): RequestSummary {
  const { name, uid } = request.metadata;
  const size = JSON.stringify(request).length;
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

/**
 * Under a flood so many are looked at in a round, and a round begins every second: 6000 a minute. A look is up to three reads,
 * some 8 ms of an API server that has one more to do. What is asked for meanwhile waits for one round: see `newestAtOnce`.
 */
export const mostAtOnce = 100;
export const batchEveryMs = 1000;
/**
 * So that up to 2400 new requests a minute, whatever they name, are all looked at in the round after they came: the newest
 * forty are all that came since the round before.
 */
const newestAtOnce = 40;
/** Nodes that exist are as many as the cluster has: under a faster flood, each of them is still heard. */
const knownAtOnce = 20;
/** What was there before the flood, from its other end, a node at a time. */
const oldestAtOnce = 20;
/** What was left before yields to what was never looked at, but not for ever. */
const againAtOnce = 15;

/** What the order depends on. */
export interface Due {
  readonly summary: Pick<RequestSummary, 'signer' | 'requestedAt' | 'node'>;
  /** Milliseconds since the epoch; undefined: it was never looked at. */
  readonly lookAt?: number;
}

/** Who comes before others. */
export interface Nodes {
  readonly own: string;
  /** Those that a look has found to exist. */
  readonly known: ReadonlySet<string>;
}

/**
 * Of those that are due, at most so many, first one of this machine's own node, however many others ask. Where not all have
 * room in a round, what is taken has shares, so that no kind of request keeps another waiting; what a share leaves goes to what
 * was never looked at, the newest first.
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
    [fresh, newestAtOnce],
    [onePerNode(fresh.toReversed()), oldestAtOnce],
    [onePerNode(again), againAtOnce],
  ];
  const taken = new Set<T>();
  for (const [from, count] of shares) take(from, Math.min(taken.size + count, mostAtOnce), taken);
  take(fresh, mostAtOnce, taken);
  // What was left of nodes that nobody has registered gets its share and no more: else a flood is read again without end.
  take(onePerNode(again.filter(isKnown)), mostAtOnce, taken);
  return [...taken];
}

/** Until there are so many. */
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
 * And of each signer, so that who asks for a node's client certificate does not keep the node's own requests waiting.
 * Those that name no node are all kept.
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

/** More new requests in a minute than kubelets make: who can ask must not decide how often each of them is told. */
export class Pressure {
  #minute = 0;
  #count = 0;
  #before = 0;

  /** `uptimeMs`: so that a clock that is set does not count. */
  note(count: number, uptimeMs: number): void {
    this.#beginRound(uptimeMs);
    this.#count += count;
  }

  /** For a minute after it has ended, too. */
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

/** Looks that go on at a time: one that waits for the API server keeps no other waiting. */
export const lanes = 4;

/** The requests of one node stay in one lane, in their order: what is decided of the first counts for the next. */
export function byNode<T extends Due>(batch: readonly T[]): readonly (readonly T[])[] {
  return [...Map.groupBy(batch, (each) => each.summary.node ?? each).values()];
}

export const mostRemembered = bounds.request.most.remembered;

interface Remembered extends Due {
  readonly isSettled?: boolean;
}

/**
 * Which to forget of too many: first those that need no further look, then those that were left, the oldest of each first,
 * then what was never looked at. The requests of known nodes and of this machine's own are the last.
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
