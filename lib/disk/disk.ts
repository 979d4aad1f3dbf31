// The file system as this program uses it: a value, so that a test keeps the real disk and lets one call fail. Every
// failure is reported as WriteFailed or ReadFailed that names the object, the path, its state and the remedy.
import * as fs from 'node:fs';
import * as promises from 'node:fs/promises';
import { RecoveryError, systemCode, type ErrorCode } from '../errors.ts';
import { copyAttributes } from './attributes.ts';

/**
 * Calls that read names and modes, which takes microseconds once the kernel has them cached: a way to another thread
 * and back takes ten times as long, one scan of an object has twenty of them, and each waits for a processor while an
 * API server starts. None of them ever waits for another process, as `open` does for the writer of a FIFO.
 */
const looking = ['lstat', 'readdir', 'readlink', 'stat'] as const;

/** Calls that wait for content or for the journal of the file system, while other code runs. */
const waiting = [
  'chmod',
  'mkdir',
  'mkdtemp',
  'open',
  'readFile',
  'realpath',
  'rename',
  'rm',
  'symlink',
  'truncate',
  'unlink',
] as const;

export interface Disk extends Pick<typeof promises, (typeof looking)[number] | (typeof waiting)[number]> {
  readonly copyAttributes: typeof copyAttributes;
}

type Call = (...args: readonly unknown[]) => unknown;

export const realDisk: Disk = Object.fromEntries<unknown>([
  ...looking.map((name) => {
    const call = fs[`${name}Sync`] as Call;
    return [name, async (...args: readonly unknown[]) => call(...args)] as const;
  }),
  ...waiting.map((name) => [name, promises[name]] as const),
  ['copyAttributes', copyAttributes] as const,
]) as unknown as Disk;

const hints: Readonly<Record<string, string>> = {
  EACCES: 'permission denied; its mode or its owner shuts this process out, correct them (chmod, chown)',
  EPERM:
    'not permitted; the process must own the directory, which must be neither immutable nor append-only (lsattr -d, ' +
    'chattr -i -a)',
  EBUSY:
    'is a bind mount of its own (a single file mounted into a container), which cannot be replaced; mount its ' +
    'directory instead',
  EDQUOT: 'the quota is used up; free some space there',
  EIO: 'the disk reports an I/O error; check the disk',
  EISDIR: 'is a directory where a file or link is wanted; move it away',
  ELOOP: 'its symbolic links lead in a circle; correct them',
  ENAMETOOLONG: 'the name is too long for this file system; choose a shorter path',
  ENOENT: 'does not exist; create it or correct the path',
  ENOSPC: 'no space left on the disk; free some space there, or inodes (df -i)',
  ENOTDIR: 'is not a directory, but one is wanted; move it away',
  EROFS: 'the file system is read-only; mount it writable',
  EFBIG: 'is larger than 4 MiB, which nothing that belongs here is; move it away',
  ENOTREG: 'is a device, a FIFO or a socket where a file is wanted; move it, or the link to it, away',
  EEXIST: 'something else has that name; move it away',
  EXDEV: 'the directory spans two file systems; mount its parent directory as one',
};

/** The same failure with its own text about the state after it (`Attempt.remains`). */
export const remaining = (err: unknown, remains: string): unknown =>
  err instanceof Error ? Object.assign(err, { remains }) : err;

/** Runs `call`, and ensures that its failure carries `path` (calls on an open file do not). */
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
  /** Named where the failed call carries no path. */
  readonly directory: string;
  /** State after a failed write. Default: the last good files stay in use. */
  readonly remains?: string;
}

/** The remedy for a system error. A user other than root gets no advice to open files of root: a key is among them. */
export function hintOf(system: string, uid: number | undefined = process.getuid?.()): string {
  const isShutOut = system === 'EACCES' || system === 'EPERM';
  if (isShutOut && uid !== undefined && uid !== 0) return 'permission denied; run it as root';
  return hints[system] ?? 'the call failed; check the path';
}

/** Runs `call` and turns a system error into an error of ours: object, path, state, remedy. */
export async function attempt<T>(trying: Attempt, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (err) {
    if (err instanceof RecoveryError) throw err;
    const { code, action, what, directory } = trying;
    // The destination of a failed rename: the other path is a temporary file.
    const failure = err as NodeJS.ErrnoException & { readonly dest?: string; readonly remains?: string };
    const { path: first, dest } = failure;
    const path = dest ?? first ?? directory;
    const system = systemCode(err) ?? 'unknown';
    const state = hintOf(system);
    const remains =
      failure.remains ?? trying.remains ?? (code === 'WriteFailed' ? 'the last good files stay in use' : '');
    const message = `Cannot ${action} ${what}: "${path}": ${state} (${system})${remains === '' ? '' : `; ${remains}`}`;
    throw new RecoveryError(code, message, { cause: err, details: { path, system } });
  }
}

/** The result of `call`, or undefined when the path does not exist. */
export async function unlessAbsent<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (err) {
    if (systemCode(err) === 'ENOENT') return undefined;
    throw err;
  }
}

/**
 * The results of calls that run in parallel. It returns or throws (the first failure) once all of them have settled.
 */
export async function together<T>(running: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(running);
  return Promise.all(running);
}
