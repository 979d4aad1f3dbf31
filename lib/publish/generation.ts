// One generation of an object: a hidden directory with all its files, and the one rename that puts it in use.
// After any failure or crash in here, `..data` leads to the former generation or to the new one, each complete.
import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import type { Entries } from '../store/store.ts';
import { unlessAbsent, type Disk } from '../disk/disk.ts';
import { directoryMode, syncDirectory, writeNewFile } from '../disk/files.ts';
import { dataLink } from './inspect.ts';

export type FileMode = 0o600 | 0o644;

export interface Generation {
  readonly disk: Disk;
  readonly directory: string;
  readonly entries: Entries;
  readonly mode: FileMode;
  readonly now: Date;
}

/** Hidden and unique: a stale one of a crash never makes a later write fail with EEXIST. */
export function temporaryName(purpose: string): string {
  return `..${purpose}.${randomBytes(6).toString('hex')}`;
}

/** `..2026_11_20_08_30_00.xxxxxx`, as AtomicWriter names them. */
function generationPrefix(now: Date): string {
  return `..${now.toISOString().slice(0, 19).replaceAll(/[-T:]/g, '_')}.`;
}

/**
 * Runs `call`, which makes something in `directory` under a name that no other run uses. What could not be made is gone:
 * its failure is told of the place that it was for, so that the same one again is no news.
 */
async function inItsPlace<T>(directory: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (err) {
    const failure = err as NodeJS.ErrnoException;
    if (failure.path?.startsWith(`${directory}/..`) === true) {
      const [made, ...rest] = failure.path.slice(directory.length + 1).split('/');
      if (made !== dataLink) failure.path = join(directory, ...rest);
    }
    throw failure;
  }
}

/** Steps 3 and 4 of publish: the files, each durable, then the directory that names them. Returns its bare name. */
export function writeGeneration(generation: Generation): Promise<string> {
  return inItsPlace(generation.directory, () => written(generation));
}

async function written({ disk, directory, entries, mode, now }: Generation): Promise<string> {
  const path = await disk.mkdtemp(join(directory, generationPrefix(now)));
  try {
    await disk.chmod(path, directoryMode); // mkdtemp makes it 0700
    const writes = Object.entries(entries).map(([name, bytes]) =>
      writeNewFile(disk, join(path, name), bytes, { mode }),
    );
    // All of them end before anything is removed: a write that is still running would fill the directory again.
    for (const result of await Promise.allSettled(writes)) if (result.status === 'rejected') throw result.reason;
    await syncDirectory(disk, path);
  } catch (err) {
    await disk.rm(path, { recursive: true, force: true }).catch(() => undefined); // else the next prune finds it
    throw err;
  }
  return basename(path);
}

/** A link that replaces whatever has that name in one step; the name is never absent. */
export function replaceByLink(disk: Disk, path: string, target: string): Promise<void> {
  const temporary = join(dirname(path), temporaryName('link'));
  return inItsPlace(dirname(path), async () => {
    await disk.symlink(target, temporary);
    try {
      await disk.rename(temporary, path);
    } catch (err) {
      await disk.unlink(temporary).catch(() => undefined);
      throw err;
    }
  });
}

/** Removes hidden names that nothing led to when they were seen; what `..data` leads to by now stays. */
export async function removeLeftovers(disk: Disk, directory: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    // Looked at before each: whoever else writes here, against the rules, must not lose what its readers have.
    const inUse = await unlessAbsent(() => disk.readlink(join(directory, dataLink)));
    if (name !== inUse) await disk.rm(join(directory, name), { recursive: true, force: true });
  }
}

/** Steps 3 to 6: after it, every reader that opens a path through `..data` gets the new generation. */
export async function flip(generation: Generation): Promise<string> {
  const { disk, directory } = generation;
  const name = await writeGeneration(generation);
  try {
    // 5. the link under a name of its own, 6. the rename: the atomic instant. The target is relative, so that the
    // directory can be mounted elsewhere.
    await replaceByLink(disk, join(directory, dataLink), name);
  } catch (err) {
    // A failed rename may have happened all the same (network file systems): what is in use never goes.
    const inUse = await disk.readlink(join(directory, dataLink)).catch(() => '');
    if (inUse !== name) await disk.rm(join(directory, name), { recursive: true, force: true }).catch(() => undefined);
    throw err;
  }
  // 7. from here on the former generation is no longer needed, also after a power loss.
  await syncDirectory(disk, directory);
  return name;
}
