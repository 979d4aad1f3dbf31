// A store that notes which components must be restarted, before the first of their files changes.
//   1. note that files of the component are being written
//   2. write
//   3. note which of its processes run: they have read what was there before. Later ones read the new file.
// When nothing was written the note is taken back, so that a write that fails again and again restarts nobody.
import type { Location } from '../inventory/model.ts';
import type { Found, Material, Seen, Store } from '../store/store.ts';
import type { Component } from './component.ts';
import type { ProcessId } from './judge.ts';
import { readersOf } from './judge.ts';
import type { Markers } from './markers.ts';
import { ourPlaces, readProcesses } from './processes.ts';

export interface MarkingStoreOptions {
  readonly store: Store;
  readonly components: readonly Component[];
  readonly markers: Markers;
  readonly boot: string;
}

export function createMarkingStore({ store, components, markers, boot }: MarkingStoreOptions): Store {
  /** Files of one component one after the other: each takes back only its own note. */
  const last = new Map<Component, Promise<unknown>>();

  const marked = async (component: Component, write: () => Promise<Written>): Promise<Written> => {
    const { name } = component;
    // Not what was there when this run began: another may have left one since, and its note must outlast ours.
    const before = await markers.look(name, boot);
    await markers.set(name, { boot, state: 'writing', running: before?.running ?? [] }); // 1
    let changed = true;
    try {
      const written = await write(); // 2
      changed = written.changed;
      return written;
    } finally {
      if (changed)
        await markers.set(name, { boot, state: 'written', running: await runningOf(component) }); // 3
      else if (before === undefined) await markers.remove(name);
      else await markers.set(name, before);
    }
  };

  return {
    ...store,
    read: (location, signal) => store.read(location, signal),
    async write(location, next, seen, signal) {
      const readers = components.filter(({ locations }) => locations.includes(location));
      const write = (): Promise<Written> => writeAndSee({ store, location, next, seen, signal });
      const all = readers.reduce((inner, component) => {
        return () => {
          const turn = (last.get(component) ?? Promise.resolve()).then(() => marked(component, inner));
          last.set(
            component,
            turn.catch(() => undefined),
          );
          return turn;
        };
      }, write);
      const { outcome, err } = await all();
      if (outcome === undefined) throw err;
      return outcome;
    },
  };
}

interface Written {
  readonly outcome?: 'written' | 'conflict';
  readonly err?: unknown;
  /** Whether what lies there may be another now. */
  readonly changed: boolean;
}

interface Write {
  readonly store: Store;
  readonly location: Location;
  readonly next: Material;
  readonly seen: Seen;
  readonly signal: AbortSignal;
}

async function writeAndSee({ store, location, next, seen, signal }: Write): Promise<Written> {
  try {
    const outcome = await store.write(location, next, seen, signal);
    return { outcome, changed: outcome === 'written' };
  } catch (err) {
    // A failure after the rename (of an fsync) leaves the new file there.
    const there: Found | 'unknown' | undefined = await store.read(location, signal).catch(() => 'unknown' as const);
    const version = there === 'unknown' ? undefined : (there?.version ?? 'absent');
    return { err, changed: there !== 'unknown' && version !== (seen === 'absent' ? 'absent' : seen.version) };
  }
}

/** Where it cannot be known none is named: a process that cannot be seen cannot be restarted either. */
async function runningOf(component: Component): Promise<readonly ProcessId[]> {
  const processes = await readProcesses().catch(() => []);
  return readersOf(component, processes, ourPlaces).map(({ pid, started }) => ({ pid, started }));
}
