// The state of files, change by change: a hint triggers a read, the hash of the content detects a change, a slow rescan
// finds changes without a hint. There is no queue: the reader pulls, and gets the difference between its last state and
// the present one, so a slow reader costs nothing and a burst is one batch.
import { type Log, Repeats, type Running } from '../log.ts';
import { type ArtefactFiles, pathsOf } from '../inventory/places.ts';
import { Wake } from '../retry.ts';
import { openHints, type Hints } from './hints.ts';
import {
  compareSeen,
  type FileChange,
  type Inspection,
  inspectSeen,
  type Known,
  lookAtFiles,
  type LookDisk,
} from './inspect.ts';

export interface ObserveOptions extends Running {
  /** Artefacts with absolute paths, which need not exist, nor their directories. */
  readonly artefacts: readonly ArtefactFiles[];
  readonly disk?: LookDisk;
  readonly hints?: typeof openHints;
}

export interface Batch {
  /** Never empty. */
  readonly changes: readonly FileChange[];
  /** Inspection of each artefact with a change, by the same read. */
  readonly inspected: ReadonlyMap<ArtefactFiles, Inspection>;
}

/** A burst of hints is one read: the first hint is followed immediately, later reads keep this distance. */
const burstMs = 50;

const rescanMs = 10_000;
/** Distance of reads until every file is readable and every hint arrives. */
const troubledRescanMs = 1_000;

/**
 * Yields batches of changes. The first holds every existing file (`found`), so that no change before the start is
 * missed. Returns when the signal aborts.
 */
export async function* observeFiles(options: ObserveOptions): AsyncGenerator<Batch, void, void> {
  const { artefacts, clock, log, signal } = options;
  if (signal.aborted) return;
  const files = [...new Set(artefacts.flatMap(pathsOf))];
  const told = new Repeats(clock);
  const wake = new Wake();
  const onHint = (): void => wake.call();
  const onError = (code: string): void => {
    if (told.met('watch', code) === undefined) return;
    const message = `Cannot watch files: ${code}; they are read again every second until watching works`;
    log.error('observe.failed', { code, message });
  };
  const open = (): Promise<Hints> => (options.hints ?? openHints)({ files, onHint, onError });
  let hints = await open();
  try {
    let known: Known = new Map();
    while (!signal.aborted) {
      const rested = clock.sleep(burstMs, signal);
      wake.clear(); // before the read: a hint during it stays
      const looked = await look(known, { ...options, files, told });
      known = looked.known;
      if (looked.changes.length > 0) yield looked;
      if (signal.aborted) break;
      await hints.refresh();
      const isTroubled = looked.isUnreadable || !hints.complete;
      const isHinted = await wake.wait({ clock, signal }, isTroubled ? troubledRescanMs : rescanMs);
      await rested;
      if (isHinted || signal.aborted) continue;
      if (hints.complete) told.ended('watch');
      else {
        await hints.close();
        hints = await open();
      }
    }
  } finally {
    await hints.close();
  }
}

interface LookOptions extends ObserveOptions {
  readonly files: readonly string[];
  /** Logs each problem once, and again only after it has gone. */
  readonly told: Repeats;
}

interface Looked extends Batch {
  readonly known: Known;
  readonly isUnreadable: boolean;
}

/** One read of all files. Contents, keys among them, are not held beyond this call. */
async function look(before: Known, { artefacts, files, clock, log, disk, told }: LookOptions): Promise<Looked> {
  const seen = await lookAtFiles(files, disk);
  for (const [path, file] of seen) {
    if (file.state !== 'unreadable') told.ended(path);
    else if (told.met(path, file.code) !== undefined) {
      const message = `Cannot read file "${path}": ${file.code}; wanted a readable file; it is tried again`;
      log.error('observe.failed', { path, code: file.code, message });
    }
  }
  const { changes, known } = compareSeen(before, seen, clock.now());
  const changed = new Set(changes.map(({ path }) => path));
  const concerned = artefacts.filter((artefact) => pathsOf(artefact).some((path) => changed.has(path)));
  const inspected = new Map(concerned.map((artefact) => [artefact, inspectSeen(artefact, seen)]));
  const isUnreadable = [...seen.values()].some(({ state }) => state === 'unreadable');
  return { changes, known, inspected, isUnreadable };
}

/** Logs one line for each change, for the loops that react. Files found at the start are no change. */
export function reportChanges(log: Log, changes: readonly FileChange[]): void {
  for (const { change, path } of changes) {
    if (change === 'created') log.info('file.created', { path });
    else if (change === 'changed') log.info('file.changed', { path });
    else if (change === 'removed') log.warn('file.removed', { path });
  }
}
