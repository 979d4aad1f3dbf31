// The newest whole pair of the dated files next to a combined file. A power loss while the kubelet takes a new certificate
// leaves its link dangling, or pointing to an empty file: client-go does not sync the file
// (util/certificate/certificate_store.go, Update).
import { join } from 'node:path';
import { realDisk } from '../disk/disk.ts';
import type { Location } from '../inventory/model.ts';
import { datedBeside } from './dated-files.ts';
import { type Found, type Store, verifyMaterial } from './store.ts';

/** Undefined: none. */
export async function earlierPair(
  location: Location,
  store: Pick<Store, 'read'>,
  signal: AbortSignal,
): Promise<Found | undefined> {
  if (location.kind !== 'combinedPem') return undefined;
  const { directory, names } = await datedBeside(realDisk, location.file);
  for (const name of names) {
    const dated = { ...location, file: join(directory, name) };
    try {
      const there = await store.read(dated, signal);
      if (there === undefined) continue;
      verifyMaterial(dated, there);
      return there;
    } catch {
      // Another dated file may be whole.
    }
  }
  return undefined;
}
