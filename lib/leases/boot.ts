// When this machine was switched on, and whether that can be believed. A lease's renewal is a wall-clock time, so a
// clock that was stepped since the boot would place renewals of a living holder before it.
// The boot time is worked out twice (when the process starts, and at the judgement): a step in between moves it.
// It is also held against the kernel's own (btime in /proc/stat): where /proc/uptime is not the machine's (lxcfs, time
// namespaces) the two differ, and nothing is known.
// NOTE: a step between the boot and the start of this process cannot be seen; btime moves with the clock. So whoever
// may have renewed in that time is watched before his lease is released (release.ts, mayHaveRenewed).
import { readFileSync } from 'node:fs';
import type { Clock } from '../clock.ts';
import { type Boot, toleranceMs } from './judge.ts';

export type { Boot };

/** btime of /proc/stat in milliseconds since the epoch; undefined where unknown. */
function kernelBootTimeMs(): number | undefined {
  try {
    const seconds = /^btime (\d+)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1];
    return seconds === undefined ? undefined : Number(seconds) * 1000;
  } catch {
    return undefined; // not Linux, or /proc hidden
  }
}

function bootTimeMs(clock: Clock): number | undefined {
  const uptime = clock.uptimeSeconds();
  return uptime === undefined ? undefined : clock.now().getTime() - uptime * 1000;
}

/** Remembers the boot time as it is now (call it when the process starts); the result judges it again when asked. */
export function observeBoot(clock: Clock, kernel: () => number | undefined = kernelBootTimeMs): () => Boot {
  const atStart = bootTimeMs(clock);
  return () => {
    const present = bootTimeMs(clock);
    const byKernel = kernel();
    if (atStart === undefined || present === undefined || byKernel === undefined) {
      return { bootedAt: undefined, clockStepped: false };
    }
    // btime has whole seconds only, hence one more.
    const differs = Math.abs(byKernel - present) > toleranceMs + 1_000;
    return { bootedAt: new Date(present), clockStepped: differs || Math.abs(atStart - present) > toleranceMs };
  };
}
