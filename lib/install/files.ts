// Small files written whole and durably: complete under a temporary name before they take their own, so a killed run
// leaves the old file or the new one. A file with a secret is never open to others, not for a moment.
import { randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { attempt, type Disk, ensureDirectory, realDisk, syncDirectory, unlessAbsent } from '../publish/disk.ts';
import { writeNewFile } from '../publish/disk.ts';

export interface FileToWrite {
  readonly path: string;
  readonly content: string | Uint8Array;
  readonly mode: number;
  /** For messages: `kubeconfig`. */
  readonly what: string;
}

const temporaryMark = '.kube-cert-recovery-';

/** Makes a directory that only its owner may enter, with its missing parents. */
export async function ensurePrivateDirectory(directory: string, disk: Disk = realDisk): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'make', what: 'directory', directory }, async () => {
    await ensureDirectory(disk, dirname(directory));
    if ((await unlessAbsent(() => disk.lstat(directory))) === undefined) {
      await disk.mkdir(directory, { mode: 0o700 });
      await syncDirectory(disk, dirname(directory));
    }
    await disk.chmod(directory, 0o700);
  });
}

/** Puts the content in place of whatever is there, unless it is there already. Throws WriteFailed. */
export async function replaceFile(file: FileToWrite, disk: Disk = realDisk): Promise<'written' | 'unchanged'> {
  const { path, mode } = file;
  const directory = dirname(path);
  const bytes = Buffer.from(file.content);
  return attempt({ code: 'WriteFailed', action: 'write', what: `${file.what} "${path}"`, directory }, async () => {
    if ((await unlessAbsent(() => disk.lstat(directory))) === undefined) await ensureDirectory(disk, directory);
    const before = await unlessAbsent(() => disk.readFile(path));
    if (before !== undefined && bytes.equals(before)) {
      await disk.chmod(path, mode);
      return 'unchanged';
    }
    const leftovers = (await disk.readdir(directory)).filter((name) => name.startsWith(prefix(path)));
    for (const name of leftovers) await disk.rm(join(directory, name), { force: true });
    const temporary = join(directory, `${prefix(path)}${randomBytes(6).toString('hex')}`);
    await writeNewFile(disk, temporary, bytes, mode);
    await disk.rename(temporary, path);
    await syncDirectory(disk, directory);
    return 'written';
  });
}

/** The same, but leaves a file alone that is there: a person may have changed it. */
export async function writeIfAbsent(file: FileToWrite, disk: Disk = realDisk): Promise<'written' | 'unchanged'> {
  const { path, what } = file;
  const there = await attempt({ code: 'ReadFailed', action: 'look at', what, directory: dirname(path) }, () =>
    unlessAbsent(() => disk.lstat(path)),
  );
  return there === undefined ? replaceFile(file, disk) : 'unchanged';
}

export async function readIfPresent(path: string, what: string, disk: Disk = realDisk): Promise<Buffer | undefined> {
  return attempt({ code: 'ReadFailed', action: 'read', what: `${what} "${path}"`, directory: dirname(path) }, () =>
    unlessAbsent(() => disk.readFile(path)),
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

function prefix(path: string): string {
  return `.${basename(path)}${temporaryMark}`;
}
