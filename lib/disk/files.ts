// Files and directories that survive a power loss: complete and durable under a temporary name before they take their
// own, so a killed run leaves the old file or the new one. A file with a key is never readable for other users, not for
// a moment.
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bounds } from '../bounds.ts';
import { systemCode } from '../errors.ts';
import { attempt, type Disk, onPath, realDisk, together, unlessAbsent } from './disk.ts';

export const directoryMode = 0o755;

/** Part of the name of every temporary file, so that leftovers of a killed run can be found and removed. */
export const temporaryMark = '.kube-cert-recovery-';

/** A unique name next to `path`, for content that is to replace it. */
export function temporaryName(path: string): string {
  return join(dirname(path), `${temporaryPrefix(path)}${randomBytes(6).toString('hex')}`);
}

function temporaryPrefix(path: string): string {
  return `.${basename(path)}${temporaryMark}`;
}

/** Leftovers of killed runs next to `path`, whose directory must exist. */
export async function leftoversOf(disk: Pick<Disk, 'readdir'>, path: string): Promise<readonly string[]> {
  const directory = dirname(path);
  const names = await disk.readdir(directory);
  return names.filter((entry) => entry.startsWith(temporaryPrefix(path))).map((name) => join(directory, name));
}

/**
 * Removes files and links that killed runs have left next to `path`, with `before` only those that were written before
 * that time. A directory is not ours and stays: its owner could lead a recursive removal to other files.
 */
export async function removeLeftovers(disk: Disk, path: string, before = Infinity): Promise<void> {
  for (const at of await leftoversOf(disk, path)) {
    const found = await unlessAbsent(() => disk.lstat(at));
    if (found === undefined || found.isDirectory() || found.mtimeMs >= before) continue;
    await disk.rm(at, { force: true }).catch((err: unknown) => {
      if (!['EISDIR', 'ERR_FS_EISDIR'].includes(systemCode(err) ?? '')) throw err;
    });
  }
}

