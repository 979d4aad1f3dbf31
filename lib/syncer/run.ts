// The syncer: the published objects of an inventory become files below a directory, and stay so. Changes drive it; a
// recheck of everything each minute finds changes on disk. It stops when the signal aborts, or after one pass.
import { writeFile } from 'node:fs/promises';
import { WatchHealth, type WatchStatus } from '../kube/list-watch.ts';
import { errorText } from '../errors.ts';
import type { CheckState, Health } from '../health.ts';
import type { Metrics } from '../metrics.ts';
import type { Resolved } from '../inventory/model.ts';
import { watchVersion } from '../kube/objects.ts';
import type { Running } from '../log.ts';
import { DailySummary, listed, type Summary, summaryOf } from '../summary.ts';
import { checkDestination, Destination } from './destination.ts';
import { Room } from './room.ts';
import { defaultRecheckMs, ObjectSync, type ObjectSyncOptions, type SyncStatus } from './object-sync.ts';
import { type SyncedObject, syncedObjects } from './synced-objects.ts';

type ForObjects = Pick<ObjectSyncOptions, 'connection' | 'events' | 'recheckMs'>;

export interface SyncerOptions extends Running, ForObjects {
  readonly resolved: Resolved;
  /** Absolute path. Created, with its parents, unless this is a dry run. */
  readonly destinationDir: string;
  /** One pass over every object, without watches. */
  readonly once?: boolean;
  /** Nothing is written; the report lists the changes that would be made. */
  readonly dryRun?: boolean;
  readonly health?: Pick<Health, 'set'>;
  readonly metrics?: Metrics;
  /** Created, empty, after the first pass over every object: for a readiness probe. Absolute path. */
  readonly cachesSyncedFile?: string | undefined;
}

export interface SyncReport {
  readonly objects: readonly SyncStatus[];
  /** Every object is on disk as the API has it, or is optional and gone. */
  readonly ok: boolean;
}

/**
 * Throws ConfigInvalid (destination), and AlreadyRunning when another syncer has the destination; later problems are in
 * the report, the log and health.
 */
export async function runSyncer(options: SyncerOptions): Promise<SyncReport> {
  const { resolved, destinationDir, dryRun = false } = options;
  await checkDestination(destinationDir);
  const objects = syncedObjects(resolved, destinationDir);
  const destination = new Destination(destinationDir, options);
  try {
    if (!dryRun) await destination.begin();
    return await follow(objects, destination, options);
  } finally {
    await destination.release();
  }
}

/** Memory for passes in parallel: four objects that were not read before, or two of the largest. */
const roomBytes = 4 * 1024 * 1024;

async function follow(
  objects: readonly SyncedObject[],
  destination: Destination,
  options: SyncerOptions,
): Promise<SyncReport> {
  const { once = false, dryRun = false, connection, clock, log, signal, health, metrics } = options;
  const hold = (): Promise<void> => destination.hold();
  const caches = new CachesSynced(options);
  const room = new Room(roomBytes);
  const onLooked = (): void => caches.count(report());
  const syncs = objects.map((object) => new ObjectSync({ ...options, object, dryRun, hold, room, onLooked }));
  const report = (): SyncReport => {
    const all = syncs.map(({ status }) => status);
    return { objects: all, ok: all.every(isGood) };
  };
  const watches = new WatchHealth(clock.now());
  metrics?.queue('objects', () => report().objects.filter((status) => !isGood(status)).length);
  metrics?.set('kube_cert_recovery_watch_age_seconds', () => watches.ageMs(clock.now()) / 1000);
  if (!once) health?.set('syncer-watches', () => watches.check(clock.now()));
  health?.set('syncer', () => healthOf(report()));
  if (once) {
    await Promise.all(syncs.map((sync) => sync.pass()));
    await caches.told;
    log.info('sync.summary', syncSummary(report()));
    return report();
  }
  const follows = objects.flatMap(({ location, what }, at) => {
    const sync = syncs[at] as ObjectSync;
    const onStatus = (status: WatchStatus): void => watches.set(what, status);
    const onVersion = sync.offer.bind(sync);
    return [watchVersion({ ...location, connection, onVersion, onStatus, clock, log, signal }), sync.run()];
  });
  await Promise.all([recheck(destination, options, report), look(syncs, options), ...follows]);
  return report();
}

/** A path that has vanished is back well within a second. Never rejects. */
const lookMs = 500;

async function look(syncs: readonly ObjectSync[], { clock, signal }: SyncerOptions): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(lookMs, signal);
    for (const sync of syncs) sync.look();
  }
}

/**
 * Rechecks the destination, in addition to the objects' own rechecks, with a line a day that summarises all of them.
 * Never rejects.
 */
async function recheck(destination: Destination, options: SyncerOptions, report: () => SyncReport): Promise<void> {
  const { dryRun = false, clock, log, signal, recheckMs = defaultRecheckMs } = options;
  const summary = new DailySummary({ clock, log, event: 'sync.summary' });
  for (;;) {
    await clock.sleep(recheckMs, signal);
    if (signal.aborted) return;
    summary.tell(() => syncSummary(report()));
    if (dryRun) continue;
    await destination.repair();
    await destination.hold().catch(() => undefined); // a lock that cannot be taken is reported by the next write
  }
}

const isGood = ({ state }: SyncStatus): boolean => state === 'synced' || state === 'absent';

/** How many objects are on disk as the API has them, and whose certificate expires first. Pure. */
export const syncSummary = ({ objects }: SyncReport): Summary =>
  summaryOf(
    objects.map((status) => ({ name: status.name, isGood: isGood(status), notAfter: status.notAfter })),
    'objects are on disk as the API has them',
  );

function healthOf({ objects, ok }: SyncReport): CheckState & { readonly message: string } {
  const bad = objects.filter((status) => !isGood(status));
  const names = bad.map(({ what, state, reason }) => `${what}: ${reason ?? state}`);
  return { ok, message: ok ? `${objects.length} objects on disk` : listed(names) };
}

type CachesSyncedOptions = Pick<SyncerOptions, 'cachesSyncedFile' | 'dryRun' | 'log'>;

/**
 * The file by which a readiness probe detects that the syncer has started: OpenShift's cert-syncer creates it when its
 * caches are filled (library-go, pkg/operator/staticpod/certsyncpod, --caches-synced-file).
 */
export class CachesSynced {
  readonly #options: CachesSyncedOptions;
  #isDone: boolean;
  /** Resolves when the file exists, if one is wanted. Never rejects. */
  told: Promise<void> = Promise.resolve();

  constructor(options: CachesSyncedOptions) {
    this.#options = options;
    this.#isDone = options.dryRun === true || options.cachesSyncedFile === undefined;
  }

  /** Called after each pass with the state of the objects. */
  count({ objects }: { readonly objects: readonly Pick<SyncStatus, 'state'>[] }): void {
    const { cachesSyncedFile: path = '', log } = this.#options;
    if (this.#isDone || objects.some(({ state }) => state === 'pending')) return;
    this.#isDone = true;
    this.told = writeFile(path, '', { mode: 0o644 }).catch((err: unknown) => {
      log.warn('sync.failed', { path, err: errorText(err) });
    });
  }
}
