// Removes directories that lie where a link of an object belongs. All below an object's directory belongs to this tool:
// directories without a key's name stay, those in the way are removed, like plain files of an earlier tool.
import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import { type Disk, unlessAbsent } from '../disk/disk.ts';
import { syncDirectory, writeNewFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import type { Entries } from '../store/store.ts';
import { dataLink, type Scan, visibleContent } from './scan.ts';

/** Unique: a stale name of a crash never makes a later write fail with EEXIST. */
export const hiddenName = (purpose: string): string => `..${purpose}.${randomBytes(6).toString('hex')}`;

/** A directory that was in the way, and how many files and directories lay in it, where that could be read. */
export interface Cleared {
  readonly path: string;
  readonly count: number | undefined;
}

interface Room {
  readonly disk: Disk;
  readonly onCleared?: (cleared: Cleared) => void;
  readonly directory: string;
  readonly entries: Entries;
  readonly mode: number;
}

/**
 * Moves them to hidden names, which are removed with superseded generations; returns whether there was one. A copy that
 * follows links has made a directory of `..data`: links that lead through it become plain files of the same bytes
 * before it moves, so that no path is ever absent, and are taken over as such.
 */
export async function makeRoom(room: Room, seen: Scan): Promise<boolean> {
  const { disk, directory, entries, mode, onCleared } = room;
  const inTheWay = seen.directories.filter((name) => name === dataLink || Object.hasOwn(entries, name));
  if (inTheWay.includes(dataLink)) {
    const content = await visibleContent(disk, directory, seen);
    for (const name of [...seen.foreign, ...seen.links]) {
      const path = join(directory, name);
      if (!(await disk.lstat(path)).isSymbolicLink()) continue;
      const bytes = content.get(name);
      // A link that leads nowhere is absent already; a file that exists and cannot be read must stay where it is.
      if (bytes !== undefined) await replaceByFile(disk, path, { bytes, mode });
      else if ((await unlessAbsent(() => disk.stat(path))) !== undefined)
        throw new RecoveryError(
          'WriteFailed',
          `Cannot make room in "${directory}": "${path}" cannot be read; move "${dataLink}" away`,
        );
    }
    await syncDirectory(disk, directory); // durable, before the target of the links moves
  }
  for (const name of inTheWay) {
    const path = join(directory, name);
    const count = await disk.readdir(path, { recursive: true }).then(
      ({ length }) => length,
      () => undefined,
    );
    await disk.rename(path, join(directory, hiddenName('former')));
    onCleared?.({ path, count });
  }
  return inTheWay.length > 0;
}

/** A plain file that replaces any file or link of that name in one step; the name is never absent. */
export async function replaceByFile(
  disk: Disk,
  path: string,
  { bytes, mode }: { readonly bytes: Uint8Array; readonly mode: number },
): Promise<void> {
  const temporary = join(dirname(path), hiddenName('file'));
  try {
    await writeNewFile(disk, temporary, bytes, { mode });
    await disk.rename(temporary, path);
  } catch (err) {
    await disk.rm(temporary, { force: true }).catch(() => undefined);
    throw err;
  }
}
