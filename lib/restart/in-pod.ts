// Ends processes in our own pod by a signal, and waits until the kubelet has started the component again. The same user
// is enough for the signal, no capability is needed (kill(2)).
import type { Clock } from '../clock.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import type { ProcessId } from './judge.ts';
import { startOf } from './processes.ts';

/** Throws WriteFailed. A process that has ended by itself is none to tell of. */
export async function terminate(component: string, due: readonly ProcessId[]): Promise<void> {
  for (const { pid, started } of due) {
    if ((await startOf(pid)) !== started) continue; // another process may have the number by now
    try {
      process.kill(pid, 'SIGTERM');
    } catch (cause) {
      const code = systemCode(cause) ?? 'unknown';
      if (code === 'ESRCH') continue;
      const why = 'this program must run as the same user, in the pod of the component';
      const message = `Cannot restart ${component}: process ${pid} cannot be signalled (${code}); ${why}`;
      throw new RecoveryError('WriteFailed', message, { cause });
    }
  }
}

export interface Awaiting {
  readonly component: string;
  /** They must have ended. */
  readonly due: readonly ProcessId[];
  readonly processes: (component: string) => Promise<readonly ProcessId[]>;
  /** Milliseconds. */
  readonly atMostMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const lookAgainMs = 200;

/** The new process. Throws ProofFailed when there is none in time; undefined when the signal aborts. */
export async function awaitSuccessor(awaiting: Awaiting): Promise<ProcessId | undefined> {
  const { component, due, processes, atMostMs, clock, signal } = awaiting;
  const isDue = (one: ProcessId): boolean => due.some((old) => old.pid === one.pid && old.started === one.started);
  for (let waited = 0; !signal.aborted; waited += lookAgainMs) {
    const running = await processes(component);
    const [successor] = running;
    if (successor !== undefined && !running.some(isDue)) return successor;
    if (waited >= atMostMs) {
      const state = running.some(isDue) ? 'the process has not ended' : 'no new process has come';
      const message = `Cannot restart ${component}: ${state} within ${atMostMs / 1000} s; look at the kubelet's log`;
      throw new RecoveryError('ProofFailed', message);
    }
    await clock.sleep(lookAgainMs, signal);
  }
  return undefined;
}
