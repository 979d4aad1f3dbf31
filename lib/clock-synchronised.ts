// Whether something on this machine says that its clock is synchronised. Node cannot ask the kernel (adjtimex), so the
// marker file of systemd-timesyncd is read; where time is kept in another way, the configuration says so.
import { access } from 'node:fs/promises';

/** systemd-timesyncd.service(8): created when the clock has been set from the network since boot. */
const timesyncdMarker = '/run/systemd/timesync/synchronized';

export type ClockStatement = 'auto' | boolean;

export async function isClockSynchronised(statement: ClockStatement, marker = timesyncdMarker): Promise<boolean> {
  if (statement !== 'auto') return statement;
  return access(marker).then(
    () => true,
    () => false,
  );
}
