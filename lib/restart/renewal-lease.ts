// Renewal ahead of time on one control-plane node of a cluster after the other. Before a node renews valid certificates
// it takes a Lease, and it gives that back when all restarted components are proven in use; a node that cannot prove
// that keeps it, so that a fault does not spread. Expired certificates need no Lease, and the wait is bounded
// (lib/plan/ahead-rules.ts).
import type { Clock } from '../clock.ts';
import { errorText, isCode } from '../errors.ts';
import type { RunState } from '../host/state.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { leaseText } from '../kube/leases.ts';
import type { Log } from '../log.ts';
import { MachineLease, renewalLease } from './machine-lease.ts';
import { nextCommand } from '../next-command.ts';

export interface RenewalLeaseOptions {
  /** Runs one piece of work with a connection as this host. */
  readonly withConnection: <T>(work: (connection: KubeConnection) => Promise<T>) => Promise<T>;
  /** Unique name of this machine in the cluster: the name of its Node object, where known. */
  readonly holder: () => Promise<string>;
  /** Keeps the holder for the next process when this one stops before its renewal is proven. */
  readonly state: RunState;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const name = `${renewalLease.namespace}/${renewalLease.name}`;

export class RenewalLease {
  readonly #options: RenewalLeaseOptions;

  constructor(options: RenewalLeaseOptions) {
    this.#options = options;
  }

  /** Undefined when this node may renew now; else why it has to wait, as the end of a sentence. Never rejects. */
  async take(): Promise<string | undefined> {
    const { log, state } = this.#options;
    const noted = await state.getText(noteName);
    try {
      const holder = noted?.value ?? (await this.#options.holder());
      // Noted first: a Lease that is taken and not noted would never be given back.
      await state.set(noteName, holder);
      await this.#with(holder, (lease) => lease.acquire());
      log.info('renewal.started', { lease: name });
      await state.forget(waitingNote);
      return undefined;
    } catch (err) {
      const isHeld = isCode(err, 'KubeConflict');
      if (noted === undefined) await state.forget(noteName);
      const granted = isCode(err, 'KubeForbidden', 'KubeNotFound') ? `; ${grant}` : '';
      const message = isHeld ? err.message : `Cannot take ${leaseText(renewalLease)}: ${errorText(err)}${granted}`;
      await this.#tellWaiting(isHeld, message);
      return message;
    }
  }

  /** Logs a wait when it begins, and once an hour from then on: a timer runs each minute. */
  async #tellWaiting(isHeld: boolean, message: string): Promise<void> {
    const { clock, log, state } = this.#options;
    if (await state.isNews(waitingNote, isHeld ? 'held' : 'refused', clock.now()))
      log[isHeld ? 'info' : 'warn']('renewal.waiting', { lease: name, message });
  }

  /**
   * Called at the end of a run that restarts: gives the Lease back where this node has it and all is proven, else keeps
   * it.
   */
  async settle(isProven: () => Promise<boolean>): Promise<void> {
    const { log, state } = this.#options;
    const holder = (await state.getText(noteName))?.value;
    if (holder === undefined) return;
    try {
      if (!(await isProven())) return await this.#with(holder, (lease) => lease.acquire());
      await this.#with(holder, (lease) => lease.giveBack(releaseMs));
      await state.remove(noteName);
      log.info('renewal.finished', { lease: name });
    } catch (err) {
      // The note stays: the next run gives the Lease back.
      log.warn('renewal.unproven', { lease: name, err: errorText(err) });
    }
  }

  #with<T>(holder: string, work: (lease: MachineLease) => Promise<T>): Promise<T> {
    const { withConnection, clock, signal, state } = this.#options;
    return withConnection((connection) =>
      work(
        new MachineLease({
          connection,
          lease: renewalLease,
          holder,
          state,
          clock,
          signal,
          timeoutMs,
          durationSeconds,
        }),
      ),
    );
  }
}

/**
 * The fault that a renewal may cause is an API server of this node that does not answer, and then the Lease cannot be
 * renewed: for so long the other nodes do not renew. They wait no longer than their certificates allow.
 */
const durationSeconds = 6 * 3600;
const timeoutMs = 3_000;
/** kube-apiserver reads its certificates again without a restart: it answers, or is away for another reason. */
const releaseMs = 10_000;

const [noteName, waitingNote] = ['renewing', 'waiting'];

const grant = `grant it with "${nextCommand('init host')}" on a control-plane node`;
