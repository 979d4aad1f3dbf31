// The calls of node:fs/promises that the disk store makes, as a value: tests keep the real disk and let one call fail.
import { mkdir, open, readFile, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { RecoveryError, systemCode } from '../errors.ts';
import type { ErrorCode } from '../errors.ts';

export interface DiskCalls {
  readonly mkdir: typeof mkdir;
  readonly open: typeof open;
  readonly readFile: (path: string) => Promise<Uint8Array>;
  readonly readdir: (path: string) => Promise<string[]>;
  readonly realpath: (path: string) => Promise<string>;
  readonly rename: typeof rename;
  readonly rm: typeof rm;
  readonly stat: (path: string) => Promise<FileStatus>;
}

export interface FileStatus {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

export const realDisk: DiskCalls = {
  mkdir,
  open,
  readFile: (path) => readFile(path),
  readdir: (path) => readdir(path),
  realpath: (path) => realpath(path),
  rename,
  rm,
  stat: (path) => stat(path),
};

const hints: Readonly<Record<string, string>> = {
  ENOSPC: 'the file system is full; make room',
  EDQUOT: 'the quota is used up; make room',
  EROFS: 'the file system is read-only; mount it writable',
  EACCES: 'permission denied; run as the owner of the files',
  EPERM: 'operation not permitted; run as the owner of the files',
  ENOENT: 'the directory does not exist; create it or correct the path',
  ENOTDIR: 'a part of the path is not a directory; correct the path',
  EISDIR: 'a directory is in its place; correct the path',
};

/** The error of a failed call, which names what was tried, the path, and what to do. */
export function diskError(code: ErrorCode, action: string, err: unknown): RecoveryError {
  if (err instanceof RecoveryError) return err;
  const system = systemCode(err) ?? 'unknown error';
  return new RecoveryError(code, `Cannot ${action}: ${hints[system] ?? system} (${system})`, {
    cause: err,
    details: { system },
  });
}

/** The value of a call, or undefined when the path does not exist. */
export async function ifPresent<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (err) {
    if (systemCode(err) === 'ENOENT') return undefined;
    throw err;
  }
}
