// Which of the requests that wait are looked at now. Whoever may ask decides how many there are, and a kubelet that
// could not start for a day has left hundreds: so many are looked at at a time, and none is left out for good. Pure.
import type { Outline } from './outline.ts';

/** A look at one are up to three reads. */
export const mostAtOnce = 100;
/** Until the next hundred. */
export const turnMs = 5000;

/** What the order depends on. */
export interface Due {
  readonly outline: Pick<Outline, 'requestedAt' | 'node'>;
  /** Milliseconds since the epoch; undefined: it was never looked at. */
  readonly lookAt?: number;
}

/**
 * Of those that are due, at most so many, first one of this machine's own node, whoever else asks. Where not all have
 * their turn, each node has one request in it, the newest, for which its kubelet waits, before any has a second.
 */
export function nextTurn<T extends Due>(due: readonly T[], ownNode: string): readonly T[] {
  const ordered = due.toSorted(byOrder).toSorted(ownFirst(ownNode));
  if (due.length <= mostAtOnce) return ordered;
  const [first, ...others] = onePerNode(ordered);
  const turn = [...(first === undefined ? [] : [first]), ...byTurns(others)].slice(0, mostAtOnce);
  if (turn.length === mostAtOnce) return turn;
  const taken = new Set(turn);
  return [...turn, ...byTurns(ordered.filter((each) => !taken.has(each)))].slice(0, mostAtOnce);
}

/**
 * The newest that was never looked at, the oldest of these, and what has been due again for longest, one after the
 * other: the newest alone would leave the others behind as long as they come faster than turns.
 */
function byTurns<T extends Due>(ordered: readonly T[]): T[] {
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
    return b.outline.requestedAt.getTime() - a.outline.requestedAt.getTime();
  }
  return (a.lookAt ?? -Infinity) - (b.lookAt ?? -Infinity);
}

const ownFirst =
  (ownNode: string) =>
  (a: Due, b: Due): number =>
    Number(b.outline.node === ownNode) - Number(a.outline.node === ownNode);

/** What names no node says nothing of whose it is: it stays. */
function* onePerNode<T extends Due>(ordered: readonly T[]): Generator<T> {
  const seen = new Set<string>();
  for (const each of ordered) {
    const { node } = each.outline;
    if (node !== undefined && seen.has(node)) continue;
    if (node !== undefined) seen.add(node);
    yield each;
  }
}
