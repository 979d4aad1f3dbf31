// Lock for changes to the manifests of this machine: by adoption, its reversal, and the repair that a timer starts. A
// separate lock, because these changes take minutes, and the repair of certificates before a start of the kubelet must
// not wait for them. The notes of failed repairs lie next to it until the machine reboots.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { isCode } from '../errors.ts';
import { type StaticPod, staticPods } from '../components.ts';
import type { Api } from '../install/apply.ts';
import { machineLeaseSeconds } from '../restart/decide.ts';
import { MachineLease } from '../restart/machine-lease.ts';
import { acquireLock, type Lock } from '../host/lock.ts';
import { refuseBesideKubeadm } from '../host/sole-writer.ts';
import { RunState } from '../host/state.ts';
import { digestOf, type PodAddition } from './static-pods.ts';
import { defaultLockDir } from '../well-known.ts';
import { retry } from '../retry.ts';

/** Independent of the locks in a configuration: commands with different configurations must share this one. */
export const machineLockDir = defaultLockDir;

export interface ManifestsLocking {
  /** Lock directory: `machineLockDir` except in tests. */
  readonly lockDir: string;
  /** Throws AlreadyRunning while kubeadm runs, which writes the same manifests. */
  readonly refuseBesideOthers?: () => void;
  readonly clock: Clock;
}

const manifestsLockDirectory = (lockDir: string): string => join(lockDir, 'manifests');

/** Values that lie next to the lock until the machine reboots. */
export const manifestsState = (lockDir: string): RunState => new RunState(manifestsLockDirectory(lockDir));

/** Throws AlreadyRunning while kubeadm runs or another process changes manifests, WriteFailed, and errors of `work`. */
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
 * Checks the lock before the first API request: while another process adopts this machine its API server may be
 * restarting, and a failed request would not give that reason. Throws AlreadyRunning, WriteFailed.
 */
export function requireManifestsFree(locking: ManifestsLocking): Promise<void> {
  return withManifestsLock({ ...locking, refuseBesideOthers: () => undefined }, () => Promise.resolve());
}

/** An attempted repair: this addition to these bytes. */
interface Repair {
  readonly addition: PodAddition;
  readonly before: Buffer;
}

/** Whether exactly this repair is noted as failed. Never rejects. */
export async function hasFailed(lockDir: string, repair: Repair): Promise<boolean> {
  const noted = await manifestsState(lockDir).getText(noteName(repair.addition.pod));
  return noted?.value === noteOf(repair);
}

/** Needs the lock. Throws WriteFailed. */
export const noteFailure = (lockDir: string, repair: Repair): Promise<void> =>
  manifestsState(lockDir).set(noteName(repair.addition.pod), noteOf(repair));

/** Removes the notes of pods that run now. Needs the lock. Throws WriteFailed. */
export async function forgetFailures(lockDir: string, pods: readonly StaticPod[] = staticPods): Promise<void> {
  for (const pod of pods) await manifestsState(lockDir).remove(noteName(pod));
}

const noteName = (pod: StaticPod): string => `${pod}.failed`;

function noteOf({ addition, before }: Repair): string {
  return createHash('sha256').update(before).update(digestOf(addition)).digest('hex');
}

// kube-apiserver is restarted on one machine of the cluster at a time, also when its manifest changes: by an adoption,
// its reversal, or a repair. The containers acquire the same Lease (lib/restart/machine-lease.ts).

export interface RestartLeaseWait {
  readonly api: Api;
  readonly nodeName: string;
  readonly clock: Clock;
  /** Longest wait for the Lease; 0: none. Default: until the Lease of a dead machine has expired. */
  readonly leaseTimeoutMs?: number;
  /** See MachineLease. */
  readonly leaseState?: RunState;
  /** Called once when the Lease is not free. */
  readonly print?: (line: string) => void;
}

const longestLeaseMs = (machineLeaseSeconds + 10) * 1000;
const askAgainMs = 1000;
/** A freshly restarted API server answers within this time. */
const giveBackMs = 60_000;

/** Throws KubeConflict when another machine still holds the Lease, errors of the connection, and errors of `work`. */
export async function withRestartLease<T>(restarting: RestartLeaseWait, work: () => Promise<T>): Promise<T> {
  const { api, nodeName: holder, clock, leaseState: state, leaseTimeoutMs = longestLeaseMs, print } = restarting;
  const lease = new MachineLease({ ...api, holder, clock, state });
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
    // Without the namespace no other machine can hold the Lease.
    if (!isCode(err, 'KubeNotFound')) throw err;
    isOurs = false;
  });
  try {
    return await work();
  } finally {
    if (isOurs) await lease.release(giveBackMs);
  }
}
