// The syncer: the published objects of an inventory become files below a directory, and stay so. Changes drive it; a
// recheck of everything each minute finds what changed on disk. It ends when the signal aborts, or after one pass.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import type { Health } from '../health.ts';
import type { Resolved } from '../inventory/model.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { watchObject } from '../kube/watch-object.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { openUp, repairParent } from '../publish/access.ts';
import { pruneRemoved } from '../publish/remove.ts';
import { DailySummary, type Summary, summaryOf as summaryOfAll } from '../summary.ts';
import { DestinationLock, lockDirectory } from './destination-lock.ts';
import { CachesSynced } from './caches-synced.ts';
import { defaultRecheckMs, ObjectSync, type SyncStatus } from './object-sync.ts';
import { destinationProblem, kindDirectory, rowsOf, type SyncRow } from './rows.ts';
import { WatchHealth } from './watch-health.ts';

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
  /** Called after the files of an object changed. Must return at once and must not throw. */
  readonly onWritten?: (row: SyncRow) => void;
  /** Milliseconds between two full checks of an object's files. Default 60 000. */
  readonly recheckMs?: number;
}

export interface SyncReport {
  readonly objects: readonly SyncStatus[];
  /** Every object is on disk as the API has it, or is optional and gone. */
  readonly ok: boolean;
}

/**
 * Throws ConfigInvalid (destination), InventoryInvalid, and AlreadyRunning when another syncer has the destination;
 * everything later is in the report, the log and health.
 */
export async function runSyncer(options: SyncerOptions): Promise<SyncReport> {
  const { resolved, destinationDir, dryRun = false, clock, log } = options;
  await checkDestination(destinationDir);
  const rows = rowsOf(resolved, destinationDir);
  const lock = new DestinationLock(destinationDir, clock);
  try {
    if (!dryRun) await begin(lock, destinationDir, log);
    return await follow(rows, lock, options);
  } finally {
    await lock.release();
  }
}

async function begin(lock: DestinationLock, destinationDir: string, log: Log): Promise<void> {
  await repairParents(destinationDir, log); // else the lock itself may be out of reach
  try {
    await lock.hold();
  } catch (err) {
    if (isCode(err, 'AlreadyRunning')) throw err;
    // The disk may be repaired while this runs: whoever writes takes the lock before.
    log.warn('sync.failed', { path: destinationDir, err: errorText(err) });
    return;
  }
  await pruneKinds(destinationDir, log);
}

async function follow(rows: readonly SyncRow[], lock: DestinationLock, options: SyncerOptions): Promise<SyncReport> {
  const { once = false, dryRun = false, clock, log, signal, health } = options;
  const hold = (): Promise<void> => lock.hold();
  const caches = new CachesSynced({ ...options, dryRun });
  const onLooked = (): void => caches.count(report());
  const syncs = rows.map((row) => ({ row, sync: new ObjectSync({ ...options, row, dryRun, hold, onLooked }) }));
  const report = (): SyncReport => reportOf(syncs.map(({ sync }) => sync.status));
  const watches = new WatchHealth(clock.now());
  if (!once) health?.set('syncer-watches', () => watches.check(clock.now()));
  health?.set('syncer', () => healthOf(report()));
  if (once) {
    await Promise.all(syncs.map(({ sync }) => sync.pass()));
    await caches.told;
    return report();
  }
  const parents = recheckParents(options, report);
  await Promise.all(
    syncs.map(async ({ row, sync }) => {
      const { kind, namespace, name } = row.location;
      const { connection } = options;
      const watch = watchObject({
        connection,
        kind,
        namespace,
        name,
        onState: sync.offer.bind(sync),
        onStatus: (status) => watches.set(row.what, status),
        clock,
        log,
        signal,
      });
      await Promise.all([watch, sync.run()]);
    }),
  );
  await parents;
  return report();
}

/** Beside the objects' own rechecks, with a line a day that says how all of them stand. Never rejects. */
async function recheckParents(options: SyncerOptions, report: () => SyncReport): Promise<void> {
  const { destinationDir, dryRun = false, clock, log, signal, recheckMs = defaultRecheckMs } = options;
  const told = new Set<string>();
  const summary = new DailySummary({ clock, log, event: 'sync.summary' });
  for (;;) {
    await clock.sleep(recheckMs, signal);
    if (signal.aborted) return;
    summary.tell(() => summaryOf(report()));
    if (!dryRun) await repairParents(destinationDir, log, told);
  }
}

/** What fails again in the same way is told once. */
async function repairParents(destinationDir: string, log: Log, told = new Set<string>()): Promise<void> {
  const kinds = Object.values(kindDirectory).map((kind) => join(destinationDir, kind));
  for (const directory of [destinationDir, ...kinds]) {
    try {
      const mode = await repairParent({ directory, what: `directory "${directory}"` });
      if (mode === undefined) continue;
      const message = `its mode was 0${mode.toString(8)}: it shut this process out, or let others replace what is below`;
      log.warn('sync.repaired', { path: directory, message });
    } catch (err) {
      if (told.has(errorText(err))) continue;
      told.add(errorText(err));
      log.warn('sync.failed', { path: directory, err: errorText(err) });
    }
  }
  // Else the lock cannot be released; a lock that is taken later makes its own directory right.
  await openUp({ directory: join(destinationDir, lockDirectory), what: 'lock' }).catch(() => undefined);
}

async function checkDestination(path: string): Promise<void> {
  const refuse = (problem: string): never => {
    const message = `Cannot use destination directory "${path}": it ${problem}; the absolute path of a directory is wanted`;
    throw new RecoveryError('ConfigInvalid', message);
  };
  const problem = destinationProblem(path);
  if (problem !== undefined) refuse(problem);
  // What cannot be looked at now is reported by the objects, and may be repaired while this runs.
  const stats = await stat(path).catch((err: NodeJS.ErrnoException) => {
    if (err.code === 'ENOTDIR') refuse('is not a directory');
    return undefined;
  });
  if (stats !== undefined && !stats.isDirectory()) refuse('is not a directory');
}

/** Residue of an interrupted removal. Not worth a stop: the objects themselves are told of a disk that refuses. */
async function pruneKinds(destinationDir: string, log: Log): Promise<void> {
  for (const kind of Object.values(kindDirectory)) {
    const directory = join(destinationDir, kind);
    try {
      await pruneRemoved({ directory, what: `directory "${directory}"` });
    } catch (err) {
      log.warn('sync.failed', { path: directory, err: errorText(err) });
    }
  }
}

/** How many objects are on disk as the API has them, and whose certificate ends first. Pure. */
export const summaryOf = ({ objects }: SyncReport): Summary =>
  summaryOfAll(
    objects.map((status) => ({ name: status.name, isGood: isGood(status), notAfter: status.notAfter })),
    'objects are on disk as the API has them',
  );

const isGood = ({ state }: SyncStatus): boolean => state === 'synced' || state === 'absent';

function reportOf(objects: readonly SyncStatus[]): SyncReport {
  return { objects, ok: objects.every(isGood) };
}

function healthOf({ objects, ok }: SyncReport): { readonly ok: boolean; readonly message: string } {
  const bad = objects.filter((status) => !isGood(status));
  const names = bad.slice(0, 10).map(({ what, state, reason }) => `${what}: ${reason ?? state}`);
  const rest = bad.length > names.length ? [`and ${bad.length - names.length} more`] : [];
  return { ok, message: ok ? `${objects.length} objects on disk` : [...names, ...rest].join(', ') };
}
