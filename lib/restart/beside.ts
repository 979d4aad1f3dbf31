// Processes of a component in our own PID namespace: with shareProcessNamespace that is the pod. Those of other pods and
// of nodes in containers live in namespaces below it, if they can be seen at all. What is read is open to everybody:
// links below /proc/<pid>/ns are closed to a process whose capabilities are dropped, whoever it runs as (ptrace(2)).
import { readdir, readFile } from 'node:fs/promises';
import { RecoveryError, systemCode } from '../errors.ts';
import { componentOf, type ProcessId } from './judge.ts';
import { startOf } from './processes.ts';

const text = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');

/** How many PID namespaces a process is in, from ours inwards (proc_pid_status(5), NSpid). */
async function depthOf(pid: number | 'self'): Promise<number> {
  const [, numbers = ''] = /^NSpid:\s*(.+)$/m.exec(await text(`/proc/${pid}/status`)) ?? [];
  return numbers.split(/\s+/).length;
}

/** Throws ReadFailed. */
export async function processesBesideUs(component: string): Promise<readonly ProcessId[]> {
  const names = await readdir('/proc').catch((cause: unknown): never => {
    const message = `Cannot read directory "/proc": ${systemCode(cause) ?? 'unknown'}`;
    throw new RecoveryError('ReadFailed', message, { cause });
  });
  const ours = await depthOf('self');
  const found = await Promise.all(
    names
      .filter((name) => /^\d+$/.test(name))
      .map(async (name): Promise<readonly ProcessId[]> => {
        const pid = Number(name);
        if (componentOf((await text(`/proc/${pid}/cmdline`)).split('\0')) !== component) return [];
        const [started, depth] = await Promise.all([startOf(pid), depthOf(pid)]);
        return started === undefined || depth !== ours ? [] : [{ pid, started }];
      }),
  );
  return found.flat();
}
