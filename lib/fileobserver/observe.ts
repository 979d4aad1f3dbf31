// The files as they are, change by change: a hint says when to look, the content's hash what is so, a slow rescan finds
// what no hint told. There is no queue: the reader pulls, and gets the difference between what it was given last and
// what is there now, so a slow reader costs nothing and a burst is one batch.
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
  /** With absolute paths, which need not exist, nor their directories. */
  readonly artefacts: readonly ArtefactFiles[];
  readonly disk?: LookDisk;
  readonly hints?: typeof openHints;
}

export interface Batch {
  /** Never empty. */
  readonly changes: readonly FileChange[];
  /** Of each artefact with a change, as the same look has seen it. */
  readonly inspected: ReadonlyMap<ArtefactFiles, Inspection>;
}

/** A burst of hints is one look: the first is followed at once, the next looks keep this distance. */
const burstMs = 50;

const rescanMs = 10_000;
/** Until everything can be read and every hint comes, looks are this close. */
const troubledRescanMs = 1_000;

/**
 * Yields batches of changes. The first holds every file that is there (`found`), so that nothing that happened before the
 * start is missed. Ends when the signal aborts.
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
      wake.clear(); // before the look: a hint that comes during it stays
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
  /** Each trouble is logged once, and again only after it has gone. */
  readonly told: Repeats;
}

interface Looked extends Batch {
  readonly known: Known;
  readonly isUnreadable: boolean;
}

/** Contents, keys among them, are not held beyond this call. */
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

/** For the loops that react: one line for each change. What was found at the start is none. */
export function reportChanges(log: Log, changes: readonly FileChange[]): void {
  for (const { change, path } of changes) {
    if (change === 'created') log.info('file.created', { path });
    else if (change === 'changed') log.info('file.changed', { path });
    else if (change === 'removed') log.warn('file.removed', { path });
  }
}
