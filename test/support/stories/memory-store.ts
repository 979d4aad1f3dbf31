// What a store promises, in memory: a write states what it saw and is refused when that is no longer there; entries and
// annotations that a write does not name stay. For simulations of many actors; what the real API server does is shown
// by the integration tests.
import type { Location } from '../../../lib/inventory/model.ts';
import {
  type Found,
  locationText,
  type Material,
  type Seen,
  type Store,
  verifyMaterial,
} from '../../../lib/store/store.ts';

export class MemoryStore implements Store {
  readonly #objects: Map<string, Found>;
  /** Of all stores: what starts as a copy of another has no version of its past again. */
  static #versions = 0;

  constructor(objects: ReadonlyMap<string, Found> = new Map()) {
    this.#objects = new Map(objects);
  }

  /** Everything that is there, by location; a start for another store. */
  get objects(): ReadonlyMap<string, Found> {
    return new Map(this.#objects);
  }

  peek(location: Location): Found | undefined {
    return this.#objects.get(locationText(location));
  }

  /** Not guarded: what another writer does. */
  put(location: Location, material: Material | undefined): void {
    MemoryStore.#versions += 1;
    if (material === undefined) this.#objects.delete(locationText(location));
    else this.#objects.set(locationText(location), { ...material, version: `put-${MemoryStore.#versions}` });
  }

  read(location: Location): Promise<Found | undefined> {
    return Promise.resolve(this.peek(location));
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws is a rejection, as of the real ones
  async write(location: Location, next: Material, seen: Seen): Promise<'written' | 'conflict'> {
    verifyMaterial(location, next);
    const there = this.peek(location);
    if (there?.version !== (seen === 'absent' ? undefined : seen.version)) return 'conflict';
    MemoryStore.#versions += 1;
    this.#objects.set(locationText(location), {
      entries: { ...there?.entries, ...next.entries },
      annotations: { ...there?.annotations, ...next.annotations },
      version: `${MemoryStore.#versions}`,
    });
    return 'written';
  }
}
