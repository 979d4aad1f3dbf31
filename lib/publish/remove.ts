// Takes away: what a crash left (prune, at every start), and the whole directory of an object that is gone (unpublish).
// What is in use is never touched by prune; unpublish makes all files of the object disappear in one step.
import { dirname, join } from 'node:path';
import { attempt, realDisk, unlessAbsent, type Disk } from '../disk/disk.ts';
import { syncDirectory } from '../disk/files.ts';
import { removeLeftovers, temporaryName } from './generation.ts';
import { inspect } from './inspect.ts';

export interface Removal {
  readonly directory: string;
  /** Kind and name for messages: `Secret "a/b"`. */
  readonly what: string;
  readonly disk?: Disk;
}

const removedPrefix = 'removed';

/** Removes superseded and half-written generations and stale temporary names. Returns how many. Throws WriteFailed. */
export async function prune({ directory, what, disk = realDisk }: Removal): Promise<number> {
  return attempt({ code: 'WriteFailed', action: 'prune', what, directory }, async () => {
    const { generation, links, leftovers } = await inspect(disk, directory);
    // Links without a generation: somebody took `..data` away, and a leftover may be the last good state. publish
    // clears up once it has written a generation.
    if (leftovers.length === 0 || (generation === undefined && links.size > 0)) return 0;
    await syncDirectory(disk, directory); // the flip that superseded them may not be durable yet
    await removeLeftovers(disk, directory, leftovers);
    await syncDirectory(disk, directory);
    return leftovers.length;
  });
}

/** Removes what an interrupted unpublish left below `directory` (`<destination>/secrets`). Throws WriteFailed. */
export async function pruneRemoved({ directory, what, disk = realDisk }: Removal): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'prune', what, directory }, async () => {
    const names = (await unlessAbsent(() => disk.readdir(directory))) ?? [];
    for (const name of names) {
      if (!name.startsWith(`..${removedPrefix}.`)) continue;
      await disk.rm(join(directory, name), { recursive: true, force: true });
    }
  });
}

/**
 * 1. one rename takes all paths away together, 2. durably, 3. then the files themselves go.
 * When step 1 fails, everything is as it was. Throws WriteFailed.
 */
export async function unpublish({ directory, what, disk = realDisk }: Removal): Promise<'removed' | 'absent'> {
  return attempt({ code: 'WriteFailed', action: 'remove', what, directory }, async () => {
    if ((await unlessAbsent(() => disk.lstat(directory))) === undefined) return 'absent';
    const parent = dirname(directory);
    const hidden = join(parent, temporaryName(removedPrefix));
    await disk.rename(directory, hidden); // 1
    await syncDirectory(disk, parent); // 2
    await disk.rm(hidden, { recursive: true, force: true }); // 3
    await syncDirectory(disk, parent);
    return 'removed';
  });
}
