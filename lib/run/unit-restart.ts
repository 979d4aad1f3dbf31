// Restarts on a machine without the key of the CA. Its units may signal no process and see of none which files it reads:
// its kubelet is marked at each write, and restarted by its unit. A certificate was tried at the API server before.
import type { RegenConfig } from '../config/mode-settings.ts';
import { errorText, type RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { stateOf, systemdRuns } from '../host/systemd.ts';
import { componentsOf, judgeUnit } from '../restart/decide.ts';
import { createMarkingStore, Markers } from '../restart/markers.ts';
import { untilNextRun } from '../restart/processes.ts';
import { restart } from '../restart/restart.ts';
import type { Store } from '../store/store.ts';
import type { HostRestarts } from './host-restart.ts';
import type { Runtime } from './runtime.ts';

const unit = 'kubelet.service';

/** Without `restart` in the configuration, a kubelet that has read former content is left to a run that has it. */
export function createUnitRestarts(
  { lockDir, restart: mayRestart }: RegenConfig,
  disk: Store,
  runtime: Runtime,
): HostRestarts {
  const { resolved, log, signal } = runtime;
  const onFailed = ({ code, message: err }: RecoveryError): void =>
    log.warn('restart.failed', { path: lockDir, code, err });
  const markers = new Markers({ state: new RunState(lockDir), onFailed });
  const restarting = { component: 'kubelet', advice: untilNextRun, signal };
  return {
    store: createMarkingStore(disk, componentsOf(resolved), markers),
    observe: async () => undefined,
    async restart() {
      if (!systemdRuns()) await markers.remove('kubelet');
      const marker = await markers.look('kubelet');
      const verdict = marker && judgeUnit(await stateOf(unit, signal), mayRestart);
      if (marker === undefined || verdict === 'keep') return [];
      try {
        if (verdict === 'restart') {
          const message = await restart([{ by: 'unit', unit, isAwaited: true }], restarting);
          log.info('restart.done', { component: 'kubelet', message });
        }
        await markers.settle('kubelet', marker);
      } catch (err) {
        log.warn('restart.failed', { component: 'kubelet', err: errorText(err) });
      }
      return [];
    },
    prove: async () => [],
    returnLease: async () => undefined,
    servedNotAfter: async () => undefined,
  };
}
