// Restarts on a machine without the key of the CA. Its units may signal no process and see of none which files it reads:
// its kubelet is marked at each write, and restarted by its unit. A certificate was tried at the API server before.
import type { RegenConfig } from '../config/mode-settings.ts';
import type { RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { componentsOf } from '../restart/decide.ts';
import { restartKubeletUnit } from '../restart/kubelet-unit.ts';
import { createMarkingStore, Markers } from '../restart/markers.ts';
import type { Store } from '../store/store.ts';
import type { HostRestarts } from './host-restart.ts';
import type { Runtime } from './runtime.ts';

export function createUnitRestarts({ lockDir, restart }: RegenConfig, disk: Store, runtime: Runtime): HostRestarts {
  const { resolved, log, signal } = runtime;
  const onFailed = ({ code, message: err }: RecoveryError): void =>
    log.warn('restart.failed', { path: lockDir, code, err });
  const markers = new Markers({ state: new RunState(lockDir), onFailed });
  return {
    store: createMarkingStore(disk, componentsOf(resolved), markers),
    observe: async () => undefined,
    async restart() {
      await restartKubeletUnit({ markers, restarts: restart, log, signal });
      return [];
    },
    prove: async () => [],
    returnLease: async () => undefined,
    servedNotAfter: async () => undefined,
  };
}
