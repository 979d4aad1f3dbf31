// The only place that asks the machine for the time. Everything else takes a Clock, or a plain `now`.
// Delays are measured on the wall clock in short pieces: a timer stands still while a machine is suspended
// (CLOCK_MONOTONIC), and Node turns delays above 2^31 - 1 ms into 1 ms.
import { readFileSync } from 'node:fs';

export interface Clock {
  /** Wall-clock time. */
  now(): Date;
  /** Seconds since the machine was switched on, suspended time included (/proc/uptime); undefined where unknown. */
  uptimeSeconds(): number | undefined;
  /** Resolves after `ms` (milliseconds), or at once when `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

const longestTimerMs = 2 ** 31 - 1;

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(Math.max(ms, 0), longestTimerMs));
    signal?.addEventListener('abort', done, { once: true });
  });
}

function uptimeSeconds(): number | undefined {
  try {
    const seconds = Number.parseFloat(readFileSync('/proc/uptime', 'utf8'));
    return Number.isFinite(seconds) ? seconds : undefined;
  } catch {
    return undefined; // not Linux, or /proc hidden: then a jump of the clock cannot be told
  }
}

export const systemClock: Clock = { now: () => new Date(), uptimeSeconds, sleep };