/** Makes the entries of `directory` durable: names created, renamed and removed in it survive a power loss. */
export async function syncDirectory(disk: Disk, directory: string): Promise<void> {
  await onPath(directory, async () => {
    const handle = await disk.open(directory, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  });
}

export interface Ownership {
  readonly mode: number;
  /** Default: this process's user. */
  readonly uid?: number;
  readonly gid?: number;
  /**
   * The file that it is to replace: its access-control list, extended attributes and security label are copied, too.
   */
  readonly like?: string;
  /** Called with the error when these could not be copied; owner and mode are set in any case. */
  readonly onAttributesLost?: ((err: unknown) => void) | undefined;
}

/** The bit of a mode by which a group may read: a group that could read a file (etcd's) may read its replacement. */
export const groupReads = 0o040;

/** A new file with durable content. */
export async function writeNewFile(disk: Disk, path: string, bytes: Uint8Array, owner: Ownership): Promise<void> {
  const { mode, uid, gid, like } = owner;
  await onPath(path, async () => {
    // Exclusive and 0600 from the first moment: no other process can have the file open when a key is written into it.
    const handle = await disk.open(path, 'wx', 0o600);
    try {
      await handle.writeFile(bytes);
      // Before the mode: with an access-control list its group bits are the widest that any user named there may have.
      await takeAttributes(disk, path, owner);
      const own = uid === undefined && like === undefined ? undefined : await handle.stat();
      if (uid !== undefined && gid !== undefined && (uid !== own?.uid || gid !== own.gid)) await handle.chown(uid, gid);
      // After chown, which may clear bits, and not by open, which obeys the umask.
      const hasMode = like !== undefined && own !== undefined && (own.mode & 0o777) === (mode & 0o777);
      if (!hasMode) await handle.chmod(mode & 0o777);
      await handle.sync();
    } finally {
      await handle.close(); // close can report what fsync did not
    }
  });
}

async function takeAttributes(disk: Disk, path: string, { like, onAttributesLost }: Ownership): Promise<void> {
  if (like === undefined) return;
  await disk.copyAttributes(like, path).catch((err: unknown) => onAttributesLost?.(err));
}

/** Makes a directory and its missing parents, each durable in its own parent. */
export async function ensureDirectory(disk: Disk, directory: string): Promise<void> {
  await syncAll(disk, await makeDirectory(disk, directory, directoryMode));
}

/**
 * Makes a directory and its missing parents; returns the first one created. On a read-only file system Node throws
 * ENOENT for missing parents, too: creating the first one alone yields the reason.
 */
export async function makeMissing(disk: Disk, directory: string, mode: number): Promise<string | undefined> {
  try {
    return await disk.mkdir(directory, { recursive: true, mode });
  } catch (err) {
    if (systemCode(err) !== 'ENOENT') throw err;
    let first = directory;
    while ((await unlessAbsent(() => disk.lstat(dirname(first)))) === undefined) first = dirname(first);
    await disk.mkdir(first, { mode });
    await disk.mkdir(directory, { recursive: true, mode });
    return first;
  }
}

/** Makes a directory and its missing parents; durable once the returned directories have been synced. */
export async function makeDirectory(disk: Disk, directory: string, mode: number): Promise<string[]> {
  const first = await makeMissing(disk, directory, mode);
  if (first === undefined) return [];
  const made: string[] = [];
  for (let at = directory; at.length >= first.length; at = dirname(at)) made.push(at);
  for (const path of made) await disk.chmod(path, mode); // umask
  return made.map((path) => dirname(path));
}

/** Syncs directories in parallel, each once. */
export async function syncAll(disk: Disk, directories: readonly string[]): Promise<void> {
  await together([...new Set(directories)].map(async (directory) => syncDirectory(disk, directory)));
}

/** Makes a directory that only its owner may enter, with its missing parents. */
export async function ensurePrivateDirectory(directory: string): Promise<void> {
  await attempt({ code: 'WriteFailed', action: 'make', what: 'directory', directory }, async () => {
    await ensureDirectory(realDisk, dirname(directory));
    if ((await unlessAbsent(() => realDisk.lstat(directory))) === undefined) {
      await realDisk.mkdir(directory, { mode: 0o700 });
      await syncDirectory(realDisk, dirname(directory));
    }
    await realDisk.chmod(directory, 0o700);
  });
}

export interface FileToWrite {
  readonly path: string;
  readonly content: string | Uint8Array;
  readonly mode: number;
  /** Kind of file for messages: `kubeconfig`. */
  readonly what: string;
  /** Other processes may be writing it, too: younger temporary files are no leftovers. */
  readonly isShared?: true;
  /** In a directory of another program, which must be there. Whatever lies at the path is replaced, unread. */
  readonly isForOthers?: true;
}

/** Longest time for which a process writes a small file. */
const writingMs = 60_000;

/** Replaces the file, unless it has this content already. Throws WriteFailed. */
export async function replaceFile(file: FileToWrite, disk: Disk = realDisk): Promise<'written' | 'unchanged'> {
  const { path, mode } = file;
  const directory = dirname(path);
  const bytes = Buffer.from(file.content);
  return attempt({ code: 'WriteFailed', action: 'write', what: `${file.what} "${path}"`, directory }, async () => {
    if (file.isForOthers !== true && (await unlessAbsent(() => disk.lstat(directory))) === undefined)
      await ensureDirectory(disk, directory);
    const before = file.isForOthers === true ? undefined : await unlessAbsent(() => readRegularFile(disk, path));
    if (before !== undefined && bytes.equals(before)) {
      await disk.chmod(path, mode);
      return 'unchanged';
    }
    if (file.isShared !== true) await removeLeftovers(disk, path);
    const temporary = temporaryName(path);
    try {
      await writeNewFile(disk, temporary, bytes, { mode });
      // Compared with a time of the same clock.
      if (file.isShared === true) await removeLeftovers(disk, path, (await disk.lstat(temporary)).mtimeMs - writingMs);
      await disk.rename(temporary, path);
    } catch (err) {
      await disk.rm(temporary, { force: true }).catch(() => undefined);
      throw err;
    }
    await syncDirectory(disk, directory);
    return 'written';
  });
}

/**
 * Reads a file that another program may have put there: never blocks (a FIFO has no end), never takes a device for a
 * file, and never fills the memory. Refusals are worded like system errors, so that the caller names the object as for
 * every other failure. Throws errors of the file system, EFBIG for a file of more than 4 MiB, and ENOTREG for anything
 * but a regular file. `flags`: of open(2), besides its own.
 */
export async function readRegularFile(disk: Pick<Disk, 'readFile' | 'stat'>, path: string, flags = 0): Promise<Buffer> {
  const stats = await disk.stat(path);
  if (!stats.isFile() && !stats.isDirectory()) throw refusal('ENOTREG', path);
  if (stats.size > bounds.file.most.bytes) throw refusal('EFBIG', path);
  return onPath(path, () => disk.readFile(path, { flag: constants.O_RDONLY | constants.O_NONBLOCK | flags }));
}

function refusal(code: 'ENOTREG' | 'EFBIG', path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: "${path}"`), { code, path });
}
