// Processes of a component here: found, restarted by the means that fits, and waited for.
import type { Clock } from '../clock.ts';
import { controlPlane } from '../components.ts';
import type { RecoveryError } from '../errors.ts';
import { isRunning, ourPlaces, type ProcessFacts, type ProcessId, readProcesses } from '../host/proc.ts';
import { isOfSession, mainPidOf, systemdRuns, unitOf } from '../host/systemd.ts';
import { poll } from '../retry.ts';
import { type Component, readersOf } from './decide.ts';
import { cannotRestart, type Means, restart, type Restarting } from './restart.ts';

/** Processes on this host, of this machine's control plane. Throws ReadFailed. */
export function readersOnHost(component: Pick<Component, 'name' | 'file'>): readonly ProcessFacts[] {
  return readersOf(component, readProcesses([component.name]), ourPlaces);
}

/** Processes in our own PID namespace: with shareProcessNamespace that is the pod. Throws ReadFailed. */
export function processesInPod(component: string): readonly ProcessId[] {
  return readProcesses([component]).filter(({ isInOurPidNamespace }) => isInOurPidNamespace);
}

export const untilNextRun = 'restart it by hand, or wait for the next run';

const endMs = 30_000;

/**
 * kube-apiserver stops listening and answers pending requests, then waits up to a minute for watches, which it does not
 * close (--shutdown-watch-termination-grace-period is 0). A second signal terminates it immediately (k8s.io/apiserver:
 * pkg/server/signal.go): its clients resume their watches, and local leaders keep their Leases, which they must renew
 * within 10 s.
 */
const drainMs = 5_000;

interface OnHost {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

type HostComponent = Pick<Component, 'name' | 'isService'>;

/** Restarts a process on the host, and describes that. Resolves when the old one has exited. Throws WriteFailed. */
export async function restartProcess(component: HostComponent, reader: ProcessFacts, host: OnHost): Promise<string> {
  const { clock, signal } = host;
  const { name, isService } = component;
  if (!isRunning(reader)) return 'it had ended';
  const restarting = { component: name, advice: untilNextRun, signal };
  const means = await meansOnHost(component, reader, restarting);
  const hasEnded = async (forMs: number): Promise<boolean> =>
    (await poll(() => (isRunning(reader) ? undefined : true), { forMs, everyMs: 50, clock, signal })) ?? false;
  const done = await restart([means], restarting);
  if (means.by === 'signal' && name === 'kube-apiserver' && !(await hasEnded(drainMs)))
    await restart([means], restarting);
  const isAwaited = means.by === 'unit' && means.isAwaited;
  if (!isAwaited && !(await hasEnded(endMs)))
    throw cannotRestart(restarting, `process ${reader.pid} has not ended ${endMs / 1000} s after ${done}`);
  return isService ? `${done}: the CA that it had read has expired` : done;
}

/**
 * A unit is restarted only for its main process: a kubelet started by hand below another unit is terminated, a service
 * is left alone.
 */
async function meansOnHost(
  { name, isService }: HostComponent,
  reader: ProcessFacts,
  restarting: Restarting,
): Promise<Means> {
  const { pid, cgroup } = reader;
  const cannot = (state: string): RecoveryError => cannotRestart(restarting, state);
  const isUnderSystemd = systemdRuns();
  const unit = isUnderSystemd ? unitOf(cgroup) : undefined;
  const mainPid = unit && (await mainPidOf(unit, restarting.signal));
  // A kubelet that is terminated and that systemd does not start again would be away for good.
  if (unit !== undefined && mainPid === undefined)
    throw cannot(`systemd does not say which process is the main one of ${unit}`);
  // A member of etcd is not ready before other members are, and they may be waiting for it.
  if (unit !== undefined && mainPid === pid) return { by: 'unit', unit, isAwaited: name !== 'etcd' };
  if (isUnderSystemd && controlPlane[name].startedBy === 'systemd' && isOfSession(cgroup))
    throw cannot(`process ${pid} was started by hand in a session of a user, so nothing starts it again`);
  if (isService) {
    const state = unit === undefined ? 'no unit of systemd has started it' : `it is not the main process of ${unit}`;
    const by = { component: name, advice: 'restart it by hand' };
    throw cannotRestart(by, `process ${pid} has read a CA that has expired, and ${state}`);
  }
  return { by: 'signal', processes: [reader] };
}
