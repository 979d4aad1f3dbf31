// `status` again and again: until all is well (--wait), or printed when something has changed (--watch).
import { type Clock, systemClock } from '../lib/clock.ts';
import { isCode } from '../lib/errors.ts';
import { pollUntil } from '../lib/retry.ts';
import type { NodeStatus } from '../lib/status/node-report.ts';
import type { StatusReport } from '../lib/status/report.ts';
import { isChanged } from '../lib/status/well.ts';
import type { Io } from './io.ts';

/** One report: its text, its exit code, and what is waited for. */
export interface StatusLook {
  readonly status: NodeStatus | StatusReport;
  readonly text: string;
  readonly exit: number;
  readonly isWell: boolean;
  /** The state in one line. */
  readonly headline: string;
}

interface Again {
  readonly waitMs?: number | undefined;
  readonly isWatched?: boolean | undefined;
  readonly clock?: Clock;
}

const waitEveryMs = 1000;
const watchEveryMs = 5000;

export async function showStatus(look: () => Promise<StatusLook>, again: Again, io: Io): Promise<number> {
  const { waitMs, isWatched = false, clock = systemClock } = again;
  const first = waitMs === undefined ? await look() : await waitUntilWell(look, { waitMs, clock }, io);
  io.stdout.write(first.text);
  return isWatched ? watch(look, first, { clock }, io) : first.exit;
}

/** The first report that is well; the last one when there is none in time. */
export async function waitUntilWell<L extends Pick<StatusLook, 'isWell' | 'headline'>>(
  look: () => Promise<L>,
  { waitMs, clock = systemClock }: { readonly waitMs: number; readonly clock?: Clock },
  { stderr, signal }: Pick<Io, 'stderr' | 'signal'>,
): Promise<L> {
  const beganMs = clock.now().getTime();
  const show = (text: string): void => {
    if (stderr.isTTY === true) stderr.write(`\r\u001B[K${text}`); // ECMA-48: to the start of the line, which is erased
  };
  let failure: unknown;
  const tried = async (): Promise<L | undefined> => {
    const found = await look().catch((err: unknown) => {
      failure = err;
      if (!isCode(err, 'KubeUnavailable', 'KubeForbidden', 'KubeUnauthorized')) throw err; // no waiting changes it
      return undefined;
    });
    const seconds = Math.round((clock.now().getTime() - beganMs) / 1000);
    show(`${found?.headline ?? 'The API does not answer.'} Waiting (${seconds} s) ...`);
    return found;
  };
  const patience = { forMs: waitMs, everyMs: waitEveryMs, clock, signal };
  const last = await pollUntil(tried, (found) => found?.isWell === true, patience);
  show('');
  if (last === undefined) throw failure;
  return last;
}

async function watch(
  look: () => Promise<StatusLook>,
  first: StatusLook,
  { clock }: Required<Pick<Again, 'clock'>>,
  io: Io,
): Promise<number> {
  let shown = first;
  for (;;) {
    await clock.sleep(watchEveryMs, io.signal);
    if (io.signal.aborted) return shown.exit;
    const next = await look();
    if (io.signal.aborted || !isChanged(shown.status, next.status)) continue;
    io.stdout.write(`\n${next.text}`);
    shown = next;
  }
}
