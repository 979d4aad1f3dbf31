// Byte copies of files that are about to be replaced, kept outside the live directories: the last five generations of
// each artefact, in directories that are 0700, with the owner and the group of the original, which may matter more than
// its bytes: an etcd with a user of its own cannot read root's. Never links and never moves: a reader that watches the
// inode of a live file (kube-apiserver) would miss a later change when another name keeps that inode alive. A
// generation takes its name when it is whole.
import { createHash } from 'node:crypto';
import { basename, join } from 'node:path';
import { type Disk, onPath, together, unlessAbsent } from '../disk/disk.ts';
import { systemCode } from '../errors.ts';
import {
  groupReads,
  leftoversOf,
  makeDirectory,
  type Ownership,
  readRegularFile,
  syncAll,
  temporaryName,
  writeNewFile,
} from '../disk/files.ts';

const generationsKept = 5;
const longestName = 200;

/** Whole files by their role in the artefact. */
export type Files = ReadonlyMap<string, Uint8Array>;

/** Ownership of the originals, by role; a copy without an entry gets the owner of this process. */
export type Owners = ReadonlyMap<string, Ownership>;

interface BackupOptions {
  readonly disk: Disk;
  readonly backupDir: string;
  /** Path of the artefact's first file. */
  readonly path: string;
  /** Whether a generation is usable: at the least its certificates parse. */
  readonly isUsable: (files: Files) => boolean;
}

/** The generations of one artefact. Its methods throw errors of the file system. */
export class BackupDirectory {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #isUsable: (files: Files) => boolean;

  constructor({ disk, backupDir, path, isUsable }: BackupOptions) {
    this.#disk = disk;
    this.#directory = join(backupDir, directoryName(path));
    this.#isUsable = isUsable;
  }

  /** Copies `files` into a new generation, unless the newest one already holds these bytes. */
  async keep(files: Files, owners: Owners): Promise<void> {
    const disk = this.#disk;
    const above = await makeDirectory(disk, this.#directory, 0o700);
    const generations = await this.generations();
    const newest = generations.at(-1);
    // A write that fails and is retried must not push the older generations out.
    if (newest !== undefined && same(await this.#readable(newest), files)) return;
    const made = String(Number(newest ?? '0') + 1).padStart(6, '0');
    await makeGeneration(disk, this.pathOf(made), files, owners);
    await syncAll(disk, [this.pathOf(made), this.#directory, ...above]);
    const old = [...generations, made].slice(0, -generationsKept);
    if (old.length === 0) return;
    // Five generations of garbage must not push out the last usable one.
    const precious = await this.#newestUsable([...generations, made]);
    for (const generation of old) {
      if (generation !== precious) await disk.rm(this.pathOf(generation), { recursive: true, force: true });
    }
  }

  /** Names of the generations, oldest first. */
  async generations(): Promise<string[]> {
    const names = (await unlessAbsent(() => this.#disk.readdir(this.#directory))) ?? [];
    return names.filter((name) => /^\d{6}$/.test(name)).toSorted();
  }

  pathOf(generation: string): string {
    return join(this.#directory, generation);
  }

  async read(generation: string): Promise<Files> {
    const roles = (await unlessAbsent(() => this.#disk.readdir(this.pathOf(generation)))) ?? [];
    const read = async (role: string): Promise<readonly [string, Uint8Array]> => {
      const path = join(this.pathOf(generation), role);
      return [role, await onPath(path, () => readRegularFile(this.#disk, path))];
    };
    return new Map(await Promise.all(roles.map(read)));
  }

  /** The newest usable generation. */
  async newest(): Promise<Files | undefined> {
    const generation = await this.#newestUsable(await this.generations());
    return generation === undefined ? undefined : this.read(generation);
  }

  /** Owner and mode of the copy of this role: in that generation, or in the newest that has such a copy. */
  async ownerOf(role: string, generation?: string): Promise<Ownership | undefined> {
    const from = generation === undefined ? (await this.generations()).toReversed() : [generation];
    for (const each of from) {
      const kept = await unlessAbsent(() => this.#disk.stat(join(this.pathOf(each), role)));
      if (kept !== undefined) return { mode: kept.mode & 0o777, uid: kept.uid, gid: kept.gid };
    }
    return undefined;
  }

  /** Empty for an unreadable generation: an older one may be whole. */
  async #readable(generation: string): Promise<Files> {
    try {
      return await this.read(generation);
    } catch (err) {
      if (systemCode(err) === undefined) throw err;
      return new Map();
    }
  }

  async #newestUsable(generations: readonly string[]): Promise<string | undefined> {
    for (const generation of generations.toReversed()) {
      if (this.#isUsable(await this.#readable(generation))) return generation;
    }
    return undefined;
  }
}

async function makeGeneration(disk: Disk, path: string, files: Files, owners: Owners): Promise<void> {
  // Directories, which no other user can change while they are removed: the one around them admits root only.
  for (const leftover of await leftoversOf(disk, path)) await disk.rm(leftover, { recursive: true, force: true });
  const temporary = temporaryName(path);
  try {
    await disk.mkdir(temporary, { mode: 0o700 });
    const writes = [...files].map(([role, bytes]) => {
      const { mode = 0, ...whose } = owners.get(role) ?? {};
      // The directories admit root only, whatever the group may read.
      return writeNewFile(disk, join(temporary, role), bytes, { ...whose, mode: 0o600 | (mode & groupReads) });
    });
    await together(writes);
    await disk.rename(temporary, path);
  } catch (err) {
    // Half a generation would occupy on a full disk the room that the next one needs.
    await disk.rm(temporary, { recursive: true, force: true }).catch(() => undefined);
    throw err;
  }
}

function same(kept: Files, files: Files): boolean {
  return (
    kept.size === files.size &&
    [...files].every(([role, bytes]) => Buffer.from(kept.get(role) ?? '').equals(bytes) && kept.has(role))
  );
}

/** The path as one readable name; a hash replaces a path too long for a file name. */
function directoryName(path: string): string {
  const name = encodeURIComponent(path);
  if (name.length <= longestName) return name;
  return `${createHash('sha256').update(path).digest('hex').slice(0, 16)}-${basename(path).slice(0, 100)}`;
}
