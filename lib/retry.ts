// Polls, retries and bounded waits.
import { type Clock, steadyMs } from './clock.ts';

interface BackoffOptions {
  readonly firstMs: number;
  readonly longestMs: number;
  /** Number from 0 to 1: spreads many waiters. Default: no spread, always the full delay. */
  readonly random?: (() => number) | undefined;
}

/**
 * The wait after failure `attempt` in a row, from 1: doubling up to a limit, between half of the full delay and all of
 * it.
 */
export function backoffMs(attempt: number, { firstMs, longestMs, random = () => 1 }: BackoffOptions): number {
  const full = Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(attempt, 1) - 1, 30));
  return Math.round(full * (0.5 + random() / 2));
}

interface Patience {
  readonly forMs: number;
  readonly everyMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Result of `look`; undefined when there is none in time, or when the signal aborts. */
export const poll = <T>(
  look: () => T | undefined | Promise<T | undefined>,
  patience: Patience,
): Promise<T | undefined> => pollUntil(look, (found) => found !== undefined, patience);

/** First result of `look` that `isFinal`; the last one when there is none in time, or when the signal aborts. */
export async function pollUntil<T>(
  look: () => T | Promise<T>,
  isFinal: (found: T) => boolean,
  { forMs, everyMs, clock, signal }: Patience,
): Promise<T> {
  const until = steadyMs(clock) + forMs;
  for (;;) {
    const found = await look();
    if (isFinal(found) || signal.aborted || steadyMs(clock) >= until) return found;
    await clock.sleep(everyMs, signal);
  }
}

/** Retries a failure for which `isPassing` returns true. Throws the last failure. */
export async function retry<T>(
  work: () => Promise<T>,
  isPassing: (err: unknown) => boolean,
  { forMs, everyMs, clock, signal }: Patience,
): Promise<T> {
  const until = steadyMs(clock) + forMs;
  for (;;) {
    try {
      return await work();
    } catch (err) {
      if (signal.aborted || steadyMs(clock) >= until || !isPassing(err)) throw err;
    }
    await clock.sleep(everyMs, signal);
  }
}

/**
 * Resolves when `work` does, after `ms` milliseconds, or when the signal aborts. Leaves no timer. Rejects when `work`
 * does.
 */
export async function waitAtMost(ms: number, work: Promise<unknown>, { clock, signal }: Waiting): Promise<void> {
  const over = new AbortController();
  const signals = signal === undefined ? [over.signal] : [over.signal, signal];
  try {
    await Promise.race([work, clock.sleep(ms, AbortSignal.any(signals))]);
  } finally {
    over.abort();
  }
}

interface Waiting {
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/** Wakes the one loop that waits for it. Any number of calls before that loop waits again are one. */
export class Wake {
  #isCalled = false;
  #end: () => void = () => undefined;

  /** Never blocks. */
  call(): void {
    this.#isCalled = true;
    this.#end();
  }

  /** Forgets the calls so far. */
  clear(): void {
    this.#isCalled = false;
  }

  /**
   * Resolves at a call (immediately when one has come since the last wait), after `ms` milliseconds, or when the signal
   * aborts. Returns whether there was a call. Never rejects.
   */
  async wait({ clock, signal }: { clock: Clock; signal: AbortSignal }, ms = anHourMs): Promise<boolean> {
    if (!this.#isCalled) {
      const called = new Promise<void>((resolve) => (this.#end = resolve));
      await waitAtMost(ms, called, { clock, signal });
    }
    const isCalled = this.#isCalled;
    this.#isCalled = false;
    return isCalled;
  }
}

const anHourMs = 3_600_000;
