// Requests that wait for a decision: what stays in memory of each, and which of them are looked at now. Pure. A request
// is read again when it is looked at, because the requester decides how large it is, up to 1.5 MiB, and how many there
// are. A kubelet that could not start for a day has left hundreds: they are looked at in batches, and none is left out
// for good.
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

/** A look at one are up to three reads. */
export const mostAtOnce = 100;
/** Until the next hundred. */
export const batchEveryMs = 5000;

/** What the order depends on. */
export interface Due {
  readonly summary: Pick<RequestSummary, 'signer' | 'requestedAt' | 'node'>;
  /** Milliseconds since the epoch; undefined: it was never looked at. */
  readonly lookAt?: number;
}

/**
 * Of those that are due, at most so many, first one of this machine's own node, however many others ask. Where not all have
 * their turn, each node has one request in it, the newest, for which its kubelet waits, before any has a second.
 */
export function nextBatch<T extends Due>(due: readonly T[], ownNode: string): readonly T[] {
  const isOwn = ({ summary }: Due): number => Number(summary.node === ownNode);
  const ordered = due.toSorted((a, b) => isOwn(b) - isOwn(a) || byOrder(a, b));
  if (due.length <= mostAtOnce) return ordered;
  const [first, ...others] = onePerNode(ordered);
  const batch = [...(first === undefined ? [] : [first]), ...interleaved(others)].slice(0, mostAtOnce);
  if (batch.length === mostAtOnce) return batch;
  const taken = new Set(batch);
  return [...batch, ...interleaved(ordered.filter((each) => !taken.has(each)))].slice(0, mostAtOnce);
}

/**
 * The newest that was never looked at, the oldest of these, and what has been due again for longest, one after the
 * other: the newest alone would leave the others behind as long as they come faster than turns.
 */
function interleaved<T extends Due>(ordered: readonly T[]): T[] {
  const fresh = ordered.filter(({ lookAt }) => lookAt === undefined);
  const again = ordered.filter(({ lookAt }) => lookAt !== undefined);
  const taken: T[] = [];
  while (taken.length < mostAtOnce && fresh.length + again.length > 0) {
    taken.push(...[fresh.shift(), fresh.pop(), again.shift()].filter((each) => each !== undefined));
  }
  return taken;
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
    const turn = `${signer} ${node}`;
    if (node !== undefined && seen.has(turn)) continue;
    if (node !== undefined) seen.add(turn);
    yield each;
  }
}
