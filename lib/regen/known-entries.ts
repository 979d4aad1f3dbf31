// Entries of an object that the inventory knows: other users may keep a megabyte in further entries of each object, and
// all that a pass has read is held until it has written. A known entry larger than any of its kind is not parsed: it is
// reported by name, and the other entries are not concerned.
import { bounds } from '../bounds.ts';
import { RecoveryError } from '../errors.ts';
import { artefactContent, keysOf, standardKeys } from '../inventory/content.ts';
import { contentIn } from '../inventory/location-kinds.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { type Found, locationText, type Store } from '../store/store.ts';

const smallBytes = bounds.otherEntry.most.bytes;
const mostBytes = bounds.entry.most.bytes;

/** The store, with reads reduced to entries that the inventory knows. */
export function withKnownEntries(store: Store, { artefacts }: Resolved): Store {
  // Each entry of bundles by name is one.
  const keyed = artefacts.filter(({ location }) => contentIn(location) !== 'bundles');
  const known = new Map<Location, ReadonlySet<string>>(
    keyed.map((one) => [one.location, new Set([...standardKeys, ...keysOf(artefactContent(one, artefacts))])]),
  );
  return {
    read: async (location, signal) => {
      const found = await store.read(location, signal);
      const keys = known.get(location);
      return found === undefined || keys === undefined || isFile(location) ? found : knownOf(location, found, keys);
    },
    write: (location, ...rest) => store.write(location, ...rest),
    backup: async (location) => store.backup?.(location),
  };
}

/** Reduces an object to known and small entries. Throws ReadFailed. */
function knownOf(location: Location, found: Found, known: ReadonlySet<string>): Found {
  const kept = Object.entries(found.entries).filter(([key, { length }]) => known.has(key) || length <= smallBytes);
  const huge = kept.find(([, { length }]) => length > mostBytes);
  if (huge === undefined) return { ...found, entries: Object.fromEntries(kept) };
  const [key, { length }] = huge;
  const problem = `its entry "${key}" has ${length} bytes, ${mostBytes} at most are read; take out what is not its own`;
  throw new RecoveryError('ReadFailed', `Cannot use ${locationText(location)}: ${problem}`);
}
