// Leases by which one machine of a cluster at a time restarts kube-apiserver, or renews certificates ahead of time;
// taken by compare-and-swap. Only `uninstall` deletes them.
import { type Clock, steadyMs } from '../clock.ts';
import { type ErrorCode, isCode, RecoveryError } from '../errors.ts';
import { bootId } from '../host/proc.ts';
import type { RunState } from '../host/state.ts';
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
  updateLease,
} from '../kube/leases.ts';
import { getIfPresent, microTime } from '../kube/objects.ts';
import { retry } from '../retry.ts';
import { judgeMachineLease, machineLeaseSeconds } from './decide.ts';

/** Serialises restarts of kube-apiserver in its own pod. `init` grants it by this name. */
export const restartLease: LeaseName = { namespace: 'kube-cert-recovery', name: 'kube-apiserver-restart' };

/** Serialises renewals ahead of time on control-plane hosts. `init host --renew-before` grants it by this name. */
export const renewalLease: LeaseName = { namespace: 'kube-cert-recovery', name: 'control-plane-renewal' };

interface MachineLeaseOptions {
  /** Default: restartLease. */
  readonly lease?: LeaseName;
  readonly connection: Pick<KubeConnection, 'request'>;
  /** Unique name of this machine in the cluster: the name of its Node object, where known. */
  readonly holder: string;
  /** Keeps the observed version for the next process, as a run is shorter than the Lease. */
  readonly state?: RunState | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Duration after which it expires when it is not given back. Default: machineLeaseSeconds. */
  readonly durationSeconds?: number;
  /** Limit for each request while it is acquired. Default: the connection's. */
  readonly timeoutMs?: number;
}

const askAgainMs = 1000;

type Asking = Pick<LeaseRequest, 'signal' | 'timeoutMs'>;
/** Limit of the one request that a terminating process may still send. */
const lastRequest: Asking = { signal: new AbortController().signal, timeoutMs: 5000 };

export class MachineLease {
  readonly #options: MachineLeaseOptions;
  readonly #lease: LeaseName;
  #observed: ObservedVersion | undefined;

  constructor(options: MachineLeaseOptions) {
    this.#options = options;
    this.#lease = options.lease ?? restartLease;
  }

  /** Resolves when it is ours. Throws KubeConflict while another machine holds it, and errors of the connection. */
  async acquire(): Promise<void> {
    const { holder, clock, durationSeconds = machineLeaseSeconds } = this.#options;
    const found = await getIfPresent<Lease>(this.#request(), leasePath(this.#lease));
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
   * Gives our Lease back, also when the signal has aborted. Retries for `withinMs` while no API server answers, or
   * refuses because it has not loaded its RBAC yet: it may have just been restarted. Throws the last error: then the
   * Lease may still be ours, and expires after its duration.
   */
  async giveBack(withinMs: number): Promise<void> {
    const { holder, clock, signal } = this.#options;
    const giveBack = (): Promise<unknown> =>
      updateLease(this.#request(lastRequest), ({ spec }) =>
        spec?.holderIdentity === holder ? { ...spec, holderIdentity: '' } : undefined,
      );
    const isPassing = (err: unknown): boolean => isCode(err, 'KubeConflict', ...unanswered);
    await retry(giveBack, isPassing, { forMs: withinMs, everyMs: askAgainMs, clock, signal });
  }

  /** Gives the Lease back without a later attempt: a Lease that stays expires after its duration. Never rejects. */
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

  async #unchangedMs({ metadata }: Lease): Promise<number> {
    const { clock, state } = this.#options;
    const nowMs = steadyMs(clock);
    const version = metadata?.resourceVersion ?? '';
    // Where the uptime or the boot is unknown, an observation of another process means nothing.
    const kept = clock.uptimeSeconds() === undefined || bootId() === '' ? undefined : state;
    const name = `${this.#lease.name}.seen`;
    this.#observed ??= (await kept?.get(name, asObserved))?.value;
    if (this.#observed?.version !== version || this.#observed.sinceMs > nowMs) {
      this.#observed = { version, sinceMs: nowMs };
      await kept?.set(name, this.#observed);
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
 * The version of a Lease that was observed last, and since when. Kept for the next process: a timer's runs each stop
 * long before a Lease that is not given back expires. Uptime counts, and the boot that it belongs to: a clock that is
 * set changes nothing.
 */
interface ObservedVersion {
  /** resourceVersion. */
  readonly version: string;
  /** Uptime, milliseconds. */
  readonly sinceMs: number;
}

/** Undefined for a value that is no observation. */
export function asObserved(value: unknown): ObservedVersion | undefined {
  const { version, sinceMs } = (value ?? {}) as Partial<Record<keyof ObservedVersion, unknown>>;
  return typeof version === 'string' && typeof sinceMs === 'number' ? { version, sinceMs } : undefined;
}
