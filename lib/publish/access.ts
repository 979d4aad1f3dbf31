// Modes that shut this process out of its own files, or let others replace them, become what they must be. It runs
// without any capability, so a mode stops it even as root; but the owner of a file may always change its mode.
// What belongs to somebody else cannot be repaired: inspect.ts tells its content as unknown.
import type { Stats } from 'node:fs';
import { join } from 'node:path';
import { attempt, realDisk, unlessAbsent, type Disk } from '../disk/disk.ts';
import { directoryMode } from '../disk/files.ts';
import type { Removal } from './remove.ts';

const stickyBit = 0o1000;
const ownAccess = 0o700;
const writableByOthers = 0o022;

const isOwn = ({ uid }: Stats): boolean => uid === process.geteuid?.();

/** The mode that a directory must get; undefined when it may stay. A narrower one is the choice of whoever made it. */
function repairedMode(mode: number): number | undefined {
  if ((mode & 0o111) === 0) return directoryMode; // `chmod -R 600`: nobody can enter, which nobody can want
  // Where the sticky bit is set nobody can rename what is not theirs.
  const wide = (mode & stickyBit) === 0 && (mode & writableByOthers) !== 0;
  if (!wide && (mode & ownAccess) === ownAccess) return undefined;
  return (wide ? mode & ~writableByOthers : mode) | ownAccess;
}

/**
 * A directory above those of objects: whoever may write there can replace an object's directory under its readers.
 * Returns the mode it had, when that was repaired; what is not there or not ours stays as it is. Throws WriteFailed.
 */
export async function repairParent({ directory, what, disk = realDisk }: Removal): Promise<number | undefined> {
  return attempt({ code: 'WriteFailed', action: 'repair', what, directory }, async () => {
    const stats = await unlessAbsent(() => disk.stat(directory));
    if (stats?.isDirectory() !== true || !isOwn(stats)) return undefined;
    const mode = stats.mode & 0o7777;
    const wanted = repairedMode(mode);
    if (wanted === undefined) return undefined;
    await disk.chmod(directory, wanted);
    return mode;
  });
}

/**
 * Makes what is ours in the directory of an object readable for this process, so that it can be compared; publish
 * gives the modes that are wanted. Throws WriteFailed.
 */
export async function openUp({ directory, what, disk = realDisk }: Removal): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'repair', what, directory }, async () => {
    const stats = await unlessAbsent(() => disk.stat(directory));
    if (stats?.isDirectory() !== true) return;
    await allow(disk, directory, stats, ownAccess);
    // Whoever removes it meanwhile leaves nothing to open.
    const entries = await unlessAbsent(() => disk.readdir(directory, { withFileTypes: true }));
    for (const entry of entries ?? []) {
      const path = join(directory, entry.name);
      if (entry.isFile()) await makeReadable(disk, path);
      else if (entry.isDirectory() && entry.name.startsWith('..')) await openGeneration(disk, path);
    }
  });
}

async function openGeneration(disk: Disk, path: string): Promise<void> {
  const stats = await unlessAbsent(() => disk.lstat(path));
  if (stats?.isDirectory() !== true || !isOwn(stats)) return;
  await allow(disk, path, stats, ownAccess);
  const names = (await unlessAbsent(() => disk.readdir(path))) ?? [];
  await Promise.all(names.map(async (name) => makeReadable(disk, join(path, name))));
}

async function makeReadable(disk: Disk, path: string): Promise<void> {
  const stats = await unlessAbsent(() => disk.lstat(path));
  if (stats?.isFile() === true) await allow(disk, path, stats, 0o400);
}

async function allow(disk: Disk, path: string, stats: Stats, bits: number): Promise<void> {
  if (!isOwn(stats) || (stats.mode & bits) === bits) return;
  await unlessAbsent(() => disk.chmod(path, (stats.mode & 0o7777) | bits));
}
