// A turn that one machine of a cluster has at a time: a Lease, taken by compare-and-swap. Only `uninstall` deletes it.
import { dirname } from 'node:path';
import { type Clock, steadyMs } from '../clock.ts';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { readRegularFile } from '../disk/read.ts';
import { type ErrorCode, isCode, RecoveryError } from '../errors.ts';
import { bootId } from '../host/proc.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { createLease, type Lease, type LeaseName, leasePath, type LeaseRequest, replaceLease } from '../kube/leases.ts';
import { getIfPresent, microTime } from '../kube/objects.ts';
import { judgeTurn, turnSeconds } from './decide.ts';

/** kube-apiserver is restarted on one machine at a time; `init` grants it by this name. */
export const restartTurn: LeaseName = { namespace: 'kube-cert-recovery', name: 'kube-apiserver-restart' };

interface TurnOptions {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly lease: LeaseName;
  /** This machine; another one must not have the same name. */
  readonly holder: string;
  /** Keeps what was seen for processes to come, for one that does not live as long as a turn. Absolute path. */
  readonly seenFile?: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const askAgainMs = 1000;

type Asking = Pick<LeaseRequest, 'signal' | 'timeoutMs'>;
/** Of a process that is told to end: it may still say one thing. */
const lastWord: Asking = { signal: new AbortController().signal, timeoutMs: 5000 };

export class LeaseTurn {
  readonly #options: TurnOptions;
  #observed: ObservedVersion | undefined;

  constructor(options: TurnOptions) {
    this.#options = options;
  }

  /** Resolves when it is ours. Throws KubeConflict while it is another's, and what the connection throws. */
  async take(): Promise<void> {
    const { holder } = this.#options;
    const found = await this.#read();
    if (found === undefined) {
      const spec = { ...this.#spec(), leaseTransitions: 0 };
      return createLease(this.#request(), spec).catch(this.#lost('KubeConflict'));
    }
    const verdict = judgeTurn({ spec: found.spec, holder, unchangedMs: await this.#unchangedMs(found) });
    if (!verdict.take) {
      const left = Math.ceil(verdict.leftMs / 1000);
      throw this.#conflict(`is held by "${verdict.holder}", for ${left} s more unless it is given back`);
    }
    const leaseTransitions = (found.spec?.leaseTransitions ?? 0) + (verdict.reason === 'Own' ? 0 : 1);
    const spec = { ...this.#spec(), leaseTransitions };
    await replaceLease(this.#request(), found, spec).catch(this.#lost('KubeConflict', 'KubeNotFound'));
  }

  /**
   * Gives back what is ours, also when the signal has aborted. Asks again for `withinMs` while no API server answers: it
   * may be the one that has just been restarted. Never rejects: what stays is over after its time.
   */
  async giveBack(withinMs = 0): Promise<void> {
    const { holder, clock, signal } = this.#options;
    const until = clock.now().getTime() + withinMs;
    for (;;) {
      try {
        const found = await this.#read(lastWord);
        if (found?.spec?.holderIdentity !== holder) return;
        await replaceLease(this.#request(lastWord), found, { ...found.spec, holderIdentity: '' });
        return;
      } catch (err) {
        // What else there is: somebody has found it over, or has taken our right away.
        if (!isCode(err, 'KubeUnavailable', 'KubeWrongAnswer') || signal.aborted || clock.now().getTime() >= until)
          return;
      }
      await clock.sleep(askAgainMs, signal);
    }
  }

  #request({ signal, timeoutMs }: Asking = { signal: this.#options.signal }): LeaseRequest {
    const { connection, lease } = this.#options;
    return { connection, lease, signal, ...(timeoutMs !== undefined && { timeoutMs }) };
  }

  #read(asking?: Asking): Promise<Lease | undefined> {
    return getIfPresent<Lease>(this.#request(asking), leasePath(this.#options.lease));
  }

  /** Throws KubeConflict for these codes. */
  #lost(...codes: readonly ErrorCode[]): (err: unknown) => never {
    return (err) => {
      throw isCode(err, ...codes) ? this.#conflict('was taken by another at this moment', err) : err;
    };
  }

  #spec(): object {
    const { holder, clock } = this.#options;
    const now = microTime(clock.now());
    return { holderIdentity: holder, leaseDurationSeconds: turnSeconds, acquireTime: now, renewTime: now };
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

  #conflict(state: string, cause?: unknown): RecoveryError {
    const { namespace, name } = this.#options.lease;
    const message = `Cannot take Lease "${namespace}/${name}": it ${state}; waiting`;
    return new RecoveryError('KubeConflict', message, { cause });
  }
}

/**
 * The version of a Lease that was seen last, and since when. Kept for the next process: a timer's runs each end long before
 * a turn that nobody gives back is over. Uptime counts, and the boot that it belongs to: a clock that is set changes
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
