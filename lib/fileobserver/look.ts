// One look at a set of files: the SHA-256 of each, never its content. What a file is is decided here and nowhere else.
import { createHash } from 'node:crypto';
import * as promises from 'node:fs/promises';
import { readRegularFile } from '../disk/read.ts';
import { systemCode } from '../errors.ts';

export type Seen =
  | { readonly state: 'present'; readonly digest: string; readonly changedAt: Date }
  | { readonly state: 'absent' }
  /** There, but not readable now (EACCES, EIO, a directory): nothing may be concluded about its content. */
  | { readonly state: 'unreadable'; readonly code: string };

/** What a look needs of the file system; a test replaces one call by a failing one. */
export type Disk = Pick<typeof promises, 'readFile' | 'stat'>;

export const realDisk: Disk = promises;

export async function lookAt(files: readonly string[], disk: Disk = realDisk): Promise<ReadonlyMap<string, Seen>> {
  const seen = await Promise.all(files.map(async (file) => [file, await lookAtOne(file, disk)] as const));
  return new Map(seen);
}

async function lookAtOne(file: string, disk: Disk): Promise<Seen> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const { ctime } = await disk.stat(file);
      const digest = createHash('sha256')
        .update(await readRegularFile(disk, file))
        .digest('hex');
      return { state: 'present', digest, changedAt: ctime };
    } catch (err) {
      const code = systemCode(err) ?? 'unknown';
      if (code !== 'ENOENT' && code !== 'ENOTDIR') return { state: 'unreadable', code };
      // A generation that is flipped and deleted while the kernel walks the path ends here once: look again.
      if (attempt === 2) return { state: 'absent' };
    }
  }
}

export type FileChange =
  /** `found`: there at the first look. */
  | {
      readonly change: 'found' | 'created' | 'changed';
      readonly path: string;
      readonly digest: string;
      readonly at: Date;
    }
  | { readonly change: 'removed'; readonly path: string; readonly at: Date };

/** The last known digest of each file, `absent` for none; no entry: nothing yet. An unreadable file leaves it as it is. */
export type Known = ReadonlyMap<string, string>;

/** Pure: the changes from what was known to what is seen, and what is known then. */
export function compare(
  known: Known,
  seen: ReadonlyMap<string, Seen>,
  now: Date,
): { changes: FileChange[]; known: Known } {
  const changes: FileChange[] = [];
  const next = new Map(known);
  for (const [path, file] of seen) {
    const before = known.get(path);
    if (file.state === 'unreadable') continue;
    if (file.state === 'absent') {
      if (before !== undefined && before !== 'absent') changes.push({ change: 'removed', path, at: now });
      next.set(path, 'absent');
      continue;
    }
    next.set(path, file.digest);
    const { digest } = file;
    // A found file came into its place earlier, at its change time, unless the clock has been set back since.
    const came = file.changedAt < now ? file.changedAt : now;
    if (before === undefined) changes.push({ change: 'found', path, digest, at: came });
    else if (before === 'absent') changes.push({ change: 'created', path, digest, at: now });
    else if (before !== digest) changes.push({ change: 'changed', path, digest, at: now });
  }
  return { changes, known: next };
}
