// One at a time changes the manifests of this machine: adoption, its end, and the repair that a timer starts. It is a
// lock of its own: changing them takes minutes, and whoever restarts the kubelet meanwhile must not make the repair of
// certificates before its start wait.
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { acquireLock } from '../store/lock.ts';

export interface ManifestsLocking {
  /** Of all locks of this program on this machine. */
  readonly lockDir: string;
  readonly clock: Clock;
}

export function manifestsLockDirectory(lockDir: string): string {
  return join(lockDir, 'manifests');
}

/** Throws AlreadyRunning when another process changes them, WriteFailed, and what `work` throws. */
export async function withManifestsLock<T>({ lockDir, clock }: ManifestsLocking, work: () => Promise<T>): Promise<T> {
  const guards = 'the manifests of static pods';
  const lock = await acquireLock({ directory: manifestsLockDirectory(lockDir), clock, guards });
  try {
    return await work();
  } finally {
    await lock.release();
  }
}
