// Removes a published object: its files (unpublish), or only our layout, so that plain files are there again
// (giveBack).
import { dirname, join } from 'node:path';
import { attempt, realDisk, unlessAbsent } from '../disk/disk.ts';
import { syncDirectory } from '../disk/files.ts';
import { hiddenName, makeRoom, replaceByFile } from './make-room.ts';
import { dataLink, type ObjectDirectory, scan, type Scan } from './scan.ts';
import type { FileMode } from './writer.ts';

const removedPrefix = 'removed';

/**
 * 1. one rename removes all paths together, 2. durably, 3. then the files themselves are deleted. When step 1 fails,
 *    nothing has changed. Throws WriteFailed.
 */
export async function unpublish({ directory, what, disk = realDisk }: ObjectDirectory): Promise<'removed' | 'absent'> {
  return attempt({ code: 'WriteFailed', action: 'remove', what, directory }, async () => {
    if ((await unlessAbsent(() => disk.lstat(directory))) === undefined) return 'absent';
    const parent = dirname(directory);
    const hidden = join(parent, hiddenName(removedPrefix));
    await disk.rename(directory, hidden); // 1
    await syncDirectory(disk, parent); // 2
    await disk.rm(hidden, { recursive: true, force: true }); // 3
    await syncDirectory(disk, parent);
    return 'removed';
  });
}

/** Removes leftovers of an interrupted unpublish below `directory` (`<destination>/secrets`). Throws WriteFailed. */
export async function pruneRemoved({ directory, what, disk = realDisk }: ObjectDirectory): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'prune', what, directory }, async () => {
    const names = (await unlessAbsent(() => disk.readdir(directory))) ?? [];
    for (const name of names) {
      if (!name.startsWith(`..${removedPrefix}.`)) continue;
      await disk.rm(join(directory, name), { recursive: true, force: true });
    }
  });
}

/**
 * Makes plain files of a published object again, so that a later tool finds no links. Every path holds the same bytes
 * before, during and after; it can be killed at any moment and run again. Throws WriteFailed.
 */
export async function giveBack(object: ObjectDirectory & { readonly mode: FileMode }): Promise<void> {
  const { directory, what, mode, disk = realDisk } = object;
  await attempt({ code: 'WriteFailed', action: 'give back', what, directory }, async () => {
    let seen = await scan(disk, directory);
    if (!seen.present) return;
    if (await makeRoom({ disk, directory, entries: {}, mode }, seen)) seen = await scan(disk, directory);
    for (const [name, bytes] of linkedFiles(directory, seen)) {
      await replaceByFile(disk, join(directory, name), { bytes, mode });
    }
    await syncDirectory(disk, directory); // the plain files are durable before the generation is removed
    const hidden = seen.generation === undefined ? seen.leftovers : [dataLink, seen.generation, ...seen.leftovers];
    for (const name of hidden) await disk.rm(join(directory, name), { recursive: true, force: true });
    await syncDirectory(disk, directory);
  });
}

/** Throws EACCES for an unreadable file: a plain file with other content would replace it. */
function linkedFiles(directory: string, { files, links }: Scan): (readonly [string, Uint8Array])[] {
  return [...files].flatMap(([name, { bytes }]) => {
    if (!links.has(name)) return [];
    if (bytes !== undefined) return [[name, bytes] as const];
    throw Object.assign(new Error('content unknown'), { code: 'EACCES', path: join(directory, name) });
  });
}
