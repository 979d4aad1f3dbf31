// Small files of an installation, on top of lib/disk: existing files are checked before anything is written, and every
// error names the file.
import { dirname } from 'node:path';
import { attempt, type Disk, realDisk, unlessAbsent } from '../disk/disk.ts';
import { type FileToWrite, readRegularFile, replaceFile, syncDirectory, temporaryMark } from '../disk/files.ts';

/** True also for a dangling link. Throws ReadFailed. */
export async function isThere(path: string, what: string, disk: Disk = realDisk): Promise<boolean> {
  const named = { code: 'ReadFailed', action: 'look at', what, directory: dirname(path) } as const;
  return (await attempt(named, () => unlessAbsent(() => disk.lstat(path)))) !== undefined;
}

/** Writes the content unless the file exists: the administrator may have changed it. */
export async function writeIfAbsent(file: FileToWrite): Promise<'written' | 'unchanged'> {
  return (await isThere(file.path, file.what)) ? 'unchanged' : replaceFile(file);
}

/** Reads a file that another program may have written: see readRegularFile. */
export async function readIfPresent(path: string, what: string): Promise<Buffer | undefined> {
  return attempt({ code: 'ReadFailed', action: 'read', what: `${what} "${path}"`, directory: dirname(path) }, () =>
    unlessAbsent(() => readRegularFile(realDisk, path)),
  );
}

/** Names in a directory; empty when it is absent. */
export async function namesIn(directory: string): Promise<readonly string[]> {
  return attempt({ code: 'ReadFailed', action: 'list', what: 'directory', directory }, async () => {
    const names = (await unlessAbsent(() => realDisk.readdir(directory))) ?? [];
    return names.filter((name) => !name.includes(temporaryMark)).toSorted();
  });
}

/** Removes a directory and its content, durably. */
export async function removeDirectory(directory: string): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'remove', what: 'directory', directory }, async () => {
    if ((await unlessAbsent(() => realDisk.lstat(directory))) === undefined) return;
    await realDisk.rm(directory, { recursive: true, force: true });
    await syncDirectory(realDisk, dirname(directory));
  });
}

/** Removes a file durably; an absent file is accepted. Throws WriteFailed. */
export async function removeFile(path: string, what: string, disk: Disk = realDisk): Promise<void> {
  const directory = dirname(path);
  await attempt({ code: 'WriteFailed', action: 'remove', what: `${what} "${path}"`, directory }, async () => {
    await disk.rm(path, { force: true });
    await syncDirectory(disk, directory);
  });
}
