// The one reader of observed files. Contents are held only during a read: the results are a digest for each file, and
// for the files of an artefact whether all exist and whether a certificate and its key belong together.
import { X509Certificate, createPrivateKey, hash } from 'node:crypto';
import { type Disk, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { systemCode } from '../errors.ts';
import { type ArtefactFiles, pathsOf } from '../inventory/places.ts';

export type SeenFile =
  | {
      readonly state: 'present';
      /** Empty where it is larger than a certificate or a key can be: one read holds the contents of all files. */
      readonly content: Uint8Array;
      /** SHA-256. */
      readonly digest: string;
      /** Time at which it was put in place (ctime), in milliseconds. */
      readonly changedMs: number;
    }
  | { readonly state: 'absent' }
  /** It exists, but is not readable now (EACCES, EIO, a directory): nothing may be concluded about its content. */
  | { readonly state: 'unreadable'; readonly code: string };

const mostAtOnce = 8;
const mostHeld = 256 * 1024;

/** Calls that a read needs of the file system; a test replaces one by a failing call. */
export type LookDisk = Pick<Disk, 'readFile' | 'stat'>;

export async function lookAtFiles(
  files: readonly string[],
  disk: LookDisk = realDisk,
): Promise<ReadonlyMap<string, SeenFile>> {
  const seen = new Map<string, SeenFile>();
  for (let at = 0; at < files.length; at += mostAtOnce) {
    const some = files.slice(at, at + mostAtOnce).map(async (file) => [file, await lookAtOne(file, disk)] as const);
    for (const [file, found] of await Promise.all(some)) seen.set(file, found);
  }
  return seen;
}

const nothing = new Uint8Array();

async function lookAtOne(file: string, disk: LookDisk): Promise<SeenFile> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const { ctimeMs } = await disk.stat(file); // before the content: a write in between is a change of its own
      const content = await readRegularFile(disk, file);
      const digest = hash('sha256', content);
      return { state: 'present', content: content.length > mostHeld ? nothing : content, digest, changedMs: ctimeMs };
    } catch (err) {
      const code = systemCode(err) ?? 'unknown';
      if (code !== 'ENOENT' && code !== 'ENOTDIR') return { state: 'unreadable', code };
      // A generation that is flipped and deleted while the kernel resolves the path fails once: read again.
      if (attempt === 2) return { state: 'absent' };
    }
  }
}

/** State of the files of one artefact together, as they are on disk now. */
export type FilesState =
  | 'complete'
  /** All are gone. */
  | 'absent'
  /** Half of a pair, or some of several files, are missing. */
  | 'partial'
  /** A certificate and a key that do not belong together, or that cannot be parsed: the writer is between the two. */
  | 'mismatched'
  | 'unreadable';

export interface Inspection {
  readonly state: FilesState;
  /** Digest over all contents; empty unless the state is `complete`. */
  readonly digest: string;
  /** Time at which the newest of the files was put in place, where the state is `complete`. */
  readonly changedAt?: Date;
}

const incomplete = (state: FilesState): Inspection => ({ state, digest: '' });

export async function inspectFiles(files: ArtefactFiles): Promise<Inspection> {
  return inspectSeen(files, await lookAtFiles(pathsOf(files)));
}

/** Inspects files that have been read. */
export function inspectSeen(files: ArtefactFiles, seen: ReadonlyMap<string, SeenFile>): Inspection {
  const all = pathsOf(files).map((path) => seen.get(path));
  if (all.some((file) => file?.state === 'unreadable')) return incomplete('unreadable');
  const present = all.flatMap((file) => (file?.state === 'present' ? [file] : []));
  if (present.length === 0) return incomplete('absent');
  if (present.length < all.length) return incomplete('partial');
  const [certificate, key] = present.map(({ content }) => content);
  if (files.kind === 'pair' && certificate !== undefined && key !== undefined && !belongTogether(certificate, key)) {
    return incomplete('mismatched');
  }
  const newest = Math.max(...present.map(({ changedMs }) => changedMs));
  const digest = hash('sha256', present.map((file) => file.digest).join());
  return { state: 'complete', digest, changedAt: new Date(Math.ceil(newest)) };
}

function belongTogether(certificate: Uint8Array, key: Uint8Array): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(Buffer.from(key)));
  } catch {
    return false; // cut off in the middle of a write, or broken: no reader would load it
  }
}

export type FileChange =
  /** `found`: present at the first read. */
  | {
      readonly change: 'found' | 'created' | 'changed';
      readonly path: string;
      readonly digest: string;
      readonly at: Date;
    }
  | { readonly change: 'removed'; readonly path: string; readonly at: Date };

/**
 * The last known digest of each file, `absent` for none; no entry: not read yet. An unreadable file leaves it
 * unchanged.
 */
export type Known = ReadonlyMap<string, string>;

/** Pure: the changes from the known to the present state, and the new known state. */
export function compareSeen(
  known: Known,
  seen: ReadonlyMap<string, SeenFile>,
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
    const { digest, changedMs } = file;
    next.set(path, digest);
    if (before === digest) continue;
    if (before !== undefined) {
      changes.push({ change: before === 'absent' ? 'created' : 'changed', path, digest, at: now });
      continue;
    }
    // A found file was put in place earlier, at its change time, unless the clock has been set back since.
    const at = new Date(Math.min(Math.round(changedMs), now.getTime()));
    changes.push({ change: 'found', path, digest, at });
  }
  return { changes, known: next };
}
