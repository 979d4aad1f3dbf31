// Ends a process so that whoever looks after it starts it again: systemd its unit, the kubelet a container of a static
// pod. A unit is restarted only for its main process: a kubelet may have been started by hand below the unit of something
// else. A number that another process has got meanwhile is never signalled.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Clock } from '../clock.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import type { ComponentName, Component } from './component.ts';
import { isOfSession, unitOf, type ProcessFacts } from './judge.ts';
import { startOf } from './processes.ts';

/** Exists exactly where systemd is PID 1 (sd_booted(3)). */
const systemdRuns = (): boolean => existsSync('/run/systemd/system');

const systemctlMs = 60_000;
const askMs = 5000;
const endMs = 30_000;

export interface Restarting {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Whether systemd runs here. Default: as this machine says. */
  readonly systemd?: boolean;
}

/** What was done, in words. Resolves when the old process has ended. Throws WriteFailed. */
export async function restartProcess(
  { name }: Pick<Component, 'name'>,
  reader: ProcessFacts,
  { clock, signal, systemd = systemdRuns() }: Restarting,
): Promise<string> {
  if ((await startOf(reader.pid)) !== reader.started) return 'it had ended';
  if (name === 'kubelet' && systemd) {
    const unit = unitOf(reader.cgroup);
    if (unit !== undefined && (await mainPidOf(unit, signal)) === reader.pid) {
      await systemctl(name, unit, signal);
      return `systemctl restart ${unit}`;
    }
    if (isOfSession(reader.cgroup)) {
      throw cannot(name, `process ${reader.pid} was started by hand in a session of a user, so nobody starts it again`);
    }
  }
  terminate(name, reader.pid);
  const until = clock.now().getTime() + endMs;
  while ((await startOf(reader.pid)) === reader.started) {
    if (signal.aborted || clock.now().getTime() > until) {
      throw cannot(name, `process ${reader.pid} has not ended ${endMs / 1000} s after SIGTERM`);
    }
    await clock.sleep(50, signal);
  }
  return `SIGTERM to process ${reader.pid}`;
}

function terminate(name: ComponentName, pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (cause) {
    if (systemCode(cause) === 'ESRCH') return; // it has ended by itself
    throw cannot(name, `process ${pid} cannot be signalled (${systemCode(cause) ?? 'unknown'})`, cause);
  }
}

/** Undefined where systemd does not say. */
function mainPidOf(unit: string, signal: AbortSignal): Promise<number | undefined> {
  const args = ['show', '--property=MainPID', '--value', unit];
  return new Promise((resolve) => {
    execFile('systemctl', args, { timeout: askMs, signal }, (err, told) => {
      resolve(err === null ? Number(told.trim()) : undefined);
    });
  });
}

function systemctl(name: ComponentName, unit: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile('systemctl', ['restart', unit], { timeout: systemctlMs, signal }, (err) => {
      if (err === null) resolve();
      else reject(cannot(name, `"systemctl restart ${unit}" failed (${String(err.code ?? err.signal)})`, err));
    });
  });
}

function cannot(name: ComponentName, state: string, cause?: unknown): RecoveryError {
  const message = `Cannot restart component "${name}": ${state}; restart it by hand, or wait for the next run`;
  return new RecoveryError('WriteFailed', message, { cause });
}
