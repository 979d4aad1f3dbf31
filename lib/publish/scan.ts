// One look at the directory of an object: the generation in use, the visible names that readers open, and what a crash
// or an earlier tool left. It never follows a name out of what it promises. With `opens` it first gives this process
// back what modes shut it out of: it runs without any capability, so a mode stops it even as root, but the owner of a
// file may always change its mode. What belongs to somebody else cannot be repaired: its content is unknown.
import type { Dirent, Stats } from 'node:fs';
import { join } from 'node:path';
import { systemCode } from '../errors.ts';
import type { Entries } from '../store/store.ts';
import { attempt, onPath, realDisk, unlessAbsent, type Disk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/read.ts';

export const dataLink = '..data';

export interface ObjectDirectory {
  /** The object's own: `<destination>/secrets/<name>`. Absolute. */
  readonly directory: string;
  /** Kind and name for messages: `Secret "a/b"`. */
  readonly what: string;
  readonly disk?: Disk;
}

/** A file in the generation in use. */
export interface PublishedFile {
  /** undefined: unknown. It is no file, or none that this process may read, or far larger than what publish writes. */
  readonly bytes: Uint8Array | undefined;
  readonly mode: number;
  /** Neither this process owns it, nor who owns the object's directory (a file system that maps owners). */
  readonly foreignOwner: boolean;
}

export interface Scan {
  readonly present: boolean;
  /** Of the directory: differs once a name in it has come, gone or been replaced. */
  readonly stamp: string;
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

/** Adds what is missing of `bits` to the mode of what is ours. Returns the mode that it has then. */
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

/** Looks at `directory`; one that is not there is a normal answer. Throws what the system throws. */
export async function scan(disk: Disk, directory: string, opens = false): Promise<Scan> {
  for (let left = 5; ; left -= 1) {
    try {
      return await new Scanner(disk, directory, opens).scan();
    } catch (err) {
      // A writer in another process removed something between two of our steps.
      if (left === 0 || systemCode(err) !== 'ENOENT') throw err;
    }
  }
}

/** Whether the names in the directory are still those of the scan. */
export async function isCurrent(disk: Disk, directory: string, { stamp }: Scan): Promise<boolean> {
  return stampOf(await disk.stat(directory)) === stamp;
}

class Scanner {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #opens: boolean;
  #uid: number | undefined;

  constructor(disk: Disk, directory: string, opens: boolean) {
    this.#disk = disk;
    this.#directory = directory;
    this.#opens = opens;
  }

  async scan(): Promise<Scan> {
    const [disk, directory] = [this.#disk, this.#directory];
    const stats = await unlessAbsent(() => disk.stat(directory));
    if (stats === undefined) return nothing;
    this.#uid = stats.uid;
    const directoryMode = await this.#mode(directory, stats, directoryAccess);
    const [entries, name] = await Promise.all([
      disk.readdir(directory, { withFileTypes: true }),
      this.#linkTarget(dataLink),
    ]);
    const [generation, links] = await Promise.all([this.#generation(name), this.#links(entries)]);
    const hidden = ({ name: each }: Dirent): boolean => each.startsWith('..');
    const visible = entries.filter((entry) => !hidden(entry));
    const files = visible.filter((entry) => !entry.isDirectory() && !links.has(entry.name));
    const leftovers = entries.filter(
      (entry) => hidden(entry) && entry.name !== dataLink && entry.name !== generation.generation,
    );
    if (this.#opens) await this.#open([...files, ...leftovers]);
    return {
      present: true,
      stamp: stampOf(stats),
      directoryMode,
      ...generation,
      links,
      foreign: files.map((entry) => entry.name),
      directories: visible.filter((entry) => entry.isDirectory()).map((entry) => entry.name),
      leftovers: leftovers.map((entry) => entry.name),
    };
  }

  /** The mode, which is made to allow `bits` first where this scan opens. */
  async #mode(path: string, stats: Stats, bits: number): Promise<number> {
    return this.#opens ? allow(this.#disk, path, { stats, bits }) : stats.mode & 0o7777;
  }

  #isForeign({ uid }: Stats): boolean {
    return uid !== process.geteuid?.() && uid !== this.#uid;
  }

  async #linkTarget(name: string): Promise<string | undefined> {
    const path = join(this.#directory, name);
    const stats = await unlessAbsent(() => this.#disk.lstat(path));
    return stats?.isSymbolicLink() === true ? this.#disk.readlink(path) : undefined;
  }

  /** What is at `name`, where it is a generation. A link that leads elsewhere is replaced, its target stays untouched. */
  async #generation(
    name: string | undefined,
  ): Promise<Pick<Scan, 'generation' | 'generationMode' | 'foreignGeneration' | 'files'>> {
    const { generation, generationMode, foreignGeneration, files } = nothing;
    const none = { generation, generationMode, foreignGeneration, files };
    if (name === undefined || !name.startsWith('..') || name.includes('/') || name === '..' || name === dataLink) {
      return none;
    }
    const path = join(this.#directory, name);
    const stats = await unlessAbsent(() => this.#disk.lstat(path));
    if (stats?.isDirectory() !== true) return none;
    return {
      generation: name,
      generationMode: await this.#mode(path, stats, directoryAccess),
      foreignGeneration: this.#isForeign(stats),
      files: await this.#files(path),
    };
  }

  async #files(generation: string): Promise<Map<string, PublishedFile>> {
    const names = (await unlessUnreadable(() => this.#disk.readdir(generation))) ?? [];
    const files = new Map<string, PublishedFile>();
    for (let at = 0; at < names.length; at += mostAtOnce) {
      const some = names.slice(at, at + mostAtOnce).map(async (name): Promise<[string, PublishedFile]> => {
        const path = join(generation, name);
        const stats = await unlessUnreadable(() => this.#disk.lstat(path));
        if (stats === undefined) return [name, { bytes: undefined, mode: 0, foreignOwner: true }];
        const mode = await this.#mode(path, stats, stats.isFile() ? fileAccess : 0);
        const bytes = stats.isFile() ? await readNow(this.#disk, path) : undefined;
        return [name, { bytes, mode, foreignOwner: this.#isForeign(stats) }];
      });
      for (const [name, file] of await Promise.all(some)) files.set(name, file);
    }
    return files;
  }

  async #links(entries: readonly Dirent[]): Promise<Set<string>> {
    const visible = entries.filter((entry) => entry.isSymbolicLink() && !entry.name.startsWith('..'));
    const targets = await Promise.all(visible.map(({ name }) => this.#disk.readlink(join(this.#directory, name))));
    return new Set(visible.flatMap(({ name }, at) => (targets[at] === `${dataLink}/${name}` ? [name] : [])));
  }

  /** Plain files, so that they can be read, and directories, so that they can be removed. */
  async #open(entries: readonly Dirent[]): Promise<void> {
    for (const { name } of entries) {
      const path = join(this.#directory, name);
      const stats = await this.#disk.lstat(path);
      if (stats.isDirectory()) await this.#mode(path, stats, directoryAccess);
      else if (stats.isFile()) await this.#mode(path, stats, fileAccess);
    }
  }
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

/**
 * What a reader gets at each visible name, of one generation; names that lead nowhere, or to no file that can be read, are
 * left out. Files of an earlier tool are read now. Throws what the system throws.
 */
export async function visibleContent(
  disk: Disk,
  directory: string,
  { foreign, links, files }: Pick<Scan, 'foreign' | 'links' | 'files'>,
): Promise<Map<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>();
  for (const name of foreign) {
    const path = join(directory, name);
    // A FIFO or a device would never end, and is nothing that a reader could use.
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

/** Undefined where there is nothing. */
export const asEntries = (content: ReadonlyMap<string, Uint8Array>): Entries | undefined =>
  content.size === 0 ? undefined : Object.fromEntries(content);

/** Whether nothing lies there but parts of `entries`: then what is missing has been removed. Throws ReadFailed. */
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
