// List and watch of objects until the signal aborts: list, then watch from there, as a reflector of client-go. An
// object missing in a successful list, or DELETED, is gone; an error means nothing for any object.
// After any failure the objects are listed again, so an update made while the API was away is reported, not lost; only
// when the server closes a watch in an orderly way is the next watch started from the last version, without a list.
import type { Clock } from '../clock.ts';
import { type ErrorCode, errorText, isCode, RecoveryError } from '../errors.ts';
import type { CheckState } from '../health.ts';
import type { Log } from '../log.ts';
import { describeRequest } from './answer.ts';
import { type Attempt, isAway, isTooLarge, statusError, unavailable } from './api-error.ts';
import { backoffMs } from '../retry.ts';
import { listed } from '../summary.ts';
import type { KubeRequest, WatchEvent } from './kube.ts';
import { formQuery, list, type ListOptions } from './list.ts';
import type { ReceivedObject } from './received.ts';
import { withQuery } from './resources.ts';

/** State of a watch, for health checks. */
export interface WatchStatus {
  readonly phase: 'listing' | 'watching' | 'waiting' | 'stopped';
  /** Time of the server's last list, event or bookmark. */
  readonly lastProgress: Date | undefined;
  /** Why it waits. */
  readonly message?: string;
  readonly code?: ErrorCode;
}

export interface ListWatchOptions<T, K = T> extends ListOptions<T, K> {
  /** Form of the objects in events. Default: as in the list. */
  readonly events?: KubeRequest['objects'];
  /**
   * Receives all objects. It is called after each list, `onEvent` after each event; both return immediately and never
   * throw.
   */
  readonly onList: (objects: readonly K[]) => void;
  readonly onEvent: (type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T) => void;
  readonly onStatus?: (status: WatchStatus) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/** A kube-apiserver sends a bookmark about every minute. */
const silenceMs = 90_000;
const firstRetryMs = 100;
/** Retry limit until the first success, while the API server counts as starting: it is queried often. */
const longestRetryAtStartMs = 1000;
const longestRetryMs = 5000;
/** A failure that lasts is logged again after this time. */
const logAgainMs = 300_000;
/** A watch that the server closes sooner, without an event, counts as a failure: no tight loop of watches. */
const shortestWatchMs = 1000;

class ListWatch<T, K> {
  readonly #options: ListWatchOptions<T, K>;
  #lastProgress: Date | undefined;
  #resourceVersion: string | undefined;
  #listedOnce = false;
  /** Failures since the last progress of a watch. */
  #failures = 0;
  #loggedAt: Date | undefined;
  /** Called after a list that follows a failure: other failed requests may retry, too. */
  #succeeded: () => void = () => undefined;

  constructor(options: ListWatchOptions<T, K>) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      try {
        this.#resourceVersion ??= await this.#list();
        if (!(await this.#watch(this.#resourceVersion))) await this.#pause('the server ended the watch at once');
      } catch (err) {
        if (!signal.aborted) await this.#failed(err);
      }
    }
    this.#status('stopped');
  }

  async #list(): Promise<string> {
    const { clock, log, onList } = this.#options;
    this.#status('listing');
    const { objects, resourceVersion } = await list(this.#options);
    this.#lastProgress = clock.now();
    onList(objects);
    this.#succeeded();
    log.debug(this.#listedOnce ? 'watch.restarted' : 'watch.synced', { resourceVersion });
    this.#listedOnce = true;
    return resourceVersion;
  }

  /** Whether the watch was of use: it brought an event, or lasted. */
  async #watch(from: string): Promise<boolean> {
    const { connection, clock, signal } = this.#options;
    const objects = this.#options.events ?? this.#options.objects;
    // The server's own limit, spread so that many watches do not all close together.
    const timeoutSeconds = 300 + Math.floor(Math.random() * 300);
    const path = withQuery(this.#options.path, {
      ...formQuery(objects),
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: from,
      timeoutSeconds: `${timeoutSeconds}`,
    });
    const began = clock.now().getTime();
    const lasted = (): boolean => Math.abs(clock.now().getTime() - began) >= shortestWatchMs;
    let heard = false;
    this.#status('watching');
    try {
      for await (const event of connection.watch(path, { silenceMs, signal, objects })) {
        this.#take(event);
        heard = true;
      }
    } finally {
      if (lasted()) this.#failures = 0;
    }
    return heard || lasted() || signal.aborted;
  }

