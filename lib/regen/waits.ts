// What the loop does after one look: look again soon, wait, or be done. Pure.

/** What one look has shown and done. */
export interface PassOutcome {
  /** Rows that could not be read. */
  readonly unavailable: number;
  readonly written: number;
  readonly conflicts: number;
  readonly failed: number;
  /** Decisions that something must be done which is not possible now. */
  readonly blocked: number;
  /** Contradictions that are looked at again before they are believed. */
  readonly settling: number;
  readonly recheckAt: Date;
}

export interface Situation {
  readonly outcome: PassOutcome;
  /** Looks in a row, this one included, after which there was something left to do. */
  readonly streak: number;
  /** Since when there has been something left to do. */
  readonly busySince: Date;
  readonly now: Date;
  readonly once: boolean;
}

export type Next =
  | { readonly kind: 'again'; readonly delayMs: number }
  | { readonly kind: 'wait'; readonly delayMs: number }
  | { readonly kind: 'done'; readonly converged: boolean };

/** The clock may be set and the machine may be suspended while we wait: look at the clock at least this often. */
const longestWaitMs = 30_000;
const shortestWaitMs = 100;
/** Looks that follow each other at once: a recovery needs two, a lost race one more. */
const quickLooks = 5;
/** With `once`, what fails again and again for this long is reported instead. */
const patienceMs = 30_000;

export function next({ outcome, streak, busySince, now, once }: Situation): Next {
  const { unavailable, written, conflicts, failed, settling, recheckAt } = outcome;
  const again = (delayMs: number): Next => {
    if (once && now.getTime() - busySince.getTime() >= patienceMs) return { kind: 'done', converged: false };
    return { kind: 'again', delayMs };
  };
  if (failed > 0) return again(backoff(200, streak, longestWaitMs));
  if (unavailable > 0) return again(streak < 100 ? backoff(100, streak, 1000) : 10_000);
  if (written + conflicts > 0)
    return again(streak <= quickLooks ? 0 : backoff(100, streak - quickLooks, longestWaitMs));
  const untilMs = recheckAt.getTime() - now.getTime();
  if (once && settling === 0) return { kind: 'done', converged: true };
  return { kind: 'wait', delayMs: Math.min(Math.max(untilMs, shortestWaitMs), longestWaitMs) };
}

/** Whether something is left to do at once, so that the next look counts as the same attempt. */
export function isBusy({ unavailable, written, conflicts, failed }: PassOutcome): boolean {
  return unavailable + written + conflicts + failed > 0;
}

export function backoff(firstMs: number, attempt: number, longestMs: number): number {
  return Math.min(firstMs * 2 ** Math.min(attempt - 1, 30), longestMs);
}

/** Between two knocks at an API server that does not answer: a start takes seconds, so ten times a second at first. */
export function knockDelay(waitedMs: number): number {
  if (waitedMs < 30_000) return 100;
  return waitedMs < 120_000 ? 500 : 1000;
}
