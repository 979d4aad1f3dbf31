// The loop of one object: each new state, a recheck from time to time, and another attempt after a failure. The only
// place of the syncer that logs. A problem that lasts is logged when it begins and when it changes, not at each attempt.
import { errorText, RecoveryError } from '../errors.ts';
import { backoffMs } from '../kube/backoff.ts';
import type { EventReason, EventRecorder } from '../kube/events.ts';
import type { ObjectState } from '../kube/kube.ts';
import type { Log, LogFields } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { openUp } from '../publish/access.ts';
import { prune } from '../publish/remove.ts';
import { Mailbox } from './mailbox.ts';
import type { ApiObject } from './material.ts';
import type { SyncRow } from './rows.ts';
import { readLive, syncObject, type PassContext, type PassResult } from './sync-object.ts';

/** How an object stands. Only `synced` and `absent` (optional, and gone) are as they should be. */
export interface SyncStatus {
  readonly name: string;
  readonly what: string;
  readonly published: 'required' | 'optional';
  readonly state: 'pending' | 'synced' | 'absent' | 'kept' | 'refused' | 'failed';
  /** `missing`, `expired`, `mismatchedPair`, ... or an error code. */
  readonly reason?: string;
  readonly message?: string;
  readonly resourceVersion?: string;
  /** Of the content in the API. */
  readonly notAfter?: Date;
  /** What the last pass changed on disk; in a dry run, what it would have changed. */
  readonly change?: 'written' | 'repaired' | 'removed';
  /** When this state was last confirmed. */
  readonly at?: Date;
}

export interface ObjectSyncOptions extends PassContext {
  readonly row: SyncRow;
  readonly log: Log;
  readonly events?: Pick<EventRecorder, 'record'>;
  readonly metrics?: Pick<Metrics, 'wrote' | 'failed'>;
  /** After the files changed. */
  readonly onWritten?: (row: SyncRow) => void;
  /** After each look. */
  readonly onLooked?: () => void;
  readonly recheckMs?: number;
  readonly random?: () => number;
}

const mode = 'syncer';
export const defaultRecheckMs = 60_000;
/** So long regen has for what it makes itself, before anybody is called. */
const awaitedMs = 30_000;
const firstRetryMs = 100;
const longestRetryMs = 10_000;

export class ObjectSync {
  readonly #options: ObjectSyncOptions;
  readonly #log: Log;
  readonly #mailbox = new Mailbox<ObjectState<ApiObject>>();
  #status: SyncStatus;
  /** The resourceVersion whose content is on disk, as far as known. */
  #published: string | undefined;
  #pruned = false;
  #failures = 0;
  /** Since when it has been missing; `told` once somebody was called. */
  #awaited: { readonly since: number; told: boolean } | undefined;

  constructor(options: ObjectSyncOptions) {
    const { row, log } = options;
    this.#options = options;
    const { namespace, name, kind } = row.location;
    this.#log = log.with({ [kind]: `${namespace}/${name}` });
    this.#status = { name: row.name, what: row.what, published: row.published, state: 'pending' };
  }

  get status(): SyncStatus {
    return this.#status;
  }

  /** The newest state of the object, from its watch. Never waits. */
  offer(state: ObjectState<ApiObject>): void {
    this.#mailbox.put(state);
  }

