// The right to write files of this host: no other process of ours, no kubeadm. A single pass waits a little for another
// one of ours: the one before the start of the kubelet and the one of the timer may meet, and each does all that there
// is to do. Nobody waits for kubeadm: it starts the kubelet itself, and then waits for that.
import { isCode } from '../lib/errors.ts';
import type { Clock } from '../lib/clock.ts';
import { acquireLock, type Lock } from '../lib/store/lock.ts';
import { refuseBesideKubeadm } from '../lib/store/other-writer.ts';

/** Well within what the kubelet's drop-in allows for a whole pass. */
const patienceMs = 20_000;
const askAgainMs = 200;

export interface HostLocking {
  readonly lockDir: string;
  /** Whether to wait for another process of ours. */
  readonly once: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Throws AlreadyRunning, WriteFailed. */
export async function lockHost({ lockDir, once, clock, signal }: HostLocking): Promise<Lock> {
  const until = clock.now().getTime() + (once ? patienceMs : 0);
  for (;;) {
    refuseBesideKubeadm();
    try {
      const lock = await acquireLock({ directory: lockDir, clock });
      return await unlessKubeadm(lock);
    } catch (err) {
      if (!isCode(err, 'AlreadyRunning') || signal.aborted || clock.now().getTime() >= until) throw err;
    }
    await clock.sleep(askAgainMs, signal);
  }
}

/** It may have been started while we waited. */
async function unlessKubeadm(lock: Lock): Promise<Lock> {
  try {
    refuseBesideKubeadm();
    return lock;
  } catch (err) {
    await lock.release();
    throw err;
  }
}
