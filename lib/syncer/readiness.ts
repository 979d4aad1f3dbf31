// How the objects stand taken together: for health, for the line a day, and for a readiness probe.
import { writeFile } from 'node:fs/promises';
import { errorText } from '../errors.ts';
import type { CheckState } from '../health.ts';
import type { WatchStatus } from '../kube/watch-object.ts';
import type { Log } from '../log.ts';
import { type Summary, summaryOf as summaryOfAll } from '../summary.ts';
import type { SyncStatus } from './object-sync.ts';

export interface SyncReport {
  readonly objects: readonly SyncStatus[];
  /** Every object is on disk as the API has it, or is optional and gone. */
  readonly ok: boolean;
}

const isGood = ({ state }: SyncStatus): boolean => state === 'synced' || state === 'absent';

export function reportOf(objects: readonly SyncStatus[]): SyncReport {
  return { objects, ok: objects.every(isGood) };
}

/** How many objects are on disk as the API has them, and whose certificate ends first. Pure. */
export const summaryOf = ({ objects }: SyncReport): Summary =>
  summaryOfAll(
    objects.map((status) => ({ name: status.name, isGood: isGood(status), notAfter: status.notAfter })),
    'objects are on disk as the API has them',
  );

export function healthOf({ objects, ok }: SyncReport): CheckState & { readonly message: string } {
  const bad = objects.filter((status) => !isGood(status));
  const names = bad.map(({ what, state, reason }) => `${what}: ${reason ?? state}`);
  return { ok, message: ok ? `${objects.length} objects on disk` : listed(names) };
}

const mostNames = 10;

function listed(names: readonly string[]): string {
  const rest = names.length - mostNames;
  return [...names.slice(0, mostNames), ...(rest > 0 ? [`and ${rest} more`] : [])].join(', ');
}

export interface CachesSyncedOptions {
  readonly cachesSyncedFile?: string | undefined;
  readonly dryRun: boolean;
  readonly log: Log;
}

/**
 * The file by which a readiness probe sees that the syncer has begun: OpenShift's cert-syncer makes it when its caches are
 * filled (library-go, pkg/operator/staticpod/certsyncpod, --caches-synced-file).
 */
export class CachesSynced {
  readonly #options: CachesSyncedOptions;
  #isDone: boolean;
  /** Until the file is there, if one is wanted. Never rejects. */
  told: Promise<void> = Promise.resolve();

  constructor(options: CachesSyncedOptions) {
    this.#options = options;
    this.#isDone = options.dryRun || options.cachesSyncedFile === undefined;
  }

  /** To be called after each look: how the objects stand. */
  count({ objects }: { readonly objects: readonly Pick<SyncStatus, 'state'>[] }): void {
    const { cachesSyncedFile: path = '', log } = this.#options;
    if (this.#isDone || objects.some(({ state }) => state === 'pending')) return;
    this.#isDone = true;
    this.told = writeFile(path, '', { mode: 0o644 }).catch((err: unknown) => {
      log.warn('sync.failed', { path, err: errorText(err) });
    });
  }
}

export const longestSilenceMs = 120_000;

/**
 * Whether the watches follow the API: files on disk may be as the API had them hours ago. A watch of a quiet object hears
 * a bookmark about every minute, so silence means that it fails, or hangs. What failed is said by one of them: most often
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