  /** Follows the states that are offered until the signal aborts. Never rejects. */
  async run(): Promise<void> {
    const { clock, signal, recheckMs = defaultRecheckMs, random = Math.random } = this.#options;
    for (let delay = recheckMs; ;) {
      const waiting = new AbortController();
      const isNews = await this.#mailbox.changed(clock.sleep(delay, AbortSignal.any([signal, waiting.signal])));
      waiting.abort();
      if (signal.aborted) return;
      if (this.#mailbox.newest === undefined) continue;
      if (!isNews && this.#failures === 0) await this.#ask();
      await this.pass(this.#mailbox.newest);
      const backoff = { firstMs: firstRetryMs, longestMs: longestRetryMs, random };
      // Spread, so that not all objects are asked for in the same second.
      delay = this.#failures > 0 ? backoffMs(this.#failures, backoff) : recheckMs * (0.75 + random() / 4);
    }
  }

  /** A watch may lose an event and go on: nothing but a read tells. While the API is away the disk is looked at alone. */
  async #ask(): Promise<void> {
    const { row } = this.#options;
    const live = await readLive(row, this.#options).catch(() => undefined);
    if (live !== undefined) this.#mailbox.correct(live);
  }

  /** One pass; without `suggested` the object is read from the API. Never rejects: the status says how it went. */
  async pass(suggested?: ObjectState<ApiObject>): Promise<SyncStatus> {
    const { row, clock, dryRun, signal } = this.#options;
    const began = clock.now().getTime();
    try {
      if (!dryRun) await openUp({ directory: row.directory, what: row.what });
      if (!this.#pruned && !dryRun && (await this.#holds())) this.#pruned = await this.#prune();
      const context = { ...this.#options, synced: this.#status.resourceVersion, published: this.#published };
      const result = await syncObject(row, context, suggested);
      this.#failures = 0;
      this.#report(result, clock.now().getTime() - began);
    } catch (err) {
      if (signal.aborted) return this.#status;
      this.#failures += 1;
      const reason = err instanceof RecoveryError ? err.code : 'unknown';
      const fields = { err: errorText(err), code: reason, attempt: this.#failures };
      this.#options.metrics?.failed(mode, reason);
      if (reason === 'WriteFailed') this.#options.metrics?.wrote(mode, 'failed');
      this.#set({ state: 'failed', reason, message: errorText(err), at: clock.now() }, () =>
        this.#log.error('sync.failed', fields),
      );
    }
    this.#options.onLooked?.();
    return this.#status;
  }

  /** What cannot be removed keeps no renewed content from its readers; publish, which removes it last, tells why. */
  #prune(): Promise<boolean> {
    const { directory, what } = this.#options.row;
    return prune({ directory, what }).then(
      () => true,
      () => false,
    );
  }

  /** Without the lock nothing is pruned; that it cannot be taken is told by a pass that has something to write. */
  #holds(): Promise<boolean> {
    const { hold } = this.#options;
    return hold().then(
      () => true,
      () => false,
    );
  }

  #report(result: PassResult, duration: number): void {
    const { row, clock, metrics } = this.#options;
    const { resourceVersion, notAfter } = result;
    const known = {
      at: clock.now(),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(notAfter !== undefined && { notAfter }),
    };
    const fields: LogFields = {
      path: row.directory,
      duration,
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(notAfter !== undefined && { notAfter: notAfter.toISOString() }),
    };
    const { action } = result;
    this.#published = action === 'none' || action === 'write' ? resourceVersion : undefined;
    const isAwaited = action === 'keep' && result.reason === 'missing' && row.isMade === true;
    if (!isAwaited) this.#awaited = undefined;
    if (isAwaited) this.#await(result.message, { ...fields, reason: result.reason, message: result.message }, known);
    else if (action === 'keep' || action === 'refuse') {
      const { reason, message } = result;
      const state = action === 'keep' ? 'kept' : 'refused';
      if (this.#status.reason !== reason) metrics?.failed(mode, reason);
      this.#set({ state, reason, message, ...known }, () =>
        this.#log.warn('sync.refused', { ...fields, reason, message }),
      );
    } else if (action === 'remove') {
      this.#status = { ...this.#base(), state: 'absent', change: 'removed', ...known };
      this.#changed('removed', { ...fields, reason: result.reason });
    } else if (action === 'write' && result.outcome !== 'unchanged') {
      this.#status = { ...this.#base(), state: 'synced', change: result.outcome, ...known };
      const { reason, warning } = result;
      this.#changed('written', {
        ...fields,
        reason,
        ...(warning !== undefined && { message: `written as it is: ${warning}` }),
      });
    } else {
      const state = resourceVersion === undefined ? 'absent' : 'synced';
      const isResolved = ['kept', 'refused', 'failed'].includes(this.#status.state);
      this.#status = { ...this.#base(), state, ...known };
      if (isResolved) this.#log.info('sync.resolved', { ...fields, message: `${row.what} is on disk as it should be` });
      else this.#log.debug('sync.unchanged', fields);
    }
  }

  /** Regen makes it in seconds: a person is called only when it has not. */
  #await(message: string, fields: LogFields, known: Pick<SyncStatus, 'at' | 'resourceVersion' | 'notAfter'>): void {
    const now = this.#options.clock.now().getTime();
    const isFirst = this.#awaited === undefined;
    this.#awaited ??= { since: now, told: false };
    this.#status = { ...this.#base(), state: 'kept', reason: 'missing', message, ...known };
    if (isFirst) this.#log.info('sync.refused', fields);
    if (this.#awaited.told || Math.abs(now - this.#awaited.since) < awaitedMs) return;
    this.#awaited.told = true;
    const text = `${message}, and has not for ${awaitedMs / 1000} s: see its log`;
    this.#options.metrics?.failed(mode, 'missing');
    this.#log.warn('sync.refused', { ...fields, message: text });
    this.#record('Warning', 'CertificateUpdateFailed', text);
  }

  #changed(change: 'written' | 'removed', fields: LogFields): void {
    const { row, dryRun, onWritten, metrics } = this.#options;
    if (dryRun) {
      this.#log.info('sync.unchanged', { ...fields, reason: 'dryRun', message: `would be ${change}` });
      return;
    }
    const level = fields.message === undefined ? 'info' : 'warn';
    if (change === 'written') metrics?.wrote(mode, 'written');
    this.#log[level](change === 'written' ? 'sync.written' : 'sync.removed', fields);
    const event = change === 'written' ? 'CertificateUpdated' : 'CertificateRemoved';
    this.#record('Normal', event, `${change === 'written' ? 'Wrote' : 'Removed'} ${row.what} at "${row.directory}"`);
    onWritten?.(row);
  }

  /** A state that is not as it should be: told when it is news. */
  #set(problem: Omit<SyncStatus, 'name' | 'what' | 'published'>, tell: () => void): void {
    const { state, reason, message } = this.#status;
    const isNews = state !== problem.state || reason !== problem.reason || message !== problem.message;
    this.#status = { ...this.#base(), ...problem };
    if (!isNews) return;
    tell();
    this.#record('Warning', 'CertificateUpdateFailed', problem.message ?? '');
  }

  #base(): Pick<SyncStatus, 'name' | 'what' | 'published'> {
    const { name, what, published } = this.#status;
    return { name, what, published };
  }

  #record(type: 'Normal' | 'Warning', reason: EventReason, note: string): void {
    const { row, events, dryRun } = this.#options;
    if (dryRun) return;
    const { kind, namespace, name } = row.location;
    const regarding = { kind: kind === 'secret' ? ('Secret' as const) : ('ConfigMap' as const), namespace, name };
    events?.record({ type, reason, regarding, note });
  }
}
