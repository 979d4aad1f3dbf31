// Byte copies of what is about to be replaced, kept outside the live directories: the last five generations of each
// artefact, in directories that are 0700, with the owner and the group of the original, which may matter more than its
// bytes: an etcd with a user of its own cannot read root's. Never links and never moves: a reader that watches the inode of a live file (kube-apiserver)
// would miss a later change when another name keeps that inode alive. A generation takes its
// name when it is whole.
import { createHash } from 'node:crypto';
import { basename, join } from 'node:path';
import { type Disk, onPath, together, unlessAbsent } from '../disk/disk.ts';
import { readRegularFile } from '../disk/read.ts';
import { systemCode } from '../errors.ts';
import {
  groupReads,
  makeDirectory,
  type Ownership,
  removeLeftovers,
  syncAll,
  temporaryName,
  writeNewFile,
} from '../disk/files.ts';

const generationsKept = 5;
const longestName = 200;

/** Whole files by their role in the artefact. */
export type Files = ReadonlyMap<string, Uint8Array>;

/** Of the originals, by role; of a role that is not there: this process's, for nobody else. */
export type Owners = ReadonlyMap<string, Ownership>;

/** Where the generations of one artefact are. */
export interface Shelf {
  readonly disk: Disk;
  readonly backupDir: string;
  /** Of the artefact's first file. */
  readonly path: string;
}

/** Copies `files` into a new generation, unless the newest one already holds these bytes. */
export async function backUp(
  shelf: Shelf,
  files: Files,
  isUsable: (files: Files) => boolean,
  owners: Owners = new Map(),
): Promise<void> {
  const { disk } = shelf;
  const directory = shelfDirectory(shelf);
  const above = await makeDirectory(disk, directory, 0o700);
  const generations = await generationsOf(shelf);
  const newest = generations.at(-1);
  // A write that fails and is tried again must not push the older generations out.
  if (newest !== undefined && same(await readable(shelf, newest), files)) return;
  const made = String(Number(newest ?? '0') + 1).padStart(6, '0');
  await makeGeneration(disk, join(directory, made), files, owners);
  await syncAll(disk, [join(directory, made), directory, ...above]);
  const old = [...generations, made].slice(0, -generationsKept);
  if (old.length === 0) return;
  // Five generations of garbage must not push out the last one that a certificate could be made from.
  const precious = await newestUsable(shelf, [...generations, made], isUsable);
  for (const generation of old) {
    if (generation !== precious) await disk.rm(join(directory, generation), { recursive: true, force: true });
  }
}

async function makeGeneration(disk: Disk, path: string, files: Files, owners: Owners): Promise<void> {
  await removeLeftovers(disk, path);
  const temporary = temporaryName(path);
  try {
    await disk.mkdir(temporary, { mode: 0o700 });
    const writes = [...files].map(([role, bytes]) => {
      const { mode = 0, ...whose } = owners.get(role) ?? {};
      // Nobody but root gets here, whatever the group may.
      return writeNewFile(disk, join(temporary, role), bytes, { ...whose, mode: 0o600 | (mode & groupReads) });
    });
    await together(writes);
    await disk.rename(temporary, path);
  } catch (err) {
    // Half a generation would keep on a full disk the room that the next one needs.
    await disk.rm(temporary, { recursive: true, force: true }).catch(() => undefined);
    throw err;
  }
}

/** Names of the generations, oldest first. */
export async function generationsOf(shelf: Shelf): Promise<string[]> {
  const directory = shelfDirectory(shelf);
  const names = (await unlessAbsent(() => shelf.disk.readdir(directory))) ?? [];
  return names.filter((name) => /^\d{6}$/.test(name)).toSorted();
}

export async function readGeneration(shelf: Shelf, generation: string): Promise<Files> {
  const { disk } = shelf;
  const directory = generationPath(shelf, generation);
  const roles = (await unlessAbsent(() => disk.readdir(directory))) ?? [];
  const read = async (role: string): Promise<readonly [string, Uint8Array]> => {
    const path = join(directory, role);
    return [role, await onPath(path, () => readRegularFile(disk, path))];
  };
  return new Map(await Promise.all(roles.map(read)));
}

/** Owner and mode of the copy of this role: of that generation, or of the newest that has one. Throws what stat() throws. */
export async function keptOwner(shelf: Shelf, role: string, generation?: string): Promise<Ownership | undefined> {
  const from = generation === undefined ? (await generationsOf(shelf)).toReversed() : [generation];
  for (const each of from) {
    const path = join(generationPath(shelf, each), role);
    const kept = await unlessAbsent(() => shelf.disk.stat(path));
    if (kept !== undefined) return { mode: kept.mode & 0o777, uid: kept.uid, gid: kept.gid };
  }
  return undefined;
}

/** One that cannot be read counts for nothing: an older one may be whole. */
async function readable(shelf: Shelf, generation: string): Promise<Files> {
  try {
    return await readGeneration(shelf, generation);
  } catch (err) {
    if (systemCode(err) === undefined) throw err;
    return new Map();
  }
}

export const generationPath = (shelf: Shelf, generation: string): string => join(shelfDirectory(shelf), generation);

/** The newest generation that `isUsable`. */
export async function newestGeneration(shelf: Shelf, isUsable: (files: Files) => boolean): Promise<Files | undefined> {
  const generation = await newestUsable(shelf, await generationsOf(shelf), isUsable);
  return generation === undefined ? undefined : readGeneration(shelf, generation);
}

async function newestUsable(
  shelf: Shelf,
  generations: readonly string[],
  isUsable: (files: Files) => boolean,
): Promise<string | undefined> {
  for (const generation of generations.toReversed()) {
    if (isUsable(await readable(shelf, generation))) return generation;
  }
  return undefined;
}

function same(kept: Files, files: Files): boolean {
  return (
    kept.size === files.size &&
    [...files].every(([role, bytes]) => Buffer.from(kept.get(role) ?? '').equals(bytes) && kept.has(role))
  );
}

function shelfDirectory({ backupDir, path }: Shelf): string {
  return join(backupDir, directoryName(path));
}

/** The path in one name that a person can read; a hash takes the place of what is too long for a file name. */
function directoryName(path: string): string {
  const name = encodeURIComponent(path);
  if (name.length <= longestName) return name;
  return `${createHash('sha256').update(path).digest('hex').slice(0, 16)}-${basename(path).slice(0, 100)}`;
}
