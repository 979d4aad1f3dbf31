// One scan of the directory of an object: the generation in use, the visible names that readers open, and leftovers of
// a crash or an earlier tool. It never follows a name out of the directory. With `opens` it first gives this process
// access again where modes deny it: it runs without any capability, so a mode stops it even as root, but the owner of a
// file may always change its mode. Files of another user cannot be repaired: their content is unknown.
import { type Dirent, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { systemCode } from '../errors.ts';
import type { Entries } from '../store/store.ts';
import { attempt, onPath, realDisk, unlessAbsent, type Disk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';

export const dataLink = '..data';

export interface ObjectDirectory {
  /** Directory of the object: `<destination>/secrets/<name>`. Absolute. */
  readonly directory: string;
  /** Kind and name for messages: `Secret "a/b"`. */
  readonly what: string;
  readonly disk?: Disk;
}

/** A file in the generation in use. */
interface PublishedFile {
  /** undefined: unknown. It is no regular file, unreadable, or far larger than what publish writes. */
  readonly bytes: Uint8Array | undefined;
  readonly mode: number;
  /** Its owner is neither this process nor the owner of the object's directory (a file system that maps owners). */
  readonly foreignOwner: boolean;
}

export interface Scan {
  readonly present: boolean;
  /** Stamp of the directory: differs once a name in it has been added, removed or replaced. */
  readonly stamp: string;
  readonly directoryMode: number;
  /** The directory that `..data` leads to, by its bare name; undefined without one. */
  readonly generation: string | undefined;
  readonly generationMode: number;
  readonly foreignGeneration: boolean;
  readonly files: ReadonlyMap<string, PublishedFile>;
  /** Visible names that are links through `..data`, as publish makes them. */
  readonly links: ReadonlySet<string>;
  /** Other visible names: plain files and links of an earlier tool, and links through a directory `..data`. */
  readonly foreign: readonly string[];
  /** Visible directories, and `..data` where it is one: in the way of a link, if a key has that name. */
  readonly directories: readonly string[];
  /** Hidden names that no link leads to: superseded or half-written generations, stale temporary names. */
  readonly leftovers: readonly string[];
}

const nothing: Scan = {
  present: false,
  stamp: '',
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

const stampOf = ({ ino, ctimeMs }: Stats): string => `${ino} ${ctimeMs}`;

export const isOwn = ({ uid }: Stats): boolean => uid === process.geteuid?.();

const directoryAccess = 0o700;
const fileAccess = 0o400;

/** Adds the missing `bits` to the mode of a file that we own. Returns the resulting mode. */
export async function allow(
  disk: Disk,
  path: string,
  { stats, bits }: { stats: Stats; bits: number },
): Promise<number> {
  const mode = stats.mode & 0o7777;
  if (!isOwn(stats) || (mode & bits) === bits) return mode;
  await disk.chmod(path, mode | bits);
  return mode | bits;
}

/** Scans `directory`; an absent directory is a normal result. Throws errors of the file system. */
export async function scan(disk: Disk, directory: string, opens = false): Promise<Scan> {
  for (let left = 5; ; left -= 1) {
    try {
      return await scanOnce(disk, directory, opens);
    } catch (err) {
      // A writer in another process removed a file between two of our steps.
      if (left === 0 || systemCode(err) !== 'ENOENT') throw err;
    }
  }
}

/**
 * Whether the names in the directory are still those of the scan: every change of them sets the time of the directory.
 */
export async function isCurrent(disk: Disk, directory: string, { stamp }: Scan): Promise<boolean> {
  return stampOf(await disk.stat(directory)) === stamp;
}

/**
 * Differs once a name has been added, removed or replaced in the object's directory or in the generation in use: cheap
 * enough to be checked all the time. Empty where neither can be read.
 */
export function namesStamp(directory: string): string {
  try {
    return [directory, join(directory, dataLink)].map((path) => stampOf(statSync(path))).join();
  } catch {
    return '';
  }
}

interface Scanning {
  readonly disk: Disk;
  readonly directory: string;
  /** The mode; where the scan opens, `bits` are added first. */
  readonly modeOf: (path: string, stats: Stats, bits: number) => Promise<number>;
  readonly isForeign: (stats: Stats) => boolean;
}

async function scanOnce(disk: Disk, directory: string, opens: boolean): Promise<Scan> {
  const stats = await unlessAbsent(() => disk.stat(directory));
  if (stats === undefined) return nothing;
  const modeOf: Scanning['modeOf'] = async (path, found, bits) =>
    opens ? allow(disk, path, { stats: found, bits }) : found.mode & 0o7777;
  const isForeign = ({ uid }: Stats): boolean => uid !== process.geteuid?.() && uid !== stats.uid;
  const scanning = { disk, directory, modeOf, isForeign };
  const directoryMode = await modeOf(directory, stats, directoryAccess);
  const [entries, target] = await Promise.all([
    disk.readdir(directory, { withFileTypes: true }),
    linkTarget(disk, join(directory, dataLink)),
  ]);
  const isDirectory = entries.some((entry) => entry.name === dataLink && entry.isDirectory());
  const [inUse, links] = await Promise.all([
    generationAt(scanning, target),
    isDirectory ? new Set<string>() : linksOf(scanning, entries),
  ]);
  const hidden = entries.filter(({ name }) => name.startsWith('..'));
  const visible = entries.filter(({ name }) => !name.startsWith('..'));
  const foreign = visible.filter((entry) => !entry.isDirectory() && !links.has(entry.name));
  const leftovers = hidden.filter(({ name }) => name !== dataLink && name !== inUse.generation);
  if (opens) await openAll(scanning, [...foreign, ...leftovers]);
  const names = (of: readonly Dirent[]): string[] => of.map(({ name }) => name);
  const directories = visible.filter((entry) => entry.isDirectory());
  return {
    ...nothing,
    present: true,
    stamp: stampOf(stats),
    directoryMode,
    ...inUse,
    links,
    foreign: names(foreign),
    directories: [...names(directories), ...(isDirectory ? [dataLink] : [])],
    leftovers: names(leftovers),
  };
}

async function linkTarget(disk: Disk, path: string): Promise<string | undefined> {
  const stats = await unlessAbsent(() => disk.lstat(path));
  return stats?.isSymbolicLink() === true ? disk.readlink(path) : undefined;
}

/** A link that leads elsewhere is no generation of ours: it is replaced, its target stays untouched. */
async function generationAt(scanning: Scanning, name = ''): Promise<Partial<Scan>> {
  if (!name.startsWith('..') || name.includes('/') || name === '..' || name === dataLink) return {};
  const { disk, directory, modeOf, isForeign } = scanning;
  const path = join(directory, name);
  const stats = await unlessAbsent(() => disk.lstat(path));
  if (stats?.isDirectory() !== true) return {};
  const generationMode = await modeOf(path, stats, directoryAccess);
  const files = await filesIn(scanning, path);
  return { generation: name, generationMode, foreignGeneration: isForeign(stats), files };
}

async function filesIn({ disk, modeOf, isForeign }: Scanning, directory: string): Promise<Map<string, PublishedFile>> {
  const names = (await unlessUnreadable(() => disk.readdir(directory))) ?? [];
  const files = new Map<string, PublishedFile>();
  for (let at = 0; at < names.length; at += mostAtOnce) {
    const some = names.slice(at, at + mostAtOnce).map(async (name): Promise<[string, PublishedFile]> => {
      const path = join(directory, name);
      const stats = await unlessUnreadable(() => disk.lstat(path));
      if (stats === undefined) return [name, { bytes: undefined, mode: 0, foreignOwner: true }];
      const mode = await modeOf(path, stats, stats.isFile() ? fileAccess : 0);
      const bytes = stats.isFile() ? await readNow(disk, path) : undefined;
      return [name, { bytes, mode, foreignOwner: isForeign(stats) }];
    });
    for (const [name, file] of await Promise.all(some)) files.set(name, file);
  }
  return files;
}

/** Visible names that are links through `..data`, as publish makes them. */
async function linksOf({ disk, directory }: Scanning, entries: readonly Dirent[]): Promise<Set<string>> {
  const visible = entries.filter((entry) => entry.isSymbolicLink() && !entry.name.startsWith('..'));
  const targets = await Promise.all(visible.map(({ name }) => disk.readlink(join(directory, name))));
  return new Set(visible.flatMap(({ name }, at) => (targets[at] === `${dataLink}/${name}` ? [name] : [])));
}

/** Opens plain files for reading, and directories for removal. */
async function openAll({ disk, directory, modeOf }: Scanning, entries: readonly Dirent[]): Promise<void> {
  for (const { name } of entries) {
    const path = join(directory, name);
    const stats = await disk.lstat(path);
    if (stats.isDirectory()) await modeOf(path, stats, directoryAccess);
    else if (stats.isFile()) await modeOf(path, stats, fileAccess);
  }
}

/** Files that are read in parallel: an object has a few, and another program may have put thousands there. */
const mostAtOnce = 32;

/** Never blocks, also for a FIFO that has replaced the file since the scan. undefined: see PublishedFile. */
function readNow(disk: Disk, path: string): Promise<Buffer | undefined> {
  return onPath(path, () => unlessUnreadable(() => readRegularFile(disk, path)));
}

const unreadable: ReadonlySet<string | undefined> = new Set(['EACCES', 'EFBIG', 'ENOTREG']);

/** The result of `call`, or undefined for a file that exists and cannot be read, now or later. */
async function unlessUnreadable<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (err) {
    if (unreadable.has(systemCode(err))) return undefined;
    throw err;
  }
}

/**
 * Content that a reader gets at each visible name, of one generation; names that lead nowhere, or to no readable file,
 * are left out. Files of an earlier tool are read now. Throws errors of the file system.
 */
export async function visibleContent(
  disk: Disk,
  directory: string,
  { foreign, links, files }: Pick<Scan, 'foreign' | 'links' | 'files'>,
): Promise<Map<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>();
  for (const name of foreign) {
    const path = join(directory, name);
    // A read of a FIFO or a device would never return, and no reader could use one.
    const stats = await unlessAbsent(() => unlessUnreadable(() => disk.stat(path)));
    const bytes = stats?.isFile() === true ? await unlessAbsent(() => readNow(disk, path)) : undefined;
    if (bytes !== undefined) found.set(name, bytes);
  }
  for (const name of links) {
    const bytes = files.get(name)?.bytes;
    if (bytes !== undefined) found.set(name, bytes);
  }
  return found;
}

/** The entries of an object as its readers see them; undefined when there are none. Throws ReadFailed. */
export async function readPublished(
  { directory, what, disk = realDisk }: ObjectDirectory,
  scanned?: Scan,
): Promise<Entries | undefined> {
  return attempt({ code: 'ReadFailed', action: 'read', what, directory }, async () => {
    return asEntries(await visibleContent(disk, directory, scanned ?? (await scan(disk, directory))));
  });
}

/** Undefined where there are none. */
export const asEntries = (content: ReadonlyMap<string, Uint8Array>): Entries | undefined =>
  content.size === 0 ? undefined : Object.fromEntries(content);

/** Whether the directory holds only parts of `entries`: then the missing files have been removed. Throws ReadFailed. */
export async function holdsOnlyPartsOf(
  entries: Entries,
  { directory, what, disk = realDisk }: ObjectDirectory,
  seen: Scan,
): Promise<boolean> {
  if (seen.foreignGeneration || seen.directories.length > 0) return false;
  const visible = await attempt({ code: 'ReadFailed', action: 'read', what, directory }, () =>
    visibleContent(disk, directory, { ...seen, links: new Set() }),
  );
  const files: Map<string, Uint8Array | undefined> = new Map(
    [...seen.files].map(([name, { bytes, foreignOwner }]) => [name, foreignOwner ? undefined : bytes]),
  );
  for (const name of seen.foreign) files.set(name, visible.get(name));
  return [...files].every(([name, bytes]) => {
    const wanted = Object.hasOwn(entries, name) ? entries[name] : undefined;
    return bytes !== undefined && wanted !== undefined && Buffer.compare(bytes, wanted) === 0;
  });
}
