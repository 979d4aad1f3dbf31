// Processes of a component here: found, terminated so that systemd or the kubelet starts them again, and waited for. A
// PID that has been reused by another process is never signalled. The same user is enough for a signal, no capability
// is needed (kill(2)).
import type { Clock } from '../clock.ts';
import { controlPlane } from '../components.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { isRunning, ourPlaces, type ProcessFacts, type ProcessId, readProcesses } from '../host/proc.ts';
import { isOfSession, mainPidOf, runSystemctl, systemdRuns, unitOf } from '../host/systemd.ts';
import { poll } from '../retry.ts';
import { type Component, readersOf } from './decide.ts';

/** Processes on this host, of this machine's control plane. Throws ReadFailed. */
export function readersOnHost(component: Pick<Component, 'name' | 'file'>): readonly ProcessFacts[] {
  return readersOf(component, readProcesses([component.name]), ourPlaces);
}

/** Processes in our own PID namespace: with shareProcessNamespace that is the pod. Throws ReadFailed. */
export function processesInPod(component: string): readonly ProcessId[] {
  return readProcesses([component]).filter(({ isInOurPidNamespace }) => isInOurPidNamespace);
}

type Cannot = (state: string, cause?: unknown) => RecoveryError;

/** Sends SIGTERM, unless the process has exited by itself. Throws what `cannot` returns. */
export function terminate({ pid, started }: ProcessId, cannot: Cannot): void {
  if (!isRunning({ pid, started })) return;
  try {
    process.kill(pid, 'SIGTERM');
  } catch (cause) {
    const code = systemCode(cause) ?? 'unknown';
    if (code !== 'ESRCH') throw cannot(`process ${pid} cannot be signalled (${code})`, cause);
  }
}

const systemctlMs = 60_000;
const endMs = 30_000;

/**
 * kube-apiserver stops listening and answers pending requests, then waits up to a minute for watches, which it does not
 * close (--shutdown-watch-termination-grace-period is 0). A second signal terminates it immediately (k8s.io/apiserver:
 * pkg/server/signal.go): its clients resume their watches, and local leaders keep their Leases, which they must renew
 * within 10 s.
 */
const drainMs = 5_000;

/**
 * Restarts a process on the host. A unit is restarted only for its main process: a kubelet started by hand below
 * another unit is terminated, a service is left alone. Returns a description of the restart. Resolves when the old
 * process has exited. Throws WriteFailed.
 */
export async function restartProcess(
  { name, isService }: Pick<Component, 'name' | 'isService'>,
  reader: ProcessFacts,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<string> {
  const { pid, cgroup } = reader;
  const cannot: Cannot = (state, cause) => {
    const message = `Cannot restart component "${name}": ${state}; restart it by hand, or wait for the next run`;
    return new RecoveryError('WriteFailed', message, { cause });
  };
  const hasEnded = async (forMs: number): Promise<boolean> =>
    (await poll(() => (isRunning(reader) ? undefined : true), { forMs, everyMs: 50, clock, signal })) ?? false;
  if (!isRunning(reader)) return 'it had ended';
  const isUnderSystemd = systemdRuns();
  const unit = isUnderSystemd ? unitOf(cgroup) : undefined;
  if (isUnderSystemd) {
    const mainPid = unit && (await mainPidOf(unit, signal));
    // A kubelet that is terminated and that systemd does not start again would be away for good.
    if (unit !== undefined && mainPid === undefined)
      throw cannot(`systemd does not say which process is the main one of ${unit}`);
    if (unit !== undefined && mainPid === pid) {
      // A member of etcd is not ready before other members are, and they may be waiting for it.
      const waits = name !== 'etcd';
      const command = waits ? ['restart', unit] : ['--no-block', 'restart', unit];
      await runSystemctl(command, { timeoutMs: systemctlMs, signal }).catch((err: unknown) => {
        const { code, signal: by } = err as { readonly code?: unknown; readonly signal?: unknown };
        throw cannot(`"systemctl restart ${unit}" failed (${String(code ?? by)})`, err);
      });
      if (!waits && !(await hasEnded(endMs)))
        throw cannot(`process ${pid} has not ended ${endMs / 1000} s after it was told to`);
      return `systemctl restart ${unit}${isService ? ': the CA that it had read has expired' : ''}`;
    }
    if (controlPlane[name].startedBy === 'systemd' && isOfSession(cgroup)) {
      throw cannot(`process ${pid} was started by hand in a session of a user, so nothing starts it again`);
    }
  }
  if (isService) {
    const state = unit === undefined ? 'no unit of systemd has started it' : `it is not the main process of ${unit}`;
    const message = `Cannot restart component "${name}": process ${pid} has read a CA that has expired, and ${state}; restart it by hand`;
    throw new RecoveryError('WriteFailed', message);
  }
  terminate(reader, cannot);
  if (name === 'kube-apiserver' && !(await hasEnded(drainMs))) terminate(reader, cannot);
  if (!(await hasEnded(endMs))) {
    throw cannot(`process ${pid} has not ended ${endMs / 1000} s after SIGTERM`);
  }
  return `SIGTERM to process ${pid}`;
}
