// Small files of an installation, on top of lib/disk: what is there is looked at before anything is written, and every
// failure names the file.
import { dirname, join, relative } from 'node:path';
import { attempt, type Disk, realDisk, unlessAbsent } from '../disk/disk.ts';
import { readRegularFile } from '../disk/read.ts';
import { type FileToWrite, replaceFile, syncDirectory, temporaryMark } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { dataLink } from '../publish/scan.ts';

/** Also a link that leads nowhere. Throws ReadFailed. */
export async function isThere(path: string, what: string, disk: Disk = realDisk): Promise<boolean> {
  const named = { code: 'ReadFailed', action: 'look at', what, directory: dirname(path) } as const;
  return (await attempt(named, () => unlessAbsent(() => disk.lstat(path)))) !== undefined;
}

/** Puts the content at its path, but leaves a file alone that is there: a person may have changed it. */
export async function writeIfAbsent(file: FileToWrite, disk: Disk = realDisk): Promise<'written' | 'unchanged'> {
  return (await isThere(file.path, file.what, disk)) ? 'unchanged' : replaceFile(file, disk);
}

/** Of a file that somebody else may have put there: see readRegularFile. */
export async function readIfPresent(path: string, what: string, disk: Disk = realDisk): Promise<Buffer | undefined> {
  return attempt({ code: 'ReadFailed', action: 'read', what: `${what} "${path}"`, directory: dirname(path) }, () =>
    unlessAbsent(() => readRegularFile(disk, path)),
  );
}

/** Names in a directory; none when it is not there. */
export async function namesIn(directory: string, disk: Disk = realDisk): Promise<readonly string[]> {
  return attempt({ code: 'ReadFailed', action: 'list', what: 'directory', directory }, async () => {
    const names = (await unlessAbsent(() => disk.readdir(directory))) ?? [];
    return names.filter((name) => !name.includes(temporaryMark)).toSorted();
  });
}

/** Removes a directory and all in it, durably. */
export async function removeDirectory(directory: string, disk: Disk = realDisk): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'remove', what: 'directory', directory }, async () => {
    if ((await unlessAbsent(() => disk.lstat(directory))) === undefined) return;
    await disk.rm(directory, { recursive: true, force: true });
    await syncDirectory(disk, dirname(directory));
  });
}

/**
 * For what root writes where a container may write, too: a link there would lead it to any place of the machine. Looks at
 * each step from `root`, which itself is left out, to `path`. Throws MaterialInvalid for a link, for a step that is no
 * directory and for an end that is not what is wanted; ReadFailed. What is not there is as wanted.
 */
export async function requireNoLink(root: string, path: string, wanted: 'directory' | 'file'): Promise<void> {
  const what = `${wanted} "${path}"`;
  let at = root;
  for (const step of relative(root, path).split('/')) {
    at = join(at, step);
    const looking = { code: 'ReadFailed', action: 'look at', what, directory: at } as const;
    const stats = await attempt(looking, () => unlessAbsent(() => realDisk.lstat(at)));
    if (stats === undefined) return;
    const isWanted = at === path && wanted === 'file' ? stats.isFile() : stats.isDirectory();
    if (isWanted) continue;
    const state = stats.isSymbolicLink() ? 'is a link' : `is no ${at === path ? wanted : 'directory'}`;
    throw refusal(`Cannot write ${what}: "${at}" ${state}`, at);
  }
}

/**
 * The same for what lies in the directory of a published object, where the syncer's own links are as they should be:
 * publish keeps what any other one leads to, and shows it there.
 */
export async function requireNoForeignLink(directory: string): Promise<void> {
  for (const name of await namesIn(directory)) {
    if (name.startsWith('..')) continue;
    const at = join(directory, name);
    const looking = { code: 'ReadFailed', action: 'look at', what: `"${at}"`, directory } as const;
    const target = await attempt(looking, () =>
      unlessAbsent(async () => ((await realDisk.lstat(at)).isSymbolicLink() ? realDisk.readlink(at) : undefined)),
    );
    if (target === undefined || target === `${dataLink}/${name}`) continue;
    throw refusal(`Cannot publish in "${directory}": "${at}" is a link to "${target}"`, at);
  }
}

function refusal(problem: string, path: string): RecoveryError {
  const message = `${problem}; remove it, and look at who made it: a container of this program may write there`;
  return new RecoveryError('MaterialInvalid', message, { details: { path } });
}
