// How long to wait after the n-th failure in a row: doubling, with jitter, up to a limit.

export interface BackoffOptions {
  readonly firstMs: number;
  readonly longestMs: number;
  /** From 0 to 1. */
  readonly random: () => number;
}

/** `attempt` counts from 1. Between half of the full delay and all of it, so that many waiters spread out. */
export function backoffMs(attempt: number, { firstMs, longestMs, random }: BackoffOptions): number {
  const full = Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(attempt, 1) - 1, 30));
  return Math.round(full * (0.5 + random() / 2));
}
