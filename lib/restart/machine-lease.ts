// Leases that let one machine of a cluster at a time do something, taken by compare-and-swap: restart kube-apiserver, or
// renew certificates ahead of time. Only `uninstall` deletes them.
import { dirname } from 'node:path';
import { type Clock, steadyMs } from '../clock.ts';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { readRegularFile, replaceFile } from '../disk/files.ts';
import { type ErrorCode, isCode, RecoveryError } from '../errors.ts';
import { bootId } from '../host/proc.ts';
import { unanswered } from '../kube/api-error.ts';
import type { KubeConnection } from '../kube/kube.ts';
import {
  createLease,
  type Lease,
  type LeaseName,
  leasePath,
  leaseText,
  type LeaseRequest,
  replaceLease,
} from '../kube/leases.ts';
import { getIfPresent, microTime } from '../kube/objects.ts';
import { retry } from '../retry.ts';
import { judgeMachineLease, machineLeaseSeconds } from './decide.ts';

/** Of restarts of kube-apiserver in its own pod. `init` grants it by this name. */
export const restartLease: LeaseName = { namespace: 'kube-cert-recovery', name: 'kube-apiserver-restart' };

/** Of renewals ahead of time on the hosts of the control plane. `init host --renew-before` grants it by this name. */
export const renewalLease: LeaseName = { namespace: 'kube-cert-recovery', name: 'control-plane-renewal' };

interface MachineLeaseOptions {
  /** Default: restartLease. */
  readonly lease?: LeaseName;
  readonly connection: Pick<KubeConnection, 'request'>;
  /** This machine, by the name of its Node object where that is known: no other one of the cluster has it. */
  readonly holder: string;
  /** Keeps what was seen for the next process, for one that ends before the Lease does. Absolute path. */
  readonly seenFile?: string | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** How long it stays taken when it is not given back. Default: machineLeaseSeconds. */
  readonly durationSeconds?: number;
  /** Of each request while it is acquired. Default: the connection's. */
  readonly timeoutMs?: number;
}

const askAgainMs = 1000;

type Asking = Pick<LeaseRequest, 'signal' | 'timeoutMs'>;
/** Of a process that is told to end: it may still send one request. */
const lastRequest: Asking = { signal: new AbortController().signal, timeoutMs: 5000 };

export class MachineLease {
  readonly #options: MachineLeaseOptions;
  readonly #lease: LeaseName;
  #observed: ObservedVersion | undefined;

  constructor(options: MachineLeaseOptions) {
    this.#options = options;
    this.#lease = options.lease ?? restartLease;
  }

