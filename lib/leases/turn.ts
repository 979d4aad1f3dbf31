// A turn that one machine of a cluster has at a time: a Lease, taken by compare-and-swap. It is made by server-side apply,
// because RBAC can name an object that is made so; the resourceVersion that no object has lets the apply only create
// (409 where another was quicker). Only `uninstall` deletes it.
import type { Clock } from '../clock.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { judgeTurn, turnSeconds, type TurnSpec } from './judge-turn.ts';
import { type LeaseName, leasePath } from '../kube/lease-path.ts';
import { keepSighting, readSighting, type Sighting } from './sighting.ts';

/** kube-apiserver is restarted on one machine at a time; `init` grants it by this name. */
export const restartTurn: LeaseName = { namespace: 'kube-cert-recovery', name: 'kube-apiserver-restart' };

export interface TurnOptions {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly lease: LeaseName;
  /** This machine; another one must not have the same name. */
  readonly holder: string;
  /** Keeps what was seen for processes to come, for one that does not live as long as a turn. Absolute path. */
  readonly seenFile?: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface TurnLease {
  readonly metadata?: { readonly resourceVersion?: string };
  readonly spec?: TurnSpec & { readonly leaseTransitions?: number | null };
}

const fieldManager = 'kube-cert-recovery';
const askAgainMs = 1000;

interface Asking {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}
/** Of a process that is told to end: it may still say one thing. */
const lastWord: Asking = { signal: new AbortController().signal, timeoutMs: 5000 };

export class LeaseTurn {
  readonly #options: TurnOptions;
  readonly #path: string;
  /** The version seen last. */
  #seen: Sighting | undefined;

  constructor(options: TurnOptions) {
    this.#options = options;
    this.#path = leasePath(options.lease);
  }

  /** Resolves when it is ours. Throws KubeConflict while it is another's, and what the connection throws. */
  async take(): Promise<void> {
    const { holder } = this.#options;
    const found = await this.#read();
    if (found === undefined) return this.#create();
    const verdict = judgeTurn({ spec: found.spec, holder, unchangedMs: await this.#unchangedMs(found) });
    if (!verdict.take) {
      const left = Math.ceil(verdict.leftMs / 1000);
      throw this.#conflict(`is held by "${verdict.holder}", for ${left} s more unless it is given back`);
    }
    const transitions = (found.spec?.leaseTransitions ?? 0) + (verdict.reason === 'Own' ? 0 : 1);
    await this.#write(found, { ...this.#spec(), leaseTransitions: transitions });
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
        await this.#write(found, { ...found.spec, holderIdentity: '' }, lastWord);
        return;
      } catch (err) {
        // What else there is: somebody has found it over, or has taken our right away.
        if (!isCode(err, 'KubeUnavailable', 'KubeWrongAnswer') || signal.aborted || clock.now().getTime() >= until)
          return;
      }
      await clock.sleep(askAgainMs, signal);
    }
  }

  async #read(asking: Asking = this.#options): Promise<TurnLease | undefined> {
    const { connection } = this.#options;
    const { signal, timeoutMs } = asking;
    try {
      return await connection.request<TurnLease>({
        method: 'GET',
        path: this.#path,
        signal,
        ...(timeoutMs !== undefined && { timeoutMs }),
      });
    } catch (err) {
      if (isCode(err, 'KubeNotFound')) return undefined;
      throw err;
    }
  }

  async #create(): Promise<void> {
    const { connection, lease, signal } = this.#options;
    const body = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { ...lease, resourceVersion: '1' },
      spec: { ...this.#spec(), leaseTransitions: 0 },
    };
    const path = `${this.#path}?fieldManager=${fieldManager}`;
    const contentType = 'application/apply-patch+yaml';
    await connection.request({ method: 'PATCH', path, contentType, body, signal }).catch((err: unknown) => {
      throw isCode(err, 'KubeConflict') ? this.#conflict('was taken by another at this moment', err) : err;
    });
  }

  async #write(found: TurnLease, spec: object, asking: Asking = this.#options): Promise<void> {
    const { connection } = this.#options;
    const { signal, timeoutMs } = asking;
    // Without a resourceVersion a PUT is unconditional.
    if (!found.metadata?.resourceVersion) throw this.#conflict('has no resourceVersion');
    const path = `${this.#path}?fieldManager=${fieldManager}`;
    const limit = timeoutMs === undefined ? {} : { timeoutMs };
    await connection
      .request({ method: 'PUT', path, body: { ...found, spec }, signal, ...limit })
      .catch((err: unknown) => {
        throw isCode(err, 'KubeConflict', 'KubeNotFound')
          ? this.#conflict('was taken by another at this moment', err)
          : err;
      });
  }

  #spec(): object {
    const { holder, clock } = this.#options;
    const now = clock.now().toISOString().replace('Z', '000Z'); // MicroTime
    return { holderIdentity: holder, leaseDurationSeconds: turnSeconds, acquireTime: now, renewTime: now };
  }

  async #unchangedMs({ metadata }: TurnLease): Promise<number> {
    const { clock, seenFile } = this.#options;
    const uptime = clock.uptimeSeconds();
    const nowMs = (uptime ?? clock.now().getTime() / 1000) * 1000;
    const version = metadata?.resourceVersion ?? '';
    // Where the uptime is unknown, what another process has seen means nothing.
    const file = uptime === undefined ? undefined : seenFile;
    if (file !== undefined) this.#seen ??= await readSighting(file);
    if (this.#seen?.version !== version || this.#seen.sinceMs > nowMs) {
      this.#seen = { version, sinceMs: nowMs };
      if (file !== undefined) await keepSighting(file, this.#seen);
    }
    return nowMs - this.#seen.sinceMs;
  }

  #conflict(state: string, cause?: unknown): RecoveryError {
    const { namespace, name } = this.#options.lease;
    const message = `Cannot take Lease "${namespace}/${name}": it ${state}; waiting`;
    return new RecoveryError('KubeConflict', message, { cause });
  }
}
