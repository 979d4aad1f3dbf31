// One at a time changes the manifests of this machine: adoption, its end, and the repair that a timer starts. It is a
// lock of its own: changing them takes minutes, and the repair of certificates before a start of the kubelet
// must not wait for it. Beside it lie the notes of repairs, for as long as the machine is on.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { isCode } from '../errors.ts';
import { type StaticPod, staticPods } from '../components.ts';
import type { Api } from '../install/apply.ts';
import { readIfPresent } from '../install/existing-files.ts';
import { machineLeaseSeconds } from '../restart/decide.ts';
import { MachineLease } from '../restart/machine-lease.ts';
import { acquireLock, type Lock } from '../host/lock.ts';
import { refuseBesideKubeadm } from '../host/sole-writer.ts';
import { digestOf, type PodAddition } from './static-pods.ts';
import { defaultLockDir } from '../well-known.ts';
import { retry } from '../retry.ts';

/** On every machine, whatever a configuration says of other locks: commands that were given different ones must meet. */
export const machineLockDir = defaultLockDir;

export interface ManifestsLocking {
  /** `machineLockDir`, but for tests. */
  readonly lockDir: string;
  /** Throws AlreadyRunning while kubeadm runs, which writes the same manifests. */
  readonly refuseBesideOthers?: () => void;
  readonly clock: Clock;
}

export function manifestsLockDirectory(lockDir: string): string {
  return join(lockDir, 'manifests');
}

/** Throws AlreadyRunning when another process changes them or kubeadm runs, WriteFailed, and what `work` throws. */
export async function withManifestsLock<T>(
  { lockDir, clock, refuseBesideOthers = refuseBesideKubeadm }: ManifestsLocking,
  work: (lock: Lock) => Promise<T>,
): Promise<T> {
  const guards = 'the manifests of static pods';
  const lock = await acquireLock({ directory: manifestsLockDirectory(lockDir), clock, guards });
  try {
    refuseBesideOthers();
    return await work(lock);
  } finally {
    await lock.release();
  }
}

/**
 * Whether it is held is asked before the API is: while another process adopts this machine its API server may just
 * start again, and that refusal would say nothing of why. Throws AlreadyRunning, WriteFailed.
 */
export function requireManifestsFree(locking: ManifestsLocking): Promise<void> {
  return withManifestsLock({ ...locking, refuseBesideOthers: () => undefined }, () => Promise.resolve());
}

/** What is tried: this addition to these bytes. */
interface Repair {
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

// kube-apiserver is restarted on one machine of a cluster at a time, by what changes its manifest here: an adoption, its
// end, a repair. The Lease is the one that the containers acquire, too (lib/restart/machine-lease.ts).

export interface RestartLeaseWait {
  readonly api: Api;
  readonly nodeName: string;
  readonly clock: Clock;
  /** How long to wait for the Lease; 0: not at all. Default: until one that a dead machine holds has expired. */
  readonly leaseTimeoutMs?: number;
  /** See MachineLease. */
  readonly leaseSeenFile?: string;
  /** Called once when it has to wait. */
  readonly print?: (line: string) => void;
}

const longestLeaseMs = (machineLeaseSeconds + 10) * 1000;
const askAgainMs = 1000;
/** An API server that was just restarted answers within this. */
const giveBackMs = 60_000;

/** Throws KubeConflict when another machine still holds the Lease, what the connection throws, and what `work` throws. */
export async function withRestartLease<T>(restarting: RestartLeaseWait, work: () => Promise<T>): Promise<T> {
  const { api, nodeName: holder, clock, leaseSeenFile: seenFile, leaseTimeoutMs = longestLeaseMs, print } = restarting;
  const lease = new MachineLease({ ...api, holder, clock, seenFile });
  let waits = false;
  const isHeld = (err: unknown): boolean => {
    if (!isCode(err, 'KubeConflict')) return false;
    if (!waits) print?.(`Static pod kube-apiserver waits for the Lease. ${err.message}`);
    waits = true;
    return true;
  };
  const patience = { forMs: leaseTimeoutMs, everyMs: askAgainMs, clock, signal: api.signal };
  let isOurs = true;
  await retry(() => lease.acquire(), isHeld, patience).catch((err: unknown) => {
    // Where there is no namespace for the Lease no other machine can have taken it.
    if (!isCode(err, 'KubeNotFound')) throw err;
    isOurs = false;
  });
  try {
    return await work();
  } finally {
    if (isOurs) await lease.release(giveBackMs);
  }
}
