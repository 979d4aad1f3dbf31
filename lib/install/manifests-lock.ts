// One at a time changes the manifests of this machine: adoption, its end, and the repair that a timer starts. It is a
// lock of its own: changing them takes minutes, and whoever restarts the kubelet meanwhile must not make the repair of
// certificates before its start wait. Beside it lie the notes of repairs, for as long as the machine is on.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { acquireLock } from '../host/lock.ts';
import { readIfPresent } from './files.ts';
import { digestOf, type PodAddition, type StaticPod, staticPods } from './static-pods.ts';

/** On every machine, whatever a configuration says of other locks: commands that were given different ones must meet. */
export const machineLockDir = '/run/kube-cert-recovery';

export interface ManifestsLocking {
  /** `machineLockDir`, but for tests. */
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

/**
 * Whether somebody holds it is asked before the API is: while another process adopts this machine its API server may just
 * start again, and that refusal would say nothing of why. Throws AlreadyRunning, WriteFailed.
 */
export function requireManifestsFree(locking: ManifestsLocking): Promise<void> {
  return withManifestsLock(locking, () => Promise.resolve());
}

/** What is tried: this addition to these bytes. */
export interface Repair {
  readonly addition: PodAddition;
  readonly before: Buffer;
}

/** Whether exactly this was noted as failed. Throws ReadFailed. */
export async function hasFailed(lockDir: string, repair: Repair): Promise<boolean> {
  const noted = await readIfPresent(notePath(lockDir, repair.addition.pod), 'note');
  return noted?.toString('utf8') === noteOf(repair);
}

/** With the lock held. Throws WriteFailed. */
export async function noteFailure(lockDir: string, repair: Repair): Promise<void> {
  const path = notePath(lockDir, repair.addition.pod);
  await replaceFile({ path, content: noteOf(repair), mode: 0o600, what: 'note' });
}

/** With the lock held: these pods have been seen to run. Throws WriteFailed. */
export async function forgetFailures(lockDir: string, pods: readonly StaticPod[] = staticPods): Promise<void> {
  for (const pod of pods) {
    const path = notePath(lockDir, pod);
    const removing = { code: 'WriteFailed', action: 'remove', what: `note "${path}"`, directory: lockDir } as const;
    await attempt(removing, () => realDisk.rm(path, { force: true }));
  }
}

function notePath(lockDir: string, pod: StaticPod): string {
  return join(manifestsLockDirectory(lockDir), `${pod}.failed`);
}

function noteOf({ addition, before }: Repair): string {
  return createHash('sha256').update(before).update(digestOf(addition)).digest('hex');
}
