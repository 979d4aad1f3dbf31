// Whether something on this machine says that its clock is synchronised. Node cannot ask the kernel (adjtimex), so the
// marker file of systemd-timesyncd is read; timedatectl, which says what the kernel says whoever keeps the time (chrony,
// ntpd, timesyncd), is a process of its own and asked only by those who need to know.
import { execFile } from 'node:child_process';
import { access } from 'node:fs/promises';

/** systemd-timesyncd.service(8): created when the clock has been set from the network since boot. */
const timesyncdMarker = '/run/systemd/timesync/synchronized';
/** It waits for D-Bus, which may not answer yet at boot. */
const askMs = 2000;

export type ClockStatement = 'auto' | boolean;

export interface ClockQuestion {
  /** Whether to ask timedatectl, too. Default: false. */
  readonly thorough?: boolean;
  readonly marker?: string;
}

/** What nobody says is false. */
export async function isClockSynchronised(
  statement: ClockStatement,
  { thorough = false, marker = timesyncdMarker }: ClockQuestion = {},
): Promise<boolean> {
  if (statement !== 'auto') return statement;
  const isMarked = await access(marker).then(
    () => true,
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
