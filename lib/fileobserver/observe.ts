// The files as they are, change by change: a hint says when to look, the content's hash what is so, a slow rescan finds
// what no hint told. There is no queue: the reader pulls, and gets the difference between what it was given last and
// what is there now, so a slow reader costs nothing and a burst is one batch.
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { openHints, type Hints } from './hints.ts';
import { compare, lookAt, realDisk, type Disk, type FileChange, type Known, type Seen } from './look.ts';

export interface ObserveOptions {
  /** Absolute paths. They need not exist, nor their directories. */
  readonly files: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Milliseconds between looks without a hint. Default 10 000. */
  readonly rescanMs?: number;
  readonly disk?: Disk;
  readonly hints?: typeof openHints;
}

/** A burst of hints is one look: the first is followed at once, the next looks keep this distance. */
const burstMs = 50;

/** Until everything can be read and every hint comes, looks are this close. */
const troubledRescanMs = 1_000;

/**
 * Yields batches of changes, never empty ones. The first holds every file that is there (`found`), so that nothing that
 * happened before the start is missed. Ends when the signal aborts.
 */
export async function* observeFiles(options: ObserveOptions): AsyncGenerator<readonly FileChange[], void, void> {
  const { files, clock, log, signal, rescanMs = 10_000, disk = realDisk } = options;
  if (signal.aborted) return;
  const trouble = new Trouble(log);
  const open = (): Promise<Hints> => (options.hints ?? openHints)({ files, onError: (code) => trouble.watch(code) });
  let hints = await open();
  try {
    let known: Known = new Map();
    while (!signal.aborted) {
      const rested = clock.sleep(burstMs, signal);
      hints.clear();
      const seen = await lookAt(files, disk);
      trouble.read(seen);
      const compared = compare(known, seen, clock.now());
      known = compared.known;
      if (compared.changes.length > 0) yield compared.changes;
      if (signal.aborted) break;
      await hints.refresh();
      const soon = trouble.unreadable || !hints.complete;
      const byTime = await waitFor(hints, clock, {
        ms: soon ? Math.min(rescanMs, troubledRescanMs) : rescanMs,
        signal,
      });
      await rested;
      if (byTime && hints.complete) trouble.watchWorks();
      else if (byTime) {
        await hints.close();
        hints = await open();
      }
    }
  } finally {
    await hints.close();
  }
}

/** Waits for a hint, the time, or the end; whether it was the time. */
async function waitFor(
  hints: Hints,
  clock: Clock,
  { ms, signal }: { ms: number; signal: AbortSignal },
): Promise<boolean> {
  const done = new AbortController();
  const timer = clock.sleep(ms, AbortSignal.any([signal, done.signal])).then(() => true);
  const byTime = await Promise.race([hints.arrived().then(() => false), timer]);
  done.abort();
  return byTime;
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

  read(seen: ReadonlyMap<string, Seen>): void {
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
