// Notices that the wall clock was set while this process ran: it moved by another amount than the time since the
// machine was switched on, which counts suspend (/proc/uptime). Months off or asleep are no jump. A jump delays signing
// until the clock has kept still for ten seconds, and for a minute at most, however often it is set. Pure.

export interface ClockWatch {
  readonly wallMs: number;
  readonly uptimeMs: number;
  /** The jumps that are not yet lived down, by uptime. */
  readonly jumps?: { readonly firstMs: number; readonly lastMs: number };
}

export interface ClockObservation {
  /** For the next call; undefined where uptime is unknown: then nothing can be told. */
  readonly watch: ClockWatch | undefined;
  /** How far the clock has just been set forward, or back when negative. */
  readonly jumpedMs?: number;
  /** Until then nothing is signed. */
  readonly settlesAt?: Date;
}

/** Smaller steps are what time synchronisation does after some months off, and harm no certificate. */
const smallestJumpMs = 60_000;
const stillMs = 10_000;
const longestMs = 60_000;

export function observeClock(
  previous: ClockWatch | undefined,
  now: Date,
  uptimeSeconds: number | undefined,
): ClockObservation {
  if (uptimeSeconds === undefined) return { watch: undefined };
  const wallMs = now.getTime();
  const uptimeMs = uptimeSeconds * 1000;
  if (previous === undefined) return { watch: { wallMs, uptimeMs } };

  const differenceMs = wallMs - previous.wallMs - (uptimeMs - previous.uptimeMs);
  const jumped = Math.abs(differenceMs) >= smallestJumpMs ? { jumpedMs: Math.round(differenceMs) } : {};
  const firstMs = previous.jumps?.firstMs ?? ('jumpedMs' in jumped ? uptimeMs : undefined);
  const lastMs = 'jumpedMs' in jumped ? uptimeMs : previous.jumps?.lastMs;
  if (firstMs === undefined || lastMs === undefined) return { watch: { wallMs, uptimeMs } };

  const settlesMs = Math.min(lastMs + stillMs, firstMs + longestMs);
  // At the end of the minute signing goes on even if the clock has just been set again: that jump opens no new minute.
  if (uptimeMs >= settlesMs) return { watch: { wallMs, uptimeMs }, ...jumped };
  return {
    watch: { wallMs, uptimeMs, jumps: { firstMs, lastMs } },
    ...jumped,
    settlesAt: new Date(wallMs + settlesMs - uptimeMs),
  };
}
