// The only place that reads the machine's time. All other code takes a Clock, or a plain `now`. Delays are slept in
// pieces, with a check of the wall clock after each: a timer stands still while a machine is suspended
// (CLOCK_MONOTONIC), and Node turns delays above 2^31 - 1 ms into 1 ms.
import { readFileSync } from 'node:fs';

export interface Clock {
  /** Wall-clock time. */
  now(): Date;
  /**
   * Seconds since the boot, suspended time included (/proc/uptime); undefined where unknown. A clock knows it always or
   * never, so that a time by uptime is never compared with one by the wall clock.
   */
  uptimeSeconds(): number | undefined;
  /**
   * Resolves after `ms` (milliseconds), or immediately when `signal` aborts. Never rejects. When the machine was
   * suspended, or its clock set forward, past the end of that time, it resolves within half a minute; a clock that is
   * set back does not prolong it.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/**
 * The remembered time, or now where it lies in the future: then the clock has been set back since, and the state that
 * it dates began now at the latest. Otherwise a wait for a later time lasts until the old time is reached again. Pure.
 */
export function notLater(remembered: Date | undefined, present: Date): Date {
  return remembered === undefined || remembered > present ? present : remembered;
}

/**
 * Whether a remembered time is younger than `forMs`. A time in the future does not count: the clock was wrong then.
 * Pure.
 */
export function isRecent(remembered: Date | undefined, forMs: number, present: Date): boolean {
  const age = remembered === undefined ? -1 : present.getTime() - remembered.getTime();
  return age >= 0 && age < forMs;
}

/** The time in whole seconds, as metav1.Time and Go's time.RFC3339 write it: `2026-11-21T12:00:00Z`. Pure. */
export const secondsText = (date: Date): string => date.toISOString().replace(/\.\d+Z$/, 'Z');

/** Milliseconds that no clock adjustment moves; where the uptime is unknown, by the wall clock. */
export const steadyMs = (clock: Pick<Clock, 'now' | 'uptimeSeconds'>): number =>
  (clock.uptimeSeconds() ?? clock.now().getTime() / 1000) * 1000;

const now = (): Date => new Date();

const longestPieceMs = 30_000;

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const end = now().getTime() + ms;
  let left = ms;
  do {
    const piece = Math.min(Math.max(left, 0), longestPieceMs);
    if ((await sleepPiece(piece, signal)) === 'aborted') return;
    left = Math.min(left - piece, end - now().getTime());
  } while (left > 0);
}

function sleepPiece(ms: number, signal?: AbortSignal): Promise<'over' | 'aborted'> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve('aborted');
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve(signal?.aborted === true ? 'aborted' : 'over');
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}

function readUptime(): number | undefined {
  try {
    const seconds = Number.parseFloat(readFileSync('/proc/uptime', 'utf8'));
    return Number.isFinite(seconds) ? seconds : undefined;
  } catch {
    return undefined; // not Linux, or /proc hidden: then a jump of the clock cannot be detected
  }
}

/** Uptime for a Clock: a read that fails once (no file could be opened) is extrapolated from the last one. */
export function createUptime(
  read: () => number | undefined = readUptime,
  monotonicMs: () => number = () => performance.now(),
): () => number | undefined {
  let last: { readonly seconds: number | undefined; readonly atMs: number } | undefined;
  return () => {
    if (last !== undefined && last.seconds === undefined) return undefined;
    const [seconds, atMs] = [read(), monotonicMs()];
    if (seconds === undefined && last?.seconds !== undefined) return last.seconds + (atMs - last.atMs) / 1000;
    last = { seconds, atMs };
    return seconds;
  };
}

export const systemClock: Clock = { now, uptimeSeconds: createUptime(), sleep };
