// Whether something on this machine says that its clock is synchronised. Node cannot ask the kernel (adjtimex), and no
// file below /proc or /sys tells it, so the marker file of systemd-timesyncd is read. timedatectl says what the kernel
// says, also where chrony or ntpd keep the time; it is a process of its own and asked only where it matters.
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../clock.ts';

/** Mounted into containers, which see nothing else of /run. */
export const timesyncdDirectory = '/run/systemd/timesync';
/**
 * systemd-timesyncd.service(8): touched at each synchronisation, at least every 34 minutes (PollIntervalMaxSec). One that is
 * older says nothing: the machine may have slept for months since. One of the future says that the clock was set back.
 */
const timesyncdMarker = join(timesyncdDirectory, 'synchronized');
const oldestMs = 24 * 3_600_000;
const skewMs = 60_000;
/** It waits for D-Bus, which may not answer yet at boot. */
const askMs = 2000;

export type ClockStatement = 'auto' | boolean;

interface ClockQuestion {
  /** Whether to ask timedatectl, too. Default: false. */
  readonly thorough?: boolean;
  readonly marker?: string;
  readonly clock?: Pick<Clock, 'now'>;
}

/** False where nothing says so. */
export async function isClockSynchronised(
  statement: ClockStatement,
  { thorough = false, marker = timesyncdMarker, clock = systemClock }: ClockQuestion = {},
): Promise<boolean> {
  if (statement !== 'auto') return statement;
  const isMarked = await stat(marker).then(
    ({ mtimeMs }) => {
      const ageMs = clock.now().getTime() - mtimeMs;
      return ageMs >= -skewMs && ageMs < oldestMs;
    },
    () => false,
  );
  return isMarked || (thorough && (await timedatectlSays()));
}

/** timedatectl(1). Where there is none, or it does not answer in time, nothing is known. */
function timedatectlSays(): Promise<boolean> {
  const options = { timeout: askMs, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    execFile('timedatectl', ['show', '--property=NTPSynchronized', '--value'], options, (err, told) => {
      resolve(err === null && told.trim() === 'yes');
    });
  });
}
