// What lies in the directory of one object, told apart for publish.ts: the generation in use, the visible names that
// readers open, and what a crash or an earlier tool left. Reads only; never follows a name out of what it promises.
import type { Dirent, Stats } from 'node:fs';
import { join } from 'node:path';
import { systemCode } from '../errors.ts';
import type { Entries } from '../store/store.ts';
import { attempt, onPath, realDisk, unlessAbsent, type Disk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/read.ts';

export const dataLink = '..data';

/** A file in the generation in use. */
export interface PublishedFile {
  /** undefined: unknown. It is no file, or none that this process may read, or far larger than what publish writes. */
  readonly bytes: Uint8Array | undefined;
  readonly mode: number;
  /** Neither this process owns it, nor who owns the object's directory (a file system that maps owners). */
  readonly foreignOwner: boolean;
}

export interface Inspected {
  readonly present: boolean;
  readonly directoryMode: number;
  /** The directory that `..data` leads to, by its bare name; undefined where there is none. */
  readonly generation: string | undefined;
  readonly generationMode: number;
  readonly foreignGeneration: boolean;
  readonly files: ReadonlyMap<string, PublishedFile>;
  /** Visible names that are links through `..data`, as publish makes them. */
  readonly links: ReadonlySet<string>;
  /** Other visible names: plain files and links of an earlier tool. */
  readonly foreign: readonly string[];
  /** Visible directories; never touched, and in the way if a key has that name. */
  readonly directories: readonly string[];
  /** Hidden names that nothing leads to: superseded or half-written generations, stale temporary names. */
  readonly leftovers: readonly string[];
}

const nothing: Inspected = {
  present: false,
  directoryMode: 0,
  generation: undefined,
  generationMode: 0,
  foreignGeneration: false,
  files: new Map(),
  links: new Set(),
  foreign: [],
  directories: [],
  leftovers: [],
};

/** The permission bits of a mode as stat gives it. */
const permissions = (mode: number): number => mode & 0o7777;

async function generationInUse(disk: Disk, directory: string): Promise<{ name: string; stats: Stats } | undefined> {
  const name = await linkTarget(disk, join(directory, dataLink));
  // A link that leads elsewhere is no generation of ours: it is replaced, what it leads to stays untouched.
  if (name === undefined || !name.startsWith('..') || name.includes('/') || name === '..' || name === dataLink) {
    return undefined;
  }
  const stats = await unlessAbsent(() => disk.lstat(join(directory, name)));
  return stats?.isDirectory() === true ? { name, stats } : undefined;
}

async function linkTarget(disk: Disk, path: string): Promise<string | undefined> {
  const stats = await unlessAbsent(() => disk.lstat(path));
  return stats?.isSymbolicLink() === true ? disk.readlink(path) : undefined;
}

type IsForeign = (stats: Stats) => boolean;

async function filesOf(disk: Disk, directory: string, isForeign: IsForeign): Promise<Map<string, PublishedFile>> {
  const names = (await unlessUnreadable(() => disk.readdir(directory))) ?? [];
  const files = new Map<string, PublishedFile>();
  for (let at = 0; at < names.length; at += mostAtOnce) {
    const some = names.slice(at, at + mostAtOnce).map(async (name): Promise<[string, PublishedFile]> => {
      const path = join(directory, name);
      const stats = await unlessUnreadable(() => disk.lstat(path));
      if (stats === undefined) return [name, { bytes: undefined, mode: 0, foreignOwner: true }];
      const bytes = stats.isFile() ? await readNow(disk, path) : undefined;
      return [name, { bytes, mode: permissions(stats.mode), foreignOwner: isForeign(stats) }];
    });
    for (const [name, file] of await Promise.all(some)) files.set(name, file);
  }
  return files;
}

/** Files that are read side by side: an object has a few, and somebody else may have put thousands there. */
const mostAtOnce = 32;

/** Never waits, also for a FIFO that took the file's place since it was looked at. undefined: see PublishedFile. */
function readNow(disk: Disk, path: string): Promise<Buffer | undefined> {
  return onPath(path, () => unlessUnreadable(() => readRegularFile(disk, path)));
}

const unreadable: ReadonlySet<string | undefined> = new Set(['EACCES', 'EFBIG', 'ENOTREG']);

/** The result of `call`, or undefined for what is there and cannot be read, now or later. */
async function unlessUnreadable<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (err) {
    if (unreadable.has(systemCode(err))) return undefined;
    throw err;
  }
}

