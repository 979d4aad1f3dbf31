// Files take new content so that no path is ever absent or half written: complete and durable under another name first,
// then one rename each, in the given order. A file that is a link to dated files, as the kubelet keeps its identity
// (client-go util/certificate/certificate_store.go), gets a new dated file and the link is flipped.
import { basename, dirname, join } from 'node:path';
import { type Disk, onPath, remaining, together, unlessAbsent } from '../disk/disk.ts';
import { RecoveryError } from '../errors.ts';
import {
  ensureDirectory,
  groupReads,
  type Ownership,
  readRegularFile,
  removeLeftovers,
  syncAll,
  syncDirectory,
  temporaryName,
  writeNewFile,
} from '../disk/files.ts';
import { datedName, finalTarget, flip, type Link, lastLink, pruneDated } from './dated-files.ts';
import type { Change } from './disk-layout.ts';

/** Place of a change, and the content there until then. */
export interface Placement {
  readonly change: Change;
  /** The file that gets the name: through links where there are any, or a new dated file. */
  readonly file: string;
  readonly temporary: string;
  readonly before: Uint8Array | undefined;
  readonly link?: Link;
}

/** Finds the place of every change, and removes leftovers of killed runs there. `now` dates a new file. */
export async function placeAll(disk: Disk, changes: readonly Change[], now: Date): Promise<Placement[]> {
  return together(changes.map(async (change) => onPath(change.file, () => place(disk, change, now))));
}

async function place(disk: Disk, change: Change, now: Date): Promise<Placement> {
  const link = change.dated === true ? await lastLink(disk, change.file) : undefined;
  const before = await unlessAbsent(() => readRegularFile(disk, change.file));
  if (link === undefined) {
    const file = (await unlessAbsent(() => disk.realpath(change.file))) ?? (await missingTarget(disk, change.file));
    await removeLeftovers(disk, file);
    return { change, file, temporary: temporaryName(file), before };
  }
  await ensureDirectory(disk, link.directory);
  const beside = join(link.directory, basename(link.path));
  for (const path of new Set([beside, link.path])) await removeLeftovers(disk, path);
  const file = await datedName(disk, link, now);
  return { change, file, temporary: temporaryName(beside), before, link };
}

/** Path for an absent file: a link is followed, because an administrator has made it. Throws WriteFailed. */
async function missingTarget(disk: Disk, file: string): Promise<string> {
  const target = await finalTarget(disk, file);
  if (target === file || (await unlessAbsent(() => disk.stat(dirname(target)))) !== undefined) return target;
  throw new RecoveryError(
    'WriteFailed',
    `Cannot write "${file}": it is a link to "${target}", whose directory does not exist; mount the disk that ` +
      'holds it, or correct the link',
  );
}

interface Preparing {
  readonly onAttributesLost: (err: unknown) => void;
  /** Owner and mode of the last backup of a file, for an absent file. */
  readonly formerOwner: (file: string) => Promise<Ownership | undefined>;
}

/** Writes every temporary file, durably. */
export async function prepareAll(
  disk: Disk,
  placements: readonly Placement[],
  { onAttributesLost, formerOwner }: Preparing,
): Promise<void> {
  const write = async ({ change, file, temporary, before, link }: Placement): Promise<void> => {
    const owner = (await ownerOf(disk, change, before)) ?? (await ownerOfAbsent(disk, change, placements, formerOwner));
    // A dated file is a new one, private as the kubelet makes it.
    const { mode: _mode, like: _like, ...whose } = owner;
    const wanted = link === undefined ? { ...owner, onAttributesLost } : { ...whose, mode: 0o600 };
    await writeNewFile(disk, temporary, change.bytes, wanted).catch((err: unknown) => {
      throw ofItsPlace(err, temporary, file);
    });
  };
  await together(placements.map(write));
}

/** Names the final file in the error: a temporary name differs at each try, and the same failure again is no news. */
function ofItsPlace(err: unknown, temporary: string, file: string): unknown {
  const failure = err as NodeJS.ErrnoException;
  if (failure.path === temporary) failure.path = file;
  return failure;
}

/** Ownership of the file that is replaced, by itself; undefined when it is absent. */
async function ownerOf(
  disk: Disk,
  { file, secret }: Change,
  before: Uint8Array | undefined,
): Promise<Ownership | undefined> {
  const own = await unlessAbsent(() => disk.stat(file));
  if (own === undefined) return undefined;
  const { uid, gid } = own;
  // Who may read a key is an administrator's decision (etcd's user, a monitor), and kubeadm keeps it. That the world
  // may write a key is an accident, and for a file without a key, such as a file that a shell has emptied, nothing is
  // decided: then no mode is copied, because the new file must not be open to the world for a moment.
  if (secret && (own.mode & worldWrites) !== 0) return { mode: own.mode & 0o700, uid, gid };
  if (secret && (own.mode & world) !== 0 && !holdsKey(before)) return { mode: own.mode & 0o770, uid, gid };
  return { mode: own.mode & 0o777, uid, gid, like: await disk.realpath(file) };
}

