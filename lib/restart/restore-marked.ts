// A kept copy put back through the marking store: its readers are restarted as after a renewal.
import type { Resolved } from '../inventory/model.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { type Generation, restoreGeneration, type RestoreOptions } from '../store/restore.ts';
import type { Store } from '../store/store.ts';
import { componentsOf } from './decide.ts';
import { createMarkingStore, type Markers } from './markers.ts';

export type RestoreOutcome = Awaited<ReturnType<typeof restoreGeneration>>;

interface MarkedRestore {
  readonly resolved: Resolved;
  readonly markers: Markers;
  readonly options: RestoreOptions;
  readonly signal: AbortSignal;
}

/** Writes through the marking store, so that restarts are noted, but only for a file that was written. */
export async function restoreMarked(
  wanted: Generation,
  { resolved, markers, options, signal }: MarkedRestore,
): Promise<RestoreOutcome> {
  const disk = createDiskStore(options);
  let outcome: RestoreOutcome = 'unchanged';
  const restoring: Store = {
    read: (location) => disk.read(location, signal),
    write: async () => {
      outcome = await restoreGeneration(wanted, options);
      return outcome === 'restored' ? 'written' : 'conflict';
    },
  };
  const components = componentsOf(resolved);
  const marking = createMarkingStore(restoring, components, markers);
  const present = await disk.read(wanted.location, signal);
  const seen = present === undefined ? ('absent' as const) : { version: present.version };
  await marking.write(wanted.location, { entries: {}, annotations: {} }, seen, signal);
  return outcome;
}
