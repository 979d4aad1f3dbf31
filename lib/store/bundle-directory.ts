// A directory of bundles by name, as container runtimes read the CAs of image registries: NAME/ca.crt. Each of its files
// is read and written as a bundle in a file of its own, with a backup: one that cannot be written keeps no other back.
import { hash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { attempt, type Disk, realDisk, together, unlessAbsent } from '../disk/disk.ts';
import { ensureDirectory } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { caBundleKey } from '../inventory/content.ts';
import type { LocationOf } from '../inventory/model.ts';
import { registryOf } from '../image-registries.ts';
import { type Found, locationText, type Material, type Seen, type Store } from './store.ts';

type Place = LocationOf<'pemDirectory'>;

/** The store of files, with directories of them. */
export function withDirectories(files: Store, disk: Disk = realDisk): Store {
  async function read(place: Place, signal: AbortSignal): Promise<Found | undefined> {
    const reading = { code: 'ReadFailed', action: 'read', what: locationText(place), directory: place.file } as const;
    const all = await attempt(reading, () => unlessAbsent(() => disk.readdir(place.file)));
    if (all === undefined) return undefined;
    const looks = all.toSorted().map(async (name) => {
      if (registryOf(name) !== name) return [];
      // A file that cannot be read is not written either, which says why.
      const found = await files.read(fileOf(place, name), signal).catch(() => undefined);
      return found === undefined ? [] : [{ name, found }];
    });
    const held = (await Promise.all(looks)).flat();
    const changes = held.flatMap(({ found }) => found.changedAt?.getTime() ?? []);
    return {
      entries: Object.fromEntries(held.map(({ name, found }) => [name, found.entries[caBundleKey] ?? Buffer.alloc(0)])),
      annotations: {},
      version: hash('sha256', JSON.stringify(held.map(({ name, found }) => [name, found.version]))),
      changedAt: changes.length === 0 ? undefined : new Date(Math.max(...changes)),
    };
  }

  /** Throws the first failure, once each file has been tried. */
  async function write(
    place: Place,
    { entries }: Material,
    seen: Seen,
    signal: AbortSignal,
  ): ReturnType<Store['write']> {
    const what = locationText(place);
    if (seen === 'absent') throw new RecoveryError('WriteFailed', `Cannot write ${what}: it does not exist; create it`);
    const { entries: before = {} } = seen;
    const writing = { code: 'WriteFailed', action: 'write', what } as const;
    const written = Object.entries(entries).map(async ([name, bytes]) => {
      const file = fileOf(place, name);
      const found = await files.read(file, signal);
      const known = Object.hasOwn(before, name) ? before[name] : undefined; // a host may be called "constructor"
      const held = found?.entries[caBundleKey];
      if (held === undefined || known === undefined ? held !== known : Buffer.compare(held, known) !== 0)
        return 'conflict';
      const directory = dirname(file.file);
      if (found === undefined) await attempt({ ...writing, directory }, () => ensureDirectory(disk, directory));
      return files.write(file, { entries: { [caBundleKey]: bytes }, annotations: {} }, found ?? 'absent', signal);
    });
    return (await together(written)).includes('conflict') ? 'conflict' : 'written';
  }

  return {
    ...files,
    read: (at, signal) => (at.kind === 'pemDirectory' ? read(at, signal) : files.read(at, signal)),
    write: (at, ...rest) => (at.kind === 'pemDirectory' ? write(at, ...rest) : files.write(at, ...rest)),
  };
}

/** Throws MaterialInvalid for a name that is no single directory there. */
function fileOf(place: Place, name: string): LocationOf<'pemFile'> {
  if (registryOf(name) === name) return { kind: 'pemFile', file: join(place.file, name, 'ca.crt') };
  throw new RecoveryError(
    'MaterialInvalid',
    `Cannot write ${locationText(place)}: ${JSON.stringify(name)} is no registry`,
  );
}
