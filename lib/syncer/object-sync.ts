// The loop of one object: each new state, a recheck from time to time, and another attempt after a failure. The only
// place of the syncer that logs. A problem that lasts is logged when it begins and when it changes, not at each
// attempt.
import { errorText, RecoveryError } from '../errors.ts';
import type { EventReason, EventRecorder } from '../kube/events.ts';
import { apiKinds } from '../kube/resources.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import type { Log, LogFields, Running } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Cleared } from '../publish/make-room.ts';
import { namesStamp, scan, type Scan } from '../publish/scan.ts';
import { prune } from '../publish/writer.ts';
import { backoffMs, Wake } from '../retry.ts';
import type { KnownContent } from './known-content.ts';
import { type PassContext, type PassResult, type Suggested, restoreLost, syncObject } from './pass.ts';
import type { Room } from './room.ts';
import type { SyncedObject } from './synced-objects.ts';

/** State of an object. Only `synced` and `absent` (optional, and gone) are good states. */
export interface SyncStatus extends Pick<SyncedObject, 'name' | 'what' | 'published'> {
  readonly state: 'pending' | 'synced' | 'absent' | 'kept' | 'refused' | 'failed';
  /** `missing`, `expired`, `mismatchedPair`, ... or an error code. */
  readonly reason?: string;
  readonly message?: string;
  readonly resourceVersion?: string | undefined;
  /** notAfter of the content in the API. */
  readonly notAfter?: Date | undefined;
  /** Change of the last pass on disk; in a dry run, the change that it would have made. */
  readonly change?: 'written' | 'repaired' | 'removed';
  /** Time at which this state was last confirmed. */
  readonly at?: Date;
}

export interface ObjectSyncOptions extends PassContext, Running {
  readonly events?: Pick<EventRecorder, 'record'>;
  readonly metrics?: Pick<Metrics, 'wrote' | 'failed'>;
  /** Shared by all objects. */
  readonly room: Pick<Room, 'take'>;
  /** Called after each pass. */
  readonly onLooked?: () => void;
  /** Milliseconds between two full checks of an object's files. Default 60 000. */
  readonly recheckMs?: number | undefined;
}

const mode = 'syncer';
export const defaultRecheckMs = 60_000;
/** Time that regen has to create its own objects, before the administrator is notified. */
const awaitedMs = 30_000;
/**
 * Estimate for content that was not read before. It is mostly small; four of the largest at a time, with metadata as
 * large as content and six bytes of JSON for each character, fit into the heap.
 */
const unknownBytes = 1024 * 1024;
/** Too small for a wait. */
const smallBytes = 64 * 1024;
const retries = { firstMs: 100, longestMs: 10_000 };

type NewStatus = Omit<SyncStatus, 'name' | 'what' | 'published'>;

const isDone = (call: Promise<unknown>): Promise<boolean> =>
  call.then(
    () => true,
    () => false,
  );

/** No stamp of names. */
const unconfirmed = 'unconfirmed';

type Sync = typeof syncObject | typeof restoreLost;

export class ObjectSync {
  readonly #options: ObjectSyncOptions;
  readonly #log: Log;
  readonly #wake = new Wake();
  /** Last version from the watch, or from a read since; no version: the object is gone. */
  #newest: Suggested | undefined;
  #known: KnownContent | undefined;
  #status: SyncStatus;
  /** The resourceVersion whose content is on disk, as far as known. */
  #published: string | undefined;
  // Stamp of the names on disk before the last pass scanned them: files that vanished during the pass show, and after a
  // pass that wrote, another one confirms it. Undefined while a pass runs, or could not write.
  #stamp: string | undefined;
  #pruned = false;
  #failures = 0;
  /** Since when it has been missing; `reported` once the administrator was notified. */
  #awaited: { readonly since: number; reported: boolean } | undefined;

  constructor(options: ObjectSyncOptions) {
    const { name, what, published, location } = options.object;
    this.#options = options;
    this.#log = options.log.with({ [location.kind]: `${location.namespace}/${location.name}` });
    this.#status = { name, what, published, state: 'pending' };
  }

  get status(): SyncStatus {
    return this.#status;
  }

  /** Takes the newest version of the object, from its watch. Never waits; versions that come during a pass are one. */
  offer(version: string | undefined): void {
    this.#newest = { version };
    this.#wake.call();
  }

