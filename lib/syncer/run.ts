// The syncer: the published objects of an inventory become files below a directory, and stay so. Changes drive it; a
// recheck of everything each minute finds what changed on disk. It ends when the signal aborts, or after one pass.
import type { Clock } from '../clock.ts';
import type { Health } from '../health.ts';
import type { Resolved } from '../inventory/model.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { watchObject } from '../kube/watch-object.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { DailySummary } from '../summary.ts';
import { checkDestination, Destination } from './destination.ts';
import { defaultRecheckMs, ObjectSync } from './object-sync.ts';
import { CachesSynced, healthOf, reportOf, summaryOf, type SyncReport, WatchHealth } from './readiness.ts';
import { type SyncedObject, syncedObjects } from './synced-objects.ts';

export interface SyncerOptions {
  readonly resolved: Resolved;
  readonly connection: KubeConnection;
  /** Absolute. Made, with its parents, unless this is a dry run. */
  readonly destinationDir: string;
  /** One pass over every object, without watches. */
  readonly once?: boolean;
  /** Nothing is written; the report says what would be. */
  readonly dryRun?: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly health?: Pick<Health, 'set'>;
  readonly events?: Pick<EventRecorder, 'record'>;
  readonly metrics?: Pick<Metrics, 'wrote' | 'failed'>;
  readonly signal: AbortSignal;
  /** Made, empty, once every object has been looked at: for a readiness probe. Absolute. */
  readonly cachesSyncedFile?: string | undefined;
  /** Milliseconds between two full checks of an object's files. Default 60 000. */
  readonly recheckMs?: number;
}

/**
 * Throws ConfigInvalid (destination), InventoryInvalid, and AlreadyRunning when another syncer has the destination;
 * everything later is in the report, the log and health.
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

async function follow(
  objects: readonly SyncedObject[],
  destination: Destination,
  options: SyncerOptions,
): Promise<SyncReport> {
  const { once = false, dryRun = false, connection, clock, log, signal, health } = options;
  const hold = (): Promise<void> => destination.hold();
  const caches = new CachesSynced({ ...options, dryRun });
  const onLooked = (): void => caches.count(report());
  const syncs = objects.map((object) => new ObjectSync({ ...options, object, dryRun, hold, onLooked }));
  const report = (): SyncReport => reportOf(syncs.map(({ status }) => status));
  const watches = new WatchHealth(clock.now());
  if (!once) health?.set('syncer-watches', () => watches.check(clock.now()));
  health?.set('syncer', () => healthOf(report()));
  if (once) {
    await Promise.all(syncs.map((sync) => sync.pass()));
    await caches.told;
    return report();
  }
  const follows = objects.flatMap(({ location, what }, at) => {
    const sync = syncs[at] as ObjectSync;
    const { kind, namespace, name } = location;
    const onState = sync.offer.bind(sync);
    const watch = watchObject({
      connection,
      kind,
      namespace,
      name,
      onState,
      onStatus: (status) => watches.set(what, status),
      clock,
      log,
      signal,
    });
    return [watch, sync.run()];
  });
  await Promise.all([recheck(destination, options, report), ...follows]);
  return report();
}

/** Beside the objects' own rechecks, with a line a day that says how all of them stand. Never rejects. */
async function recheck(destination: Destination, options: SyncerOptions, report: () => SyncReport): Promise<void> {
  const { dryRun = false, clock, log, signal, recheckMs = defaultRecheckMs } = options;
  const summary = new DailySummary({ clock, log, event: 'sync.summary' });
  for (;;) {
    await clock.sleep(recheckMs, signal);
    if (signal.aborted) return;
    summary.tell(() => summaryOf(report()));
    if (!dryRun) await destination.repair();
  }
}
