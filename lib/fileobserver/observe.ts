// The files as they are, change by change: a hint says when to look, the content's hash what is so, a slow rescan finds
// what no hint told. There is no queue: the reader pulls, and gets the difference between what it was given last and
// what is there now, so a slow reader costs nothing and a burst is one batch.
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
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
  type SeenFile,
} from './inspect.ts';

export interface ObserveOptions {
  /** With absolute paths, which need not exist, nor their directories. */
  readonly artefacts: readonly ArtefactFiles[];
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Milliseconds between looks without a hint. Default 10 000. */
  readonly rescanMs?: number;
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

/** Until everything can be read and every hint comes, looks are this close. */
const troubledRescanMs = 1_000;

/**
 * Yields batches of changes. The first holds every file that is there (`found`), so that nothing that happened before the
 * start is missed. Ends when the signal aborts.
 */
export async function* observeFiles(options: ObserveOptions): AsyncGenerator<Batch, void, void> {
  const { artefacts, clock, log, signal, rescanMs = 10_000 } = options;
  if (signal.aborted) return;
  const files = [...new Set(artefacts.flatMap(pathsOf))];
  const trouble = new Trouble(log);
  const wake = new Wake();
  const onHint = (): void => wake.call();
  const open = (): Promise<Hints> =>
    (options.hints ?? openHints)({ files, onHint, onError: (code) => trouble.watch(code) });
  let hints = await open();
  try {
    let known: Known = new Map();
    while (!signal.aborted) {
      const rested = clock.sleep(burstMs, signal);
      wake.clear(); // before the look: a hint that comes during it stays
      const looked = await look(known, { ...options, files, trouble });
      known = looked.known;
      if (looked.changes.length > 0) yield looked;
      if (signal.aborted) break;
      await hints.refresh();
      const soon = trouble.unreadable || !hints.complete;
      const isHinted = await wake.wait({ clock, signal }, soon ? Math.min(rescanMs, troubledRescanMs) : rescanMs);
      await rested;
      if (isHinted || signal.aborted) continue;
      if (hints.complete) trouble.watchWorks();
      else {
        await hints.close();
        hints = await open();
      }
    }
  } finally {
    await hints.close();
  }
}

interface LookOptions extends Pick<ObserveOptions, 'artefacts' | 'clock' | 'disk'> {
  readonly files: readonly string[];
  readonly trouble: Trouble;
}

/** Contents, keys among them, are not held beyond this call. */
async function look(
  before: Known,
  { artefacts, files, clock, disk, trouble }: LookOptions,
): Promise<Batch & { readonly known: Known }> {
  const seen = await lookAtFiles(files, disk);
  trouble.read(seen);
  const { changes, known } = compareSeen(before, seen, clock.now());
  const changed = new Set(changes.map(({ path }) => path));
  const concerned = artefacts.filter((artefact) => pathsOf(artefact).some((path) => changed.has(path)));
  return { changes, known, inspected: new Map(concerned.map((artefact) => [artefact, inspectSeen(artefact, seen)])) };
}

/** Reports each trouble once, and again only after it has gone. */
class Trouble {
  readonly #log: Log;
  readonly #reported = new Map<string, string>();
  #watch: string | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  get unreadable(): boolean {
    return this.#reported.size > 0;
  }

  read(seen: ReadonlyMap<string, SeenFile>): void {
    for (const [path, file] of seen) {
      if (file.state !== 'unreadable') this.#reported.delete(path);
      else if (this.#reported.get(path) !== file.code) {
        this.#reported.set(path, file.code);
        const message = `Cannot read file "${path}": ${file.code}; wanted a readable file; it is tried again`;
        this.#log.error('observe.failed', { path, code: file.code, message });
      }
    }
  }

  watch(code: string): void {
    if (this.#watch === code) return;
    this.#watch = code;
    const message = `Cannot watch files: ${code}; they are read again every second until watching works`;
    this.#log.error('observe.failed', { code, message });
  }

  watchWorks(): void {
    this.#watch = undefined;
  }
}

/** For the loops that react: one line for each change. What was found at the start is none. */
export function reportChanges(log: Log, changes: readonly FileChange[]): void {
  for (const { change, path } of changes) {
    if (change === 'created') log.info('file.created', { path });
    else if (change === 'changed') log.info('file.changed', { path });
    else if (change === 'removed') log.warn('file.removed', { path });
  }
}
