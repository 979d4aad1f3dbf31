// The store of artefacts that are files of this host. A live path is never absent and never half written: new content
// is complete and durable beside it before it takes the name. Two files cannot change their names in one step, so
// between the two renames a reader can meet a pair that does not match; a run that dies there is repaired by the next.
//
// write() in numbered steps:
//   1. refuse what is broken          5. write and sync a temporary file for each part
//   2. follow symbolic links          6. read again: a conflict when it is not what the caller saw
//   3. remove what a killed run left  7. rename the key, then the certificate
//   4. copy what is there now         8. sync the directories
import { createHash, randomBytes } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { RecoveryError, systemCode } from '../errors.ts';
import type { DiskLocation, Location } from '../inventory/model.ts';
import { backUp } from './disk-backup.ts';
import { diskError, ifPresent, realDisk } from './disk-calls.ts';
import type { DiskCalls, FileStatus } from './disk-calls.ts';
import { caBundleKey, certificateKey, locationText, privateKeyKey } from './store.ts';
import type { Entries, Found, Material, Store } from './store.ts';
import { verifyMaterial } from './verify.ts';

export interface DiskStoreOptions {
  /** Where replaced files are copied to; without it nothing is kept. */
  readonly backupDir?: string;
  /** Told of a copy that could not be kept; the write goes on. Must not throw. */
  readonly onBackupFailed?: (err: RecoveryError) => void;
  readonly disk?: DiskCalls;
}

/** One file of an artefact, in the order in which the files take their names. */
interface Part {
  readonly key: string;
  readonly file: string;
  /** Of a new file; an existing one keeps its own. */
  readonly mode: number;
}

interface Prepared extends Part {
  readonly temporary: string;
}

export function createDiskStore({ backupDir, onBackupFailed, disk = realDisk }: DiskStoreOptions = {}): Store {
  return {
    async read(location): Promise<Found | undefined> {
      return await readParts(disk, location, partsOf(diskLocation(location)));
    },

    async write(location, next, seen): Promise<'written' | 'conflict'> {
      const at = diskLocation(location);
      verifyMaterial(at, next); // 1
      try {
        const parts = await followLinks(disk, partsToWrite(at, next)); // 2
        for (const part of parts) await removeLeftovers(disk, part.file); // 3
        const before = await readParts(disk, location, partsOf(at));
        const expected = seen === 'absent' ? undefined : seen.version;
        if (before?.version !== expected) return 'conflict';
        if (backupDir !== undefined && before !== undefined) {
          const lost = await keep(disk, backupDir, at, before.entries); // 4
          if (lost !== undefined) onBackupFailed?.(lost);
        }
        return await replace({ disk, location, parts, next, before });
      } catch (err) {
        throw diskError('WriteFailed', `write ${locationText(location)}`, err);
      }
    },
  };
}

interface Replacement {
  readonly disk: DiskCalls;
  readonly location: Location;
  readonly parts: readonly Part[];
  readonly next: Material;
  readonly before: Found | undefined;
}

async function replace({ disk, location, parts, next, before }: Replacement): Promise<'written' | 'conflict'> {
  const prepared: Prepared[] = [];
  try {
    for (const part of parts) {
      const temporary = temporaryName(part.file);
      prepared.push({ ...part, temporary });
      const owner = await ownerOf(disk, part.file, parts);
      await writeDurably(disk, temporary, next.entries[part.key] ?? new Uint8Array(), { ...part, ...owner }); // 5
    }
    const now = await readParts(disk, location, partsOf(diskLocation(location))); // 6
    if (now?.version !== before?.version) {
      await discard(disk, prepared);
      return 'conflict';
    }
    await renameAll(disk, prepared, before); // 7
    for (const directory of new Set(parts.map((part) => dirname(part.file)))) await syncDirectory(disk, directory); // 8
    return 'written';
  } catch (err) {
    await discard(disk, prepared);
    throw err;
  }
}

/** Renames in order. When a later rename fails, what was renamed before it goes back: the last good pair stays. */
async function renameAll(disk: DiskCalls, prepared: readonly Prepared[], before: Found | undefined): Promise<void> {
  const done: Prepared[] = [];
  for (const part of prepared) {
    try {
      await disk.rename(part.temporary, part.file);
      done.push(part);
    } catch (err) {
      for (const { key, file, mode } of done) {
        const bytes = before?.entries[key];
        if (bytes === undefined) continue; // there was none: half a pair is seen as broken and made anew
        const temporary = temporaryName(file);
        await writeDurably(disk, temporary, bytes, { mode, ...(await ifPresent(disk.stat(file))) });
        await disk.rename(temporary, file);
      }
      throw err;
    }
  }
}