  #take({ type, object }: WatchEvent): void {
    if (type === 'ERROR') throw eventError(object, this.#attempt());
    const version = (object as ReceivedObject | undefined)?.metadata?.resourceVersion;
    if (version === undefined) throw unavailable(this.#attempt(), 'an event has no resourceVersion');
    this.#resourceVersion = version;
    this.#failures = 0;
    this.#lastProgress = this.#options.clock.now();
    if (type !== 'BOOKMARK') this.#options.onEvent(type, object as T);
    this.#status('watching');
  }

  async #failed(err: unknown): Promise<void> {
    this.#resourceVersion = undefined;
    // The version is too old for the server's watch cache: normal after a pause or a compaction, and a list settles it.
    // So it does after an event that is too large to read: a list of versions is short, whatever the objects hold.
    if ((isCode(err, 'WatchExpired') || isTooLarge(err)) && this.#failures === 0) {
      this.#failures = 1;
      return;
    }
    await this.#pause(errorText(err), err);
  }

  async #pause(message: string, err?: unknown): Promise<void> {
    const { connection, clock, log, signal } = this.#options;
    this.#failures += 1;
    const longestMs = this.#listedOnce ? longestRetryMs : longestRetryAtStartMs;
    // A server that is away has a pace of its own, shared by all waiting clients.
    const ms = isAway(err) ? 0 : backoffMs(this.#failures, { firstMs: firstRetryMs, longestMs, random: Math.random });
    const now = clock.now();
    const code = err instanceof RecoveryError ? { code: err.code } : {};
    const fields = { err: message, attempt: this.#failures, duration: ms, ...code };
    // The first failure is logged as a warning, and again when it lasts; failures in between are not.
    const quietMs = Math.abs(now.getTime() - (this.#loggedAt?.getTime() ?? 0));
    if (this.#failures === 1 || quietMs >= logAgainMs) {
      this.#loggedAt = now;
      log.warn('watch.failed', fields);
    } else log.debug('watch.failed', fields);
    this.#status('waiting', { message, ...code });
    await clock.sleep(ms, signal);
    this.#succeeded = await connection.turn(signal);
  }

  #attempt(): Attempt {
    return { ...describeRequest('GET', this.#options.path), verb: 'watch', server: this.#options.connection.server };
  }

  #status(phase: WatchStatus['phase'], why?: Pick<WatchStatus, 'message' | 'code'>): void {
    this.#options.onStatus?.({ phase, lastProgress: this.#lastProgress, ...why });
  }
}

/** An ERROR event carries a Status, like the answer to a refused request. */
function eventError(object: unknown, attempt: Attempt): RecoveryError {
  const code = Number((object as { readonly code?: unknown } | undefined)?.code ?? 500);
  return statusError(attempt, code, JSON.stringify(object ?? {}));
}

/** Reports lists and events until `signal` aborts; see the head of this file. Never rejects. */
export function listWatch<T extends object, K = T>(options: ListWatchOptions<T, K>): Promise<void> {
  return new ListWatch(options).run();
}

const longestSilenceMs = 120_000;

/**
 * Whether watches follow the API: cached state may be hours old. A watch of a quiet object or collection receives a
 * bookmark about every minute, so silence means that it fails, or hangs. The error of one watch is reported: most often
 * it is the same for all.
 */
export class WatchHealth {
  readonly #began: Date;
  readonly #statuses = new Map<string, WatchStatus>();

  constructor(began: Date) {
    this.#began = began;
  }

  /** `what`: `Secret "namespace/name"`. */
  set(what: string, status: WatchStatus): void {
    this.#statuses.set(what, status);
  }

  /** Longest time for which one has heard nothing. */
  ageMs(now: Date): number {
    const open = [...this.#statuses.values()].filter(({ phase }) => phase !== 'stopped');
    return Math.max(0, ...open.map(({ lastProgress }) => now.getTime() - (lastProgress ?? this.#began).getTime()));
  }

  check(now: Date): CheckState {
    const silent = [...this.#statuses].filter(([, { lastProgress, phase }]) => {
      const since = lastProgress ?? this.#began;
      return phase !== 'stopped' && now.getTime() - since.getTime() > longestSilenceMs;
    });
    if (silent.length === 0) return { ok: true, message: `${this.#statuses.size} objects watched` };
    const why = silent.map(([, status]) => status).find((status) => status.phase === 'waiting')?.message;
    const names = listed(silent.map(([what]) => what));
    return { ok: false, message: `nothing heard for two minutes of ${names}${why === undefined ? '' : `: ${why}`}` };
  }
}
