// A turn that one machine of a cluster has at a time: a Lease, taken by compare-and-swap. It is made by server-side apply,
// because RBAC can name an object that is made so; the resourceVersion that no object has lets the apply only create
// (409 where another was quicker). Only `uninstall` deletes it.
import type { Clock } from '../clock.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { judgeTurn, turnSeconds, type TurnSpec } from './judge-turn.ts';
import { type LeaseName, leasePath } from './release.ts';

/** kube-apiserver is restarted on one machine at a time; `init` grants it by this name. */
export const restartTurn: LeaseName = { namespace: 'kube-cert-recovery', name: 'kube-apiserver-restart' };

export interface TurnOptions {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly lease: LeaseName;
  /** This machine; another one must not have the same name. */
  readonly holder: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface TurnLease {
  readonly metadata?: { readonly resourceVersion?: string };
  readonly spec?: TurnSpec & { readonly leaseTransitions?: number | null };
}

const fieldManager = 'kube-cert-recovery';

export class LeaseTurn {
  readonly #options: TurnOptions;
  readonly #path: string;
  /** The version seen last, and since when (milliseconds of uptime). */
  #seen: { readonly version: string; readonly sinceMs: number } | undefined;

  constructor(options: TurnOptions) {
    this.#options = options;
    this.#path = leasePath(options.lease);
  }

  /** Resolves when it is ours. Throws KubeConflict while it is another's, and what the connection throws. */
  async take(): Promise<void> {
    const { holder } = this.#options;
    const found = await this.#read();
    if (found === undefined) return this.#create();
    const verdict = judgeTurn({ spec: found.spec, holder, unchangedMs: this.#unchangedMs(found) });
    if (!verdict.take) {
      const left = Math.ceil(verdict.leftMs / 1000);
      throw this.#conflict(`is held by "${verdict.holder}", for ${left} s more unless it is given back`);
    }
    const transitions = (found.spec?.leaseTransitions ?? 0) + (verdict.reason === 'Own' ? 0 : 1);
    await this.#write(found, { ...this.#spec(), leaseTransitions: transitions });
  }

  /** Gives back what is ours. Never rejects: what stays is over after its time. */
  async giveBack(): Promise<void> {
    const { holder } = this.#options;
    try {
      const found = await this.#read();
      if (found?.spec?.holderIdentity === holder) await this.#write(found, { ...found.spec, holderIdentity: '' });
    } catch {
      // The API server is away, or somebody has found it over: in both cases it is not ours for long.
    }
  }

  async #read(): Promise<TurnLease | undefined> {
    const { connection, signal } = this.#options;
    try {
      return await connection.request<TurnLease>({ method: 'GET', path: this.#path, signal });
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

  async #write(found: TurnLease, spec: object): Promise<void> {
    const { connection, signal } = this.#options;
    // Without a resourceVersion a PUT is unconditional.
    if (!found.metadata?.resourceVersion) throw this.#conflict('has no resourceVersion');
    const path = `${this.#path}?fieldManager=${fieldManager}`;
    await connection.request({ method: 'PUT', path, body: { ...found, spec }, signal }).catch((err: unknown) => {
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

  #unchangedMs({ metadata }: TurnLease): number {
    const { clock } = this.#options;
    const nowMs = (clock.uptimeSeconds() ?? clock.now().getTime() / 1000) * 1000;
    const version = metadata?.resourceVersion ?? '';
    if (this.#seen?.version !== version) this.#seen = { version, sinceMs: nowMs };
    return nowMs - this.#seen.sinceMs;
  }

  #conflict(state: string, cause?: unknown): RecoveryError {
    const { namespace, name } = this.#options.lease;
    const message = `Cannot take Lease "${namespace}/${name}": it ${state}; waiting`;
    return new RecoveryError('KubeConflict', message, { cause });
  }
}
