// Whether a source on this machine confirms that its clock is synchronised. Node cannot query the kernel (adjtimex),
// and no file below /proc or /sys shows it, so the marker file of systemd-timesyncd is read. timedatectl reports the
// kernel's state, also where chrony or ntpd keep the time; it is a process of its own and run only where it matters.
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../clock.ts';

/** Mounted into containers, which have no other part of /run. */
export const timesyncdDirectory = '/run/systemd/timesync';
/**
 * systemd-timesyncd.service(8): touched at each synchronisation, at least every 34 minutes (PollIntervalMaxSec). An
 * older marker proves nothing: the machine may have slept for months since. A marker in the future means that the clock
 * was set back.
 */
const timesyncdMarker = join(timesyncdDirectory, 'synchronized');
const oldestMs = 24 * 3_600_000;
const skewMs = 60_000;
/** timedatectl waits for D-Bus, which may not answer yet at boot. */
const askMs = 2000;

export type ClockStatement = 'auto' | boolean;

interface ClockQuestion {
  /** Whether to run timedatectl, too. Default: false. */
  readonly thorough?: boolean;
  readonly marker?: string;
  readonly clock?: Pick<Clock, 'now'>;
}

/** False where no source confirms it. */
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

/** timedatectl(1). False where it is absent, or does not answer in time. */
function timedatectlSays(): Promise<boolean> {
  const options = { timeout: askMs, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    execFile('timedatectl', ['show', '--property=NTPSynchronized', '--value'], options, (err, told) => {
      resolve(err === null && told.trim() === 'yes');
    });
  });
}