const worldWrites = 0o002;
const world = 0o007;

/** Whether it holds a key in PEM, or the field of a kubeconfig that holds or names a key. */
const holdsKey = (bytes: Uint8Array | undefined): boolean =>
  bytes !== undefined && /PRIVATE KEY-----|\bclient-key/.test(Buffer.from(bytes).toString('latin1'));

/**
 * Ownership for an absent file: of the other half of a pair, else of the backup, else of the directory, which may
 * belong to etcd's own user.
 */
async function ownerOfAbsent(
  disk: Disk,
  { file, mode }: Change,
  all: readonly Placement[],
  formerOwner: Preparing['formerOwner'],
): Promise<Ownership> {
  for (const { change } of all) {
    const other = change.file === file ? undefined : await unlessAbsent(() => disk.stat(change.file));
    if (other !== undefined) return { mode, uid: other.uid, gid: other.gid };
  }
  const former = await formerOwner(file);
  // Backups of earlier versions all belong to root.
  if (former !== undefined && (former.uid !== 0 || former.gid !== 0)) {
    return { ...former, mode: mode | (former.mode & groupReads) };
  }
  const directory = dirname(await finalTarget(disk, file));
  const above = await unlessAbsent(() => disk.stat(directory));
  return above === undefined || above.uid === 0 ? { mode } : { mode, uid: above.uid, gid: above.gid };
}

/**
 * Renames in order, then syncs. When a rename fails, the files renamed before go back: the last good content stays. A
 * file that cannot go back does not hide that failure, and does not keep other files from going back.
 */
export async function commitAll(disk: Disk, placements: readonly Placement[]): Promise<void> {
  const made: Placement[] = [];
  try {
    for (const placement of placements) await commit(disk, placement, () => void made.push(placement));
  } catch (err) {
    const stuck: string[] = [];
    for (const each of made.toReversed()) {
      await takeBack(disk, each).catch(() => {
        if (each.link === undefined) stuck.push(each.change.file); // a link still leads to the former file
      });
    }
    throw stuck.length === 0 ? err : remaining(err, halfWritten(stuck));
  }
  const directories = placements.flatMap(({ file, link }) => [dirname(file), ...(link ? [dirname(link.path)] : [])]);
  await syncAll(disk, directories).catch((err: unknown) => {
    throw remaining(err, 'the new files are in use, and a power loss may bring the former ones back');
  });
  for (const { link, file } of placements) if (link !== undefined) await pruneDated(disk, link, file);
}

const halfWritten = (files: readonly string[]): string =>
  `${files.map((file) => `"${file}"`).join(', ')} cannot be taken back: certificate and key do not match until the next run`;

/** `named`: called once there is something to undo. */
async function commit(disk: Disk, { file, temporary, link }: Placement, named: () => void): Promise<void> {
  await onPath(file, () => disk.rename(temporary, file));
  named();
  if (link === undefined) return;
  await syncDirectory(disk, dirname(file)); // a link must not survive a power loss that its target does not
  await flip(disk, link, link.relative ? basename(file) : file);
}

async function takeBack(disk: Disk, { change, file, before, link }: Placement): Promise<void> {
  if (link === undefined) {
    if (before === undefined) return; // there was none: half a pair is detected as broken, and reissued
    const temporary = temporaryName(file);
    try {
      await writeNewFile(disk, temporary, before, (await ownerOf(disk, change, before)) ?? { mode: change.mode });
      await disk.rename(temporary, file);
    } catch (err) {
      await disk.rm(temporary, { force: true });
      throw err;
    }
    return;
  }
  const leadsHere = async (): Promise<boolean> =>
    (await unlessAbsent(() => disk.realpath(link.path))) === (await disk.realpath(file));
  if (link.value !== undefined && (await leadsHere())) await flip(disk, link, link.value);
  if (!(await leadsHere())) await disk.rm(file, { force: true });
}

/**
 * Removes temporary files that did not take their names. The failure that led here counts; the next write removes the
 * rest. Where no file can be removed (a directory that may only be appended to, chattr(1)), at least no key stays
 * behind.
 */
export async function discardAll(disk: Disk, placements: readonly Placement[]): Promise<void> {
  for (const { temporary } of placements) {
    await disk
      .rm(temporary, { force: true })
      .catch(() => disk.truncate(temporary))
      .catch(() => undefined);
  }
}
