// Objects that a pass has read while the API server was too slow for the remaining objects: the next pass reads only
// these, else a slow connection would never finish. A kept read is used for a minute at most, and a write of an object
// that has changed since is refused by its version, as ever.
import { type Clock, isRecent } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import type { Gathered } from '../plan/gather.ts';
import type { Found, Store } from '../store/store.ts';

const keptForMs = 60_000;

interface Kept {
  readonly found: Found;
  readonly at: Date;
}

export class KeptReads {
  /** The store, with kept reads answered without a request. */
  readonly store: Store;
  #kept: ReadonlyMap<Location, Kept> = new Map();

  constructor(store: Store, clock: Clock) {
    this.store = {
      backup: async (location) => store.backup?.(location),
      read: async (location, signal) => {
        const kept = this.#kept.get(location);
        const isUsable = kept !== undefined && isRecent(kept.at, keptForMs, clock.now());
        return isUsable ? kept.found : store.read(location, signal);
      },
      write: (location, ...rest) => {
        this.#forget(location);
        return store.write(location, ...rest);
      },
    };
  }

  /** Called after a pass has read: keeps its objects for the next pass where some reads were too slow. */
  keep({ artefacts }: Resolved, { found, failures, readAt }: Pick<Gathered, 'found' | 'failures' | 'readAt'>): void {
    const before = this.#kept;
    this.#kept = new Map();
    if (![...failures.values()].some(isSlow)) return;
    this.#kept = new Map(
      artefacts.flatMap(({ name, location }): [Location, Kept][] => {
        const there = found.get(name);
        if (there === undefined || isFile(location)) return [];
        const earlier = before.get(location);
        const next: Kept = { found: { ...there, isEarlier: true }, at: readAt };
        return [[location, earlier?.found === there ? earlier : next]];
      }),
    );
  }

  #forget(location: Location): void {
    if (this.#kept.has(location)) this.#kept = new Map([...this.#kept].filter(([kept]) => kept !== location));
  }
}

const isSlow = (err: unknown): boolean => err instanceof RecoveryError && err.details['slow'] === true;