  /** Resolves when it is ours. Throws KubeConflict while another machine holds it, and what the connection throws. */
  async acquire(): Promise<void> {
    const { holder, clock, durationSeconds = machineLeaseSeconds } = this.#options;
    const found = await this.#read();
    const now = microTime(clock.now());
    const own = {
      holderIdentity: holder,
      leaseDurationSeconds: durationSeconds,
      acquireTime: now,
      renewTime: now,
    };
    if (found === undefined) {
      return createLease(this.#request(), { ...own, leaseTransitions: 0 }).catch(lost(this.#lease, 'KubeConflict'));
    }
    const verdict = judgeMachineLease({ spec: found.spec, holder, unchangedMs: await this.#unchangedMs(found) });
    if (!verdict.take) {
      const left = Math.ceil(verdict.leftMs / 1000);
      throw conflict(this.#lease, `is held by "${verdict.holder}", for ${left} s more unless it is given back`);
    }
    const leaseTransitions = (found.spec?.leaseTransitions ?? 0) + (verdict.reason === 'Own' ? 0 : 1);
    await replaceLease(this.#request(), found, { ...own, leaseTransitions }).catch(
      lost(this.#lease, 'KubeConflict', 'KubeNotFound'),
    );
  }

  /**
   * Gives back what is ours, also when the signal has aborted. Asks again for `withinMs` while no API server answers, or one
   * that does not know yet who may do what: it may be the one that has just been restarted. Throws the last answer: then the
   * Lease may still be ours, and ends after its duration.
   */
  async giveBack(withinMs: number): Promise<void> {
    const { holder, clock, signal } = this.#options;
    const giveBack = async (): Promise<void> => {
      const found = await this.#read(lastRequest);
      if (found?.spec?.holderIdentity !== holder) return;
      await replaceLease(this.#request(lastRequest), found, { ...found.spec, holderIdentity: '' });
    };
    const isPassing = (err: unknown): boolean => isCode(err, 'KubeConflict', ...unanswered);
    await retry(giveBack, isPassing, { forMs: withinMs, everyMs: askAgainMs, clock, signal });
  }

  /** The same for who does not come back to it: a Lease that stays ends after its duration. Never rejects. */
  async release(withinMs = 0): Promise<void> {
    await this.giveBack(withinMs).catch(() => undefined);
  }

  #request(asking: Asking = this.#asking): LeaseRequest {
    return { connection: this.#options.connection, lease: this.#lease, ...asking };
  }

  get #asking(): Asking {
    const { signal, timeoutMs } = this.#options;
    return timeoutMs === undefined ? { signal } : { signal, timeoutMs };
  }

  #read(asking?: Asking): Promise<Lease | undefined> {
    return getIfPresent<Lease>(this.#request(asking), leasePath(this.#lease));
  }

  async #unchangedMs({ metadata }: Lease): Promise<number> {
    const { clock, seenFile } = this.#options;
    const nowMs = steadyMs(clock);
    const version = metadata?.resourceVersion ?? '';
    // Where the uptime is unknown, what another process has seen means nothing.
    const file = clock.uptimeSeconds() === undefined ? undefined : seenFile;
    if (file !== undefined) this.#observed ??= await readObserved(file);
    if (this.#observed?.version !== version || this.#observed.sinceMs > nowMs) {
      this.#observed = { version, sinceMs: nowMs };
      if (file !== undefined) await keepObserved(file, this.#observed);
    }
    return nowMs - this.#observed.sinceMs;
  }
}

function conflict(lease: LeaseName, state: string, cause?: unknown): RecoveryError {
  const message = `Cannot take ${leaseText(lease)}: it ${state}; waiting`;
  return new RecoveryError('KubeConflict', message, { cause });
}

/** Throws KubeConflict for these codes. */
function lost(lease: LeaseName, ...codes: readonly ErrorCode[]): (err: unknown) => never {
  return (err) => {
    throw isCode(err, ...codes) ? conflict(lease, 'was taken by another at this moment', err) : err;
  };
}

/**
 * The version of a Lease that was seen last, and since when. Kept for the next process: a timer's runs each end long before
 * a Lease that is not given back expires. Uptime counts, and the boot that it belongs to: a clock that is set changes
 * nothing.
 */
interface ObservedVersion {
  /** resourceVersion. */
  readonly version: string;
  /** Uptime, milliseconds. */
  readonly sinceMs: number;
}

/** Undefined when nothing is kept, or what is there is of another boot or not ours. Throws ReadFailed. */
export async function readObserved(path: string): Promise<ObservedVersion | undefined> {
  const what = `note "${path}"`;
  const bytes = await attempt({ code: 'ReadFailed', action: 'read', what, directory: dirname(path) }, () =>
    unlessAbsent(() => readRegularFile(realDisk, path)),
  );
  const [boot, version = '', sinceMs = ''] = (bytes?.toString('utf8') ?? '').split(' ');
  if (boot === '' || boot !== bootId() || !/^\d+$/.test(sinceMs)) return undefined;
  return { version, sinceMs: Number(sinceMs) };
}

/** In a directory that is there. Throws WriteFailed. */
export async function keepObserved(path: string, { version, sinceMs }: ObservedVersion): Promise<void> {
  const content = [bootId(), version, Math.floor(sinceMs)].join(' ');
  await replaceFile({ path, content, mode: 0o600, what: 'note' });
}
