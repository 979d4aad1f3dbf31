// One store for all locations: objects of the API go to one, files of this host to the other.
import type { Location } from '../inventory/model.ts';
import type { Store } from './store.ts';
import { isFile } from '../inventory/places.ts';

interface StoreChoice {
  readonly api: Store;
  readonly disk: Store;
}

export function createStore({ api, disk }: StoreChoice): Store {
  const storeOf = (location: Location): Store => (isFile(location) ? disk : api);
  return {
    read: (location, signal) => storeOf(location).read(location, signal),
    write: (location, next, seen, signal) => storeOf(location).write(location, next, seen, signal),
    backup: async (location) => storeOf(location).backup?.(location),
  };
}