async function readParts(disk: DiskCalls, location: Location, parts: readonly Part[]): Promise<Found | undefined> {
  const entries: Record<string, Uint8Array> = {};
  const hash = createHash('sha256');
  for (const { key, file } of parts) {
    try {
      const bytes = await ifPresent(disk.readFile(file));
      if (bytes !== undefined) entries[key] = bytes;
      hash.update(`${key}:${bytes === undefined ? 'absent' : bytes.length}:`).update(bytes ?? new Uint8Array());
    } catch (err) {
      throw diskError('ReadFailed', `read ${locationText(location)}, file "${file}"`, err);
    }
  }
  if (Object.keys(entries).length === 0) return undefined;
  return { version: hash.digest('hex'), entries, annotations: {} };
}

async function writeDurably(
  disk: DiskCalls,
  path: string,
  bytes: Uint8Array,
  { mode, uid, gid }: { mode: number; uid?: number; gid?: number },
): Promise<void> {
  // Exclusive and 0600 from the first moment: nobody else can have the file open when the key is written into it.
  const handle = await disk.open(path, 'wx', 0o600);
  try {
    await handle.writeFile(bytes);
    const own = await handle.stat();
    if (uid !== undefined && gid !== undefined && (uid !== own.uid || gid !== own.gid)) await handle.chown(uid, gid);
    await handle.chmod(mode & 0o777); // after chown, which may clear bits, and not by open, which obeys the umask
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Mode and owner of the file that is replaced; a missing half of a pair belongs to the owner of the other half. */
async function ownerOf(disk: DiskCalls, file: string, parts: readonly Part[]): Promise<Partial<FileStatus>> {
  const own = await ifPresent(disk.stat(file));
  // A key that the world can read was an accident; a group (etcd's) is somebody's decision.
  const worldMask = parts.some((part) => part.file === file && part.key === privateKeyKey) ? 0o770 : 0o777;
  if (own !== undefined) return { mode: own.mode & worldMask, uid: own.uid, gid: own.gid };
  for (const other of parts) {
    const status = other.file === file ? undefined : await ifPresent(disk.stat(other.file));
    if (status !== undefined) return { uid: status.uid, gid: status.gid };
  }
  return {};
}

/** States of the backup directory that say nothing of the directory that is to be healed. */
const unusable: readonly (string | undefined)[] = ['ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EPERM', 'EIO'];

/** Why there is no copy, when its directory cannot be used at present: what is healed is worth more than the copy. */
async function keep(
  disk: DiskCalls,
  backupDir: string,
  at: DiskLocation,
  entries: Entries,
): Promise<RecoveryError | undefined> {
  try {
    await backUp(disk, backupDir, at.kind === 'pemPair' ? at.certFile : at.file, entries);
    return undefined;
  } catch (err) {
    const known = diskError('WriteFailed', `back up ${locationText(at)} to "${backupDir}"`, err);
    if (unusable.includes(systemCode(err))) return known;
    throw known;
  }
}

async function followLinks(disk: DiskCalls, parts: readonly Part[]): Promise<Part[]> {
  const followed: Part[] = [];
  for (const part of parts) {
    // A link that points nowhere is replaced by a file: then the path exists again.
    followed.push({ ...part, file: (await ifPresent(disk.realpath(part.file))) ?? part.file });
  }
  return followed;
}

const temporaryMark = '.kube-cert-recovery-';

function temporaryName(file: string): string {
  return join(dirname(file), `.${basename(file)}${temporaryMark}${randomBytes(6).toString('hex')}`);
}

async function removeLeftovers(disk: DiskCalls, file: string): Promise<void> {
  const directory = dirname(file);
  const names = await disk.readdir(directory);
  for (const name of names.filter((entry) => entry.startsWith(`.${basename(file)}${temporaryMark}`))) {
    await disk.rm(join(directory, name), { force: true });
  }
}

async function discard(disk: DiskCalls, prepared: readonly Prepared[]): Promise<void> {
  for (const { temporary } of prepared) {
    // The failure that led here is what counts; what stays behind is removed by the next write.
    await disk.rm(temporary, { force: true }).catch(() => undefined);
  }
}

async function syncDirectory(disk: DiskCalls, directory: string): Promise<void> {
  const handle = await disk.open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function diskLocation(location: Location): DiskLocation {
  if (location.kind === 'pemPair' || location.kind === 'pemFile') return location;
  throw new RecoveryError('ReadFailed', `Cannot use ${locationText(location)}: not a file of this host`);
}

function partsOf(location: DiskLocation): readonly Part[] {
  if (location.kind === 'pemFile') return [{ key: caBundleKey, file: location.file, mode: 0o644 }];
  return [
    { key: privateKeyKey, file: location.keyFile, mode: 0o600 },
    { key: certificateKey, file: location.certFile, mode: 0o644 },
  ];
}

function partsToWrite(location: DiskLocation, next: Material): readonly Part[] {
  const parts = partsOf(location);
  const unknown = Object.keys(next.entries).find((key) => !parts.some((part) => part.key === key));
  if (unknown !== undefined) {
    throw new RecoveryError(
      'MaterialInvalid',
      `Cannot write ${locationText(location)}: it has no place for "${unknown}"`,
    );
  }
  return parts.filter((part) => part.key in next.entries);
}
