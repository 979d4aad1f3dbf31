// The kubelet reads an expired certificate, and the CA of kubelet.conf, at its start only. Before such a file changes,
// a note is left, and it stays until the kubelet was restarted, by this run or a later one. When nothing was written
// the note is removed, so that a write that fails again and again restarts nothing.
import { errorText } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { runSystemctl, stateOf, systemdRuns } from '../host/systemd.ts';
import type { Location } from '../inventory/model.ts';
import type { Log } from '../log.ts';
import { writeAndSee } from '../restart/markers.ts';
import type { Material, Seen, Store } from '../store/store.ts';

interface Noting {
  /** The files of this host. */
  readonly store: Store;
  /** Directory of the note. */
  readonly lockDir: string;
  readonly signal: AbortSignal;
}

const noteName = 'worker-restart-kubelet';
/** A file that is no note of this version counts as one: a restart too many is better than none. */
const asNote = (value: unknown): true | undefined => (value === true ? value : undefined);

/** Writes like the store, with the note that the kubelet runs with former content. */
export async function writeNoted(
  location: Location,
  next: Material,
  seen: Seen,
  { store, lockDir, signal }: Noting,
): Promise<'written' | 'conflict'> {
  const state = new RunState(lockDir);
  const before = await state.look(noteName, asNote);
  await state.keep(noteName, true);
  const { outcome, err, changed } = await writeAndSee(store, location, next, seen, signal);
  if (!changed && before === undefined) await state.forget(noteName);
  if (outcome === undefined) throw err;
  return outcome;
}

const kubelet = 'kubelet.service';
const systemctlMs = 90_000;

interface Restarting extends Pick<Noting, 'lockDir' | 'signal'> {
  /** Otherwise a kubelet that has read former content is left to a run that restarts it. */
  readonly restarts: boolean;
  /** This run has written a file: a note may not have been possible. */
  readonly hasWritten: boolean;
  readonly log: Log;
}

/** Acts on the note, where systemd manages the kubelet. Never rejects. */
export async function restartNoted({ restarts, hasWritten, lockDir, log, signal }: Restarting): Promise<void> {
  const state = new RunState(lockDir);
  if (!systemdRuns()) return state.forget(noteName);
  if (!hasWritten && (await state.look(noteName, asNote)) === undefined) return;
  const verdict = judgeNote(await stateOf(kubelet, signal), restarts);
  if (verdict === 'keep') return;
  try {
    if (verdict === 'restart') {
      await runSystemctl(['restart', kubelet], { timeoutMs: systemctlMs, signal });
      log.info('restart.done', { component: 'kubelet', message: `systemctl restart ${kubelet}` });
    }
    await state.forget(noteName);
  } catch (err) {
    log.warn('restart.failed', { component: 'kubelet', err: errorText(err) });
  }
}

/**
 * Pure. A kubelet that runs, or waits for its next start, has read former content; a kubelet that is about to start
 * reads the new content, and a kubelet that the administrator has stopped stays stopped. `state`: as systemd reports
 * it, `activating/auto-restart`; undefined where systemd did not answer. `keep` leaves the note to the next run that
 * restarts.
 */
export function judgeNote(state: string | undefined, restarts: boolean): 'restart' | 'keep' | 'forget' {
  if (state === undefined) return 'keep';
  if (!/^(?:active|failed|reloading)\/|^activating\/auto-restart/.test(state)) return 'forget';
  return restarts ? 'restart' : 'keep';
}
