// The file system as this folder uses it, so that a test keeps the real disk and replaces one function by a failing
// one. Every failure leaves as WriteFailed or ReadFailed that names the object, the path and what to do.
import * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { RecoveryError, systemCode, type ErrorCode } from '../errors.ts';

export type Disk = Pick<
  typeof promises,
  | 'chmod'
  | 'lstat'
  | 'mkdir'
  | 'mkdtemp'
  | 'open'
  | 'readFile'
  | 'readdir'
  | 'readlink'
  | 'rename'
  | 'rm'
  | 'stat'
  | 'symlink'
  | 'unlink'
>;

export const realDisk: Disk = promises;

export const directoryMode = 0o755;

const hints: Readonly<Record<string, string>> = {
  EACCES: 'permission denied; the process must run as the owner of the directory (root)',
  EPERM: 'not permitted; the process must own the directory, and it must not be immutable',
  EBUSY: 'in use as a mount point; mount its parent directory instead',
  EDQUOT: 'the quota is used up; free some space there',
  EIO: 'the disk reports an I/O error; check the disk',
  EISDIR: 'is a directory where a file or link is wanted; move it away',
  ENAMETOOLONG: 'the name is too long for this file system; choose a shorter path',
  ENOSPC: 'no space left on the disk; free some space there',
  ENOTDIR: 'is not a directory, but one is wanted; move it away',
  EROFS: 'the file system is read-only; mount it writable',
  EXDEV: 'the directory spans two file systems; mount its parent directory as one',
};

/** Runs `call`, and makes sure that its failure carries `path` (calls on an open file do not say it). */
export async function onPath<T>(path: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (err) {
    if (err instanceof Error && !(err instanceof RecoveryError)) (err as NodeJS.ErrnoException).path ??= path;
    throw err;
  }
}

interface Attempt {
  readonly code: Extract<ErrorCode, 'WriteFailed' | 'ReadFailed'>;
  /** `publish`, `remove`, `read`: fills "Cannot <action> <what>". */
  readonly action: string;
  /** Kind and name of the object: `Secret "a/b"`. */
  readonly what: string;
  readonly directory: string;
}

/** Runs `call` and turns what the system says into an error of ours: object, path, state, what to do. */
export async function attempt<T>({ code, action, what, directory }: Attempt, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (err) {
    if (err instanceof RecoveryError) throw err;
    const path = (err as NodeJS.ErrnoException).path ?? directory;
    const system = systemCode(err) ?? 'unknown';
    const state = hints[system] ?? 'the call failed; check the path';
    const kept = code === 'WriteFailed' ? '; the last good files stay in use' : '';
    const message = `Cannot ${action} ${what}: "${path}": ${state} (${system})${kept}`;
    throw new RecoveryError(code, message, { cause: err, details: { path, system } });
  }
}

/** The result of `call`, or undefined when the path is not there. */
export async function unlessAbsent<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (err) {
    if (systemCode(err) === 'ENOENT') return undefined;
    throw err;
  }
}

/** Makes the entries of `directory` durable: names made, renamed and removed in it survive a power loss. */
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

/** A new file with durable content. Its mode is set before the content comes, because the umask may widen nothing but
 * narrow much, and a key must never lie in a file that others can read. */
export async function writeNewFile(disk: Disk, path: string, bytes: Uint8Array, mode: number): Promise<void> {
  await onPath(path, async () => {
    const handle = await disk.open(path, 'wx', 0o600);
    try {
      await handle.chmod(mode);
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close(); // close can report what fsync did not
    }
  });
}

/** Makes a directory and its missing parents, each durable in its own parent. */
export async function ensureDirectory(disk: Disk, directory: string): Promise<void> {
  const first = await disk.mkdir(directory, { recursive: true, mode: directoryMode });
  if (first === undefined) return;
  const made: string[] = [];
  for (let at = directory; at.length >= first.length; at = join(at, '..')) made.push(at);
  for (const path of made.toReversed()) {
    await disk.chmod(path, directoryMode); // umask
    await syncDirectory(disk, join(path, '..'));
  }
}
