// Restart of the kubelet by its unit, for runs that may neither signal processes nor see which files they read: those
// on a worker. The marker of the kubelet stays until a run that restarts has acted on it.
import { errorText } from '../errors.ts';
import { runSystemctl, stateOf, systemdRuns } from '../host/systemd.ts';
import type { Log } from '../log.ts';
import type { Markers } from './markers.ts';

const unit = 'kubelet.service';
const restartMs = 90_000;

interface UnitRestarting {
  readonly markers: Markers;
  /** Otherwise a kubelet that has read former content is left to a run that restarts it. */
  readonly restarts: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Acts on the marker, where systemd manages the kubelet. Never rejects. */
export async function restartKubeletUnit({ markers, restarts, log, signal }: UnitRestarting): Promise<void> {
  if (!systemdRuns()) return markers.remove('kubelet');
  const marker = await markers.look('kubelet');
  if (marker === undefined) return;
  const verdict = judgeUnit(await stateOf(unit, signal), restarts);
  if (verdict === 'keep') return;
  try {
    if (verdict === 'restart') {
      await runSystemctl(['restart', unit], { timeoutMs: restartMs, signal });
      log.info('restart.done', { component: 'kubelet', message: `systemctl restart ${unit}` });
    }
    await markers.settle('kubelet', marker);
  } catch (err) {
    log.warn('restart.failed', { component: 'kubelet', err: errorText(err) });
  }
}

/**
 * Pure. A kubelet that runs, or waits for its next start, has read former content; a kubelet that is about to start
 * reads the new content, and a kubelet that the administrator has stopped stays stopped. `state`: as systemd reports
 * it, `activating/auto-restart`; undefined where systemd did not answer. `keep` leaves the marker to the next run that
 * restarts.
 */
export function judgeUnit(state: string | undefined, restarts: boolean): 'restart' | 'keep' | 'forget' {
  if (state === undefined) return 'keep';
  if (!/^(?:active|failed|reloading)\/|^activating\/auto-restart/.test(state)) return 'forget';
  return restarts ? 'restart' : 'keep';
}
