// Pending restarts, kept in the lock directory: a run that dies between a renewal and the restart is completed by the
// next. A marker is whole or absent. A marker that cannot be written does not stop the repair: this process keeps it in
// memory. The marking store wraps the store of this host and marks components before the first of their files changes:
// 1. note that files of the component are being written
// 2. write
// 3. note which of its processes run: they have read former content. Later ones read the new file.
// When nothing was written the note is removed, so that a write that fails again and again restarts nothing.
import { X509Certificate } from 'node:crypto';
import type { ComponentName } from '../components.ts';
import type { RecoveryError } from '../errors.ts';
import type { ProcessId } from '../host/proc.ts';
import type { RunState } from '../host/state.ts';
import { certificateKey } from '../inventory/content.ts';
import type { Location } from '../inventory/model.ts';
import type { Store } from '../store/store.ts';
import type { Component, Marker } from './decide.ts';
import { readersOnHost } from './processes.ts';

/** Where a run leaves markers and proofs to be given for the next run. */
export interface RestartNotes {
  /** Kept for this boot: no process outlives it. */
  readonly state: RunState;
  /** Called with the error of a write or removal. Must not throw. */
  readonly onFailed: (err: RecoveryError) => void;
}

export class Markers {
  readonly #notes: RestartNotes;
  /** Markers that could not be written: known to this process only. */
  readonly #unwritten = new Map<ComponentName, Marker>();

  constructor(notes: RestartNotes) {
    this.#notes = notes;
  }

  /**
   * The present marker: other runs leave and remove markers, too. An unreadable one, also of an earlier version, counts
   * as left by a run that died while it wrote.
   */
  async look(name: ComponentName): Promise<Marker | undefined> {
    const unwritten = this.#unwritten.get(name);
    if (unwritten !== undefined) return unwritten;
    const found = await this.#notes.state.look(noteName(name), asMarker);
    return found === 'garbled' ? { state: 'writing', running: [] } : found?.value;
  }

  async set(name: ComponentName, marker: Marker): Promise<void> {
    try {
      await this.#notes.state.set(noteName(name), marker);
      this.#unwritten.delete(name);
    } catch (err) {
      this.#unwritten.set(name, marker);
      this.#notes.onFailed(err as RecoveryError);
    }
  }

  /** Removes a marker that has been acted on; a younger marker of another run stays. */
  async settle(name: ComponentName, done: Marker): Promise<void> {
    const now = await this.look(name);
    if (now === undefined || JSON.stringify(now) === JSON.stringify(done)) await this.remove(name);
  }

  async remove(name: ComponentName): Promise<void> {
    this.#unwritten.delete(name);
    // A marker that stays would restart its component at every run.
    await this.#notes.state.remove(noteName(name)).catch(this.#notes.onFailed);
  }
}

const noteName = (name: ComponentName): string => `restart-${name}`;

function asMarker(value: unknown): Marker | undefined {
  const { state, running, until } = (value ?? {}) as Partial<Record<keyof Marker, unknown>>;
  if ((state !== 'writing' && state !== 'written') || !Array.isArray(running) || !running.every(isProcess)) return;
  const end = typeof until === 'string' ? new Date(until) : undefined;
  return { state, running, ...(end !== undefined && !Number.isNaN(end.getTime()) && { until: end }) };
}

const isProcess = (value: unknown): value is ProcessId => {
  const { pid, started } = (value ?? {}) as Partial<Record<string, unknown>>;
  return typeof pid === 'number' && typeof started === 'number';
};

export function createMarkingStore(store: Store, components: readonly Component[], markers: Markers): Store {
  /** Serialises writes of files of one component: each removes only its own note. */
  const last = new Map<Component, Promise<unknown>>();

  /** Never rejects, as nothing in it does. */
  const marked = async (
    component: Component,
    former: Date | undefined,
    write: () => Promise<WriteOutcome>,
  ): Promise<WriteOutcome> => {
    const { name } = component;
    // Read now, not when this run began: another run may have left a marker since, and its note must outlast ours.
    const before = await markers.look(name);
    const until = [before?.until, former].reduce((one, other) => (one && other && one < other ? one : (other ?? one)));
    await markers.set(name, { state: 'writing', running: before?.running ?? [], until }); // 1
    const written = await write(); // 2
    if (written.changed)
      await markers.set(name, { state: 'written', running: runningOf(component), until }); // 3
    else if (before === undefined) await markers.remove(name);
    else await markers.set(name, before);
    return written;
  };

  return {
    ...store,
    async write(location, next, seen, signal) {
      const readers = components.filter(({ locations }) => locations.includes(location));
      const former = readers.length > 0 ? await endOf(store, location, signal) : undefined;
      const write = (): Promise<WriteOutcome> => writeAndSee(store, location, next, seen, signal);
      const all = readers.reduce<typeof write>(
        (inner, component) => () => {
          const marking = (last.get(component) ?? Promise.resolve()).then(() => marked(component, former, inner));
          last.set(component, marking);
          return marking;
        },
        write,
      );
      const { outcome, err } = await all();
      if (outcome === undefined) throw err;
      return outcome;
    },
  };
}

interface WriteOutcome {
  readonly outcome?: 'written' | 'conflict';
  readonly err?: unknown;
  /** Whether the file there may have changed. */
  readonly changed: boolean;
}

/** Never rejects. */
export async function writeAndSee(store: Store, ...write: Parameters<Store['write']>): Promise<WriteOutcome> {
  const [location, , seen, signal] = write;
  try {
    const outcome = await store.write(...write);
    return { outcome, changed: outcome === 'written' };
  } catch (err) {
    // A failure after the rename (of an fsync) leaves the new file there.
    const there = await store.read(location, signal).catch(() => 'unknown' as const);
    const version = there === 'unknown' ? undefined : (there?.version ?? 'absent');
    return { err, changed: there !== 'unknown' && version !== (seen === 'absent' ? 'absent' : seen.version) };
  }
}

/** notAfter of the certificate there; undefined where none can be read. */
async function endOf(store: Store, location: Location, signal: AbortSignal): Promise<Date | undefined> {
  try {
    const pem = (await store.read(location, signal))?.entries[certificateKey];
    return pem && new X509Certificate(pem).validToDate;
  } catch {
    return undefined;
  }
}

/** Empty where processes cannot be read: a process that is not visible cannot be restarted either. */
export function runningOf(component: Component): readonly ProcessId[] {
  try {
    return readersOnHost(component).map(({ pid, started }) => ({ pid, started }));
  } catch {
    return [];
  }
}
