// Which of the requests that wait are looked at now. Whoever may ask decides how many there are, and a kubelet that
// could not start for a day has left hundreds: so many are looked at at a time, and none is left out for good. Pure.
import type { Outline } from './request.ts';

/** A look at one are up to three reads. */
export const mostAtOnce = 100;
/** Until the next hundred. */
export const turnMs = 5000;

/** What the order depends on. */
export interface Due {
  readonly outline: Pick<Outline, 'requestedAt'>;
  /** Milliseconds since the epoch; undefined: it was never looked at. */
  readonly lookAt?: number;
}

/**
 * Of those that are due, at most so many. First what was never looked at, the newest first: it is the one that its
 * kubelet waits for. Then what has been due for longest.
 */
export function nextTurn<T extends Due>(due: readonly T[]): readonly T[] {
  const order = (a: T, b: T): number => {
    if (a.lookAt === undefined && b.lookAt === undefined) {
      return b.outline.requestedAt.getTime() - a.outline.requestedAt.getTime();
    }
    return (a.lookAt ?? -Infinity) - (b.lookAt ?? -Infinity);
  };
  return due.toSorted(order).slice(0, mostAtOnce);
}