/** Looks at `directory`; a directory that is not there is a normal answer. Throws what the system throws. */
export async function inspect(disk: Disk, directory: string): Promise<Inspected> {
  const stats = await unlessAbsent(() => disk.stat(directory));
  if (stats === undefined) return nothing;
  const [entries, generation] = await Promise.all([
    disk.readdir(directory, { withFileTypes: true }),
    generationInUse(disk, directory),
  ]);
  const isForeign: IsForeign = ({ uid }) => uid !== process.geteuid?.() && uid !== stats.uid;
  const [ours, files] = await Promise.all([
    linksOfOurs(disk, directory, entries),
    generation === undefined
      ? new Map<string, PublishedFile>()
      : filesOf(disk, join(directory, generation.name), isForeign),
  ]);
  const foreign: string[] = [];
  const directories: string[] = [];
  const leftovers: string[] = [];
  for (const entry of entries) {
    const { name } = entry;
    if (name.startsWith('..')) {
      if (name !== dataLink && name !== generation?.name) leftovers.push(name);
    } else if (entry.isDirectory()) directories.push(name);
    else if (!ours.has(name)) foreign.push(name);
  }
  return {
    present: true,
    directoryMode: permissions(stats.mode),
    generation: generation?.name,
    generationMode: generation === undefined ? 0 : permissions(generation.stats.mode),
    foreignGeneration: generation !== undefined && isForeign(generation.stats),
    files,
    links: ours,
    foreign,
    directories,
    leftovers,
  };
}

/** Visible names that are links through `..data`, as publish makes them. */
async function linksOfOurs(disk: Disk, directory: string, entries: readonly Dirent[]): Promise<Set<string>> {
  const visible = entries.filter((entry) => entry.isSymbolicLink() && !entry.name.startsWith('..'));
  const names = await Promise.all(
    visible.map(async ({ name }) =>
      (await disk.readlink(join(directory, name))) === `${dataLink}/${name}` ? [name] : [],
    ),
  );
  return new Set(names.flat());
}

/** What a reader gets at each visible name of `directory` now. Names that lead nowhere, or to no file that can be read, are left out. */
export async function visibleFiles(
  disk: Disk,
  directory: string,
  names: Iterable<string>,
): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  for (const name of names) {
    const path = join(directory, name);
    // A FIFO or a device would never end, and is nothing that a reader could use.
    const stats = await unlessAbsent(() => unlessUnreadable(() => disk.stat(path)));
    const bytes = stats?.isFile() === true ? await unlessAbsent(() => readNow(disk, path)) : undefined;
    if (bytes !== undefined) found.set(name, bytes);
  }
  return found;
}

export interface ReadPublished {
  readonly directory: string;
  /** Kind and name of the object for messages: `Secret "a/b"`. */
  readonly what: string;
  readonly disk?: Disk;
}

/** The entries of an object as its readers see them, of one generation; undefined when there is none. */
export async function readPublished({ directory, what, disk = realDisk }: ReadPublished): Promise<Entries | undefined> {
  return attempt({ code: 'ReadFailed', action: 'read', what, directory }, async () => {
    return entriesSeen(disk, directory, await inspectAcrossFlips(disk, directory));
  });
}

/** The same, of a directory that has been looked at. Throws what the system throws. */
export async function entriesSeen(disk: Disk, directory: string, seen: Inspected): Promise<Entries | undefined> {
  const files: Map<string, Uint8Array> = await visibleFiles(disk, directory, seen.foreign);
  for (const name of seen.links) {
    const file = seen.files.get(name);
    if (file?.bytes !== undefined) files.set(name, file.bytes);
  }
  return files.size === 0 ? undefined : Object.fromEntries(files);
}

/** Whether nothing lies in the directory of an object but parts of `entries`: then what is missing has been removed. */
export async function holdsOnlyPartsOf(
  entries: Entries,
  { directory, what, disk = realDisk }: ReadPublished,
): Promise<boolean> {
  return attempt({ code: 'ReadFailed', action: 'read', what, directory }, async () => {
    const seen = await inspectAcrossFlips(disk, directory);
    if (seen.foreignGeneration || seen.directories.length > 0) return false;
    const files: Map<string, Uint8Array | undefined> = new Map(
      [...seen.files].map(([name, { bytes, foreignOwner }]) => [name, foreignOwner ? undefined : bytes]),
    );
    const visible = await visibleFiles(disk, directory, seen.foreign);
    for (const name of seen.foreign) files.set(name, visible.get(name));
    return [...files].every(([name, bytes]) => {
      const wanted = Object.hasOwn(entries, name) ? entries[name] : undefined;
      return bytes !== undefined && wanted !== undefined && Buffer.compare(bytes, wanted) === 0;
    });
  });
}

/** `inspect`, again when a writer in another process removed the generation between two of its steps. */
export async function inspectAcrossFlips(disk: Disk, directory: string): Promise<Inspected> {
  for (let left = 5; ; left -= 1) {
    try {
      return await inspect(disk, directory);
    } catch (err) {
      if (left === 0 || systemCode(err) !== 'ENOENT') throw err;
    }
  }
}