  /**
   * Checks the names on disk, to be called often: files that were removed since the last pass are restored immediately.
   */
  look(): void {
    if (this.#stamp !== undefined && namesStamp(this.#options.object.directory) !== this.#stamp) this.#wake.call();
  }

  /** Follows the offered versions until the signal aborts. Never rejects. */
  async run(): Promise<void> {
    const { signal, recheckMs = defaultRecheckMs } = this.#options;
    for (let delay = recheckMs; ;) {
      const isNews = await this.#wake.wait(this.#options, delay);
      if (signal.aborted) return;
      if (this.#newest === undefined) continue;
      await this.pass(this.#newest, !isNews && this.#failures === 0);
      // Spread, so that not all objects are read in the same second.
      delay =
        this.#failures > 0
          ? backoffMs(this.#failures, { ...retries, random: Math.random })
          : recheckMs * (0.75 + Math.random() / 4);
    }
  }

  /** One pass; without `suggested` the object is read from the API. Never rejects: the status shows the outcome. */
  async pass(suggested?: Suggested, asks = false): Promise<SyncStatus> {
    // What vanished comes back before news is read: no room is left while a server hangs, and it may need these files.
    if (suggested !== undefined && suggested.version !== this.#known?.version)
      await this.#within(this.#needs(this.#known), () => this.#pass(suggested, asks, restoreLost));
    await this.#within(this.#needs(suggested), () => this.#pass(suggested, asks, syncObject));
    this.#options.onLooked?.();
    return this.#status;
  }

  async #within(bytes: number, run: () => Promise<void>): Promise<void> {
    const leave = await this.#options.room.take(bytes);
    try {
      await run();
    } finally {
      leave();
    }
  }

  /**
   * Approximate bytes that a pass holds: the object read and the files on disk. The size of a new version is unknown.
   */
  #needs(suggested: Suggested | undefined): number {
    const { version, size = 0 } = this.#known ?? {};
    if (suggested === undefined || version !== suggested.version) return Math.max(unknownBytes, 2 * size);
    return size <= smallBytes ? 0 : 2 * size;
  }

  async #pass(suggested: Suggested | undefined, asks: boolean, sync: Sync): Promise<void> {
    const { clock, signal, metrics } = this.#options;
    const began = clock.now().getTime();
    this.#stamp = undefined;
    const stamp = namesStamp(this.#options.object.directory);
    try {
      const [known, published] = [this.#known, this.#published];
      const scanned = await this.#scan();
      const onCleared = (cleared: Cleared): void => this.#cleared(cleared);
      const result = await sync({ ...this.#options, scanned, suggested, known, asks, published, onCleared });
      if (result === undefined) return;
      this.#known = result.known;
      if (this.#newest === suggested && sync === syncObject) this.#newest = { version: result.resourceVersion };
      this.#failures = 0;
      // Files that vanish again right after a write have the names of before it: another pass confirms the write.
      this.#stamp = result.action === 'write' || result.action === 'remove' ? unconfirmed : stamp;
      this.#report(result, clock.now().getTime() - began);
    } catch (err) {
      if (signal.aborted) return;
      this.#failures += 1;
      const reason = err instanceof RecoveryError ? err.code : 'unknown';
      // Nothing was written: files that vanish before the next attempt show.
      if (reason !== 'WriteFailed') this.#stamp = stamp;
      const fields = { err: errorText(err), code: reason, attempt: this.#failures };
      metrics?.failed(mode, reason);
      if (reason === 'WriteFailed') metrics?.wrote(mode, 'failed');
      this.#set({ state: 'failed', reason, message: errorText(err), at: clock.now() }, () =>
        this.#log.error('sync.failed', fields),
      );
    }
  }

  /** Scans the directory. The first scan of a run also removes leftovers of a crash, if the lock can be taken. */
  async #scan(): Promise<Scan> {
    const { object, dryRun, hold } = this.#options;
    const { directory, what } = object;
    const look = (): Promise<Scan> =>
      attempt({ code: 'WriteFailed', action: 'publish', what, directory }, () => scan(realDisk, directory, !dryRun));
    if (this.#pruned || dryRun) return look();
    // A lock that cannot be taken is reported by a pass that has something to write.
    const holds = await isDone(hold());
    const scanned = await look();
    if (!holds) return scanned;
    // Leftovers that cannot be removed keep no renewed content from its readers; publish, which removes them last,
    // reports why.
    this.#pruned = await isDone(prune(object, scanned));
    return scanned.leftovers.length === 0 ? scanned : look();
  }

  #cleared({ path, count }: Cleared): void {
    const lost = count === undefined ? 'all that lay in it' : `${count} files and directories`;
    const message = `a directory lay where a file belongs: it was taken away, ${lost} with it; no copy is kept`;
    this.#log.warn('sync.repaired', { path, message });
  }

  #report(result: PassResult, duration: number): void {
    const { object, clock, metrics } = this.#options;
    const { action, resourceVersion, notAfter } = result;
    const known = { at: clock.now(), resourceVersion, notAfter };
    const fields: LogFields = {
      path: object.directory,
      duration,
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(notAfter !== undefined && { notAfter: notAfter.toISOString() }),
    };
    this.#published = action === 'none' || action === 'write' ? resourceVersion : undefined;
    if (action === 'keep' && result.reason === 'missing' && object.isMade === true) {
      const { reason, message } = result;
      this.#become({ state: 'kept', reason, message, ...known });
      this.#await(message, { ...fields, reason, message });
      return;
    }
    this.#awaited = undefined;
    if (action === 'keep' || action === 'refuse') {
      const { reason, message } = result;
      if (this.#status.reason !== reason) metrics?.failed(mode, reason);
      this.#set({ state: action === 'keep' ? 'kept' : 'refused', reason, message, ...known }, () =>
        this.#log.warn('sync.refused', { ...fields, reason, message }),
      );
    } else if (action === 'remove') {
      this.#become({ state: 'absent', change: 'removed', ...known });
      this.#changed('removed', { ...fields, reason: result.reason });
    } else if (action === 'write' && result.outcome !== 'unchanged') {
      const { reason, warning, outcome } = result;
      this.#become({ state: 'synced', change: outcome, ...known });
      const message = warning === undefined ? {} : { message: `written as it is: ${warning}` };
      this.#changed('written', { ...fields, reason, ...message });
    } else {
      const isResolved = ['kept', 'refused', 'failed'].includes(this.#status.state);
      this.#become({ state: resourceVersion === undefined ? 'absent' : 'synced', ...known });
      const message = `${object.what} is on disk as it should be`;
      if (isResolved) this.#log.info('sync.resolved', { ...fields, message });
      else this.#log.debug('sync.unchanged', fields);
    }
  }

  /** Regen creates it in seconds: the administrator is notified only when it has not. */
  #await(message: string, fields: LogFields): void {
    const now = this.#options.clock.now().getTime();
    if (this.#awaited === undefined) this.#log.info('sync.refused', fields);
    this.#awaited ??= { since: now, reported: false };
    if (this.#awaited.reported || Math.abs(now - this.#awaited.since) < awaitedMs) return;
    this.#awaited.reported = true;
    const text = `${message}, and has not for ${awaitedMs / 1000} s: see its log`;
    this.#options.metrics?.failed(mode, 'missing');
    this.#log.warn('sync.refused', { ...fields, message: text });
    this.#record('Warning', 'CertificateUpdateFailed', text);
  }

  #changed(change: 'written' | 'removed', fields: LogFields): void {
    const { object, dryRun, metrics } = this.#options;
    if (dryRun) {
      this.#log.info('sync.unchanged', { ...fields, reason: 'dryRun', message: `would be ${change}` });
      return;
    }
    const at = `${object.what} at "${object.directory}"`;
    const level = fields.message === undefined ? 'info' : 'warn';
    if (change === 'written') metrics?.wrote(mode, 'written');
    this.#log[level](change === 'written' ? 'sync.written' : 'sync.removed', fields);
    if (change === 'written') this.#record('Normal', 'CertificateUpdated', `Wrote ${at}`);
    else this.#record('Normal', 'CertificateRemoved', `Removed ${at}`);
  }

  /** Sets a bad state, and logs it when it is new. */
  #set(problem: NewStatus, tell: () => void): void {
    const { state, reason, message } = this.#status;
    this.#become(problem);
    if (state === problem.state && reason === problem.reason && message === problem.message) return;
    tell();
    this.#record('Warning', 'CertificateUpdateFailed', problem.message ?? '');
  }

  #become(status: NewStatus): void {
    const { name, what, published } = this.#options.object;
    this.#status = { name, what, published, ...status };
  }

  #record(type: 'Normal' | 'Warning', reason: EventReason, note: string): void {
    const { object, events, dryRun } = this.#options;
    if (dryRun) return;
    const { kind, namespace, name } = object.location;
    events?.record({ type, reason, regarding: { kind: apiKinds[kind], namespace, name }, note });
  }
}
