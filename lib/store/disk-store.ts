// The store of artefacts that are files of this host. A live path is never absent and never half written: new content
// is complete and durable next to it before it takes the name. Two files cannot change their names in one step, so
// between two renames a reader can meet a pair that does not match; a run that dies there is repaired by the next.
// write() in numbered steps:
// 1. refuse broken material
// 2. read: a conflict when it differs from the state that the caller saw
// 3. follow links, remove leftovers of killed runs
// 4. copy the present files, write and sync temporary files
// 5. read again: a conflict when it is not the same
// 6. rename in order, the key before the certificate
// 7. sync the directories
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { systemClock } from '../clock.ts';
import { attempt, type Disk, hintOf, onPath, realDisk, together, unlessAbsent } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { unlessInvalid } from '../pki/pem.ts';
import type { DiskLocation, Endpoints, Location } from '../inventory/model.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { BackupDirectory, type Files, type Owners } from './backup-directory.ts';
import { withDirectories } from './bundle-directory.ts';
import { type Change, type Layout, lookingAt, type Part, unseenParts } from './disk-layout.ts';
import { commitAll, discardAll, type Placement, placeAll, prepareAll } from './disk-replace.ts';
import { bothRoles, requireOwn } from './others-content.ts';
import { layoutOf } from './layouts.ts';
import { inTurn, type Owner, refuseFilesOfOthers, refuseOneFile } from './shared-files.ts';
import { type Entries, locationText, verifyMaterial, type Found, type Store } from './store.ts';
import { filesOf, isFile, pathOf } from '../inventory/places.ts';
import { caBundleKey, certificateKey } from '../inventory/content.ts';

export interface DiskStoreOptions {
  /** Directory for backups of replaced files; without it none are kept. */
  readonly backupDir?: string;
  /** Called for a backup that could not be written or read; the write goes on. Must not throw. */
  readonly onBackupFailed?: (err: RecoveryError) => void;
  /** Called for a file that could not get all attributes of its predecessor; the write goes on. Must not throw. */
  readonly onAttributesLost?: (err: RecoveryError) => void;
  /** Servers for a kubeconfig that is made from nothing. */
  readonly endpoints?: Endpoints | undefined;
  /** All artefacts of the inventory: files of another artefact are never written. Default: only this one is known. */
  readonly owners?: readonly Owner[];
  readonly disk?: Disk;
  /** Clock that dates a new file of a kubelet's identity. */
  readonly now?: () => Date;
}

export function createDiskStore(options: DiskStoreOptions = {}): Store {
  /** Undefined for a backup that cannot be read. */
  async function newestBackup({ location, backups }: DiskArtefact): Promise<readonly Part[] | undefined> {
    const reading = { code: 'ReadFailed', action: 'read', what: `backup of ${locationText(location)}` } as const;
    try {
      const files = await attempt({ ...reading, directory: options.backupDir ?? '' }, async () => backups?.newest());
      return files === undefined ? undefined : keptParts(files);
    } catch (err) {
      report(options.onBackupFailed, err);
      return undefined;
    }
  }

  const files: Store = {
    async read(location): Promise<Found | undefined> {
      const artefact = artefactAt(diskLocation(location), options);
      const parts = await lookAt(artefact).catch((err: unknown) => noFile(artefact.location, err));
      if ('foreign' in parts) return parts;
      const found = foundIn(artefact.layout, parts);
      return found === undefined ? undefined : { ...found, changedAt: await lastChange(artefact.disk, parts) };
    },

    async write(location, next, seen): Promise<'written' | 'conflict'> {
      const at = diskLocation(location);
      verifyMaterial(at, next); // 1
      const artefact = artefactAt(at, options);
      const parts = await lookAt(artefact); // 2
      const expected = seen === 'absent' ? undefined : seen.version;
      if (foundIn(artefact.layout, parts)?.version !== expected) return 'conflict';
      const changes = await artefact.layout.change(next.entries, parts, () => newestBackup(artefact));
      requireReadable(artefact, parts, changes);
      const all = { ...artefact, layout: lookingAt(artefact.layout, changes) };
      const seenNow = await lookAt(all);
      const unseen = unseenParts(seenNow);
      if (digestOf(seenNow.slice(0, parts.length)) !== digestOf(parts)) return 'conflict';
      requireOwn(at, unseen, bothRoles);
      return replaceParts(all, { parts: seenNow, changes }, options);
    },

    async backup(location): Promise<Found | undefined> {
      const artefact = artefactAt(diskLocation(location), options);
      const parts = await newestBackup(artefact);
      return parts === undefined ? undefined : foundIn(artefact.layout, parts);
    },
  };
  return withDirectories(files, options.disk);
}

/** An artefact of this host: its layout, and where its backups are kept. */
export interface DiskArtefact {
  readonly location: DiskLocation;
  readonly layout: Layout;
  readonly disk: Disk;
  readonly backups: BackupDirectory | undefined;
}

type ArtefactOptions = Pick<DiskStoreOptions, 'disk' | 'backupDir' | 'endpoints'>;

export function artefactAt(
  location: DiskLocation,
  options: ArtefactOptions & { readonly backupDir: string },
): DiskArtefact & { readonly backups: BackupDirectory };
export function artefactAt(location: DiskLocation, options: ArtefactOptions): DiskArtefact;
export function artefactAt(
  location: DiskLocation,
  { disk = realDisk, backupDir, endpoints }: ArtefactOptions,
): DiskArtefact {
  const layout = layoutOf(location, endpoints);
  const isUsable = (files: Files): boolean => canBeUnderstood(location, layout, files);
  const path = pathOf(location);
  const backups = backupDir === undefined ? undefined : new BackupDirectory({ disk, backupDir, path, isUsable });
  return { location, layout, disk, backups };
}

interface Replacement {
  /** Present files, as seen. */
  readonly parts: readonly Part[];
  readonly changes: readonly Change[];
  /** The backup that is restored. Default: the newest backup determines the owner of absent files. */
  readonly generation?: string;
}

/** Steps 3 to 7, of a write and of a restore. Throws WriteFailed. */
export async function replaceParts(
  artefact: DiskArtefact,
  { parts, changes, generation }: Replacement,
  options: DiskStoreOptions,
): Promise<'written' | 'conflict'> {
  const { disk, location, backups } = artefact;
  const { owners = [], now = () => systemClock.now() } = options;
  const preparing = {
    onAttributesLost: (err: unknown) => report(options.onAttributesLost, err),
    async formerOwner(file: string) {
      const role = parts.find((part) => part.file === file)?.role;
      // An unreadable backup has no owner.
      return role === undefined ? undefined : backups?.ownerOf(role, generation).catch(() => undefined);
    },
  };
  const writing = { code: 'WriteFailed', action: 'write', what: locationText(location) } as const;
  const files = changes.map(({ file }) => file);
  const replace = async (): Promise<'written' | 'conflict'> => {
    let placements: readonly Placement[] = [];
    try {
      placements = await placeAll(disk, changes, now()); // 3
      await refuseOneFile(disk, { location, placements });
      await refuseFilesOfOthers(disk, { location, placements, owners });
      await together([keep(artefact, parts, options), prepareAll(disk, placements, preparing)]); // 4
      const present = await lookAt(artefact); // 5
      if (digestOf(present) !== digestOf(parts)) {
        await discardAll(disk, placements);
        return 'conflict';
      }
      await commitAll(disk, placements); // 6, 7
      return 'written';
    } catch (err) {
      await discardAll(disk, placements);
      throw err;
    }
  };
  return attempt({ ...writing, directory: dirname(pathOf(location)) }, () => inTurn(disk, files, replace));
}

/** Backs up the present files. A failed backup is reported: the repair matters more. */
async function keep(artefact: DiskArtefact, parts: readonly Part[], options: DiskStoreOptions): Promise<void> {
  const { disk, location, backups } = artefact;
  const { backupDir = '', onBackupFailed } = options;
  const present = parts.filter(({ bytes, foreign }) => bytes !== undefined && foreign !== true);
  if (backups === undefined || present.length === 0) return;
  const files = new Map(present.map(({ role, bytes }) => [role, bytes ?? new Uint8Array()]));
  const what = `${locationText(location)} to "${backupDir}"`;
  try {
    await attempt({ code: 'WriteFailed', action: 'back up', what, directory: backupDir, remains: '' }, async () =>
      backups.keep(files, await ownersOf(disk, present)),
    );
  } catch (err) {
    report(onBackupFailed, err);
  }
}

async function ownersOf(disk: Disk, parts: readonly Part[]): Promise<Owners> {
  const owners = parts.map(async ({ role, file }) => {
    const { mode, uid, gid } = await disk.stat(file);
    return [role, { mode, uid, gid }] as const;
  });
  return new Map(await Promise.all(owners));
}

/** Reports a state of the disk; throws a fault of this program. */
function report(to: ((err: RecoveryError) => void) | undefined, err: unknown): void {
  if (!(err instanceof RecoveryError)) throw err;
  to?.(err);
}

export async function lookAt({ disk, location, layout }: DiskArtefact): Promise<readonly Part[]> {
  const what = locationText(location);
  const directory = dirname(pathOf(location));
  const read = async (file: string): Promise<Uint8Array | undefined> =>
    unlessAbsent(() => onPath(file, () => readRegularFile(disk, file)));
  return attempt({ code: 'ReadFailed', action: 'read', what, directory }, () => layout.look(read));
}

/** Checks our own output: what cannot be read again here could never be renewed. Throws WriteFailed. */
function requireReadable({ location, layout }: DiskArtefact, parts: readonly Part[], changes: readonly Change[]): void {
  const bytesOf = (file: string): Uint8Array | undefined => changes.find((change) => change.file === file)?.bytes;
  const next = layout.understand(parts.map((part) => ({ ...part, bytes: bytesOf(part.file) ?? part.bytes })));
  const problem = next?.foreign ?? next?.problem;
  if (problem === undefined) return;
  throw new RecoveryError(
    'WriteFailed',
    `Cannot write ${locationText(location)}: it could not be read again; ${problem}`,
  );
}

const notFiles: ReadonlySet<string> = new Set(['EISDIR', 'ENOTREG', 'EFBIG']);

/**
 * An object in the place of a file that is no file, or is larger than any of ours: foreign, like all unknown content.
 * Throws other errors.
 */
function noFile(location: DiskLocation, err: unknown): Found & Required<Pick<Found, 'foreign'>> {
  const { path = '', system = '' } = err instanceof RecoveryError ? (err.details ?? {}) : {};
  if (!isCode(err, 'ReadFailed') || !notFiles.has(String(system))) throw err;
  const [state = ''] = hintOf(String(system)).split(';');
  const foreign = `${locationText(location)} is left alone: "${String(path)}" ${state}`;
  return { entries: {}, annotations: {}, version: foreign, foreign, isOtherDocument: true };
}

/**
 * Last change by ctime: a copy that keeps the dates of its original has a new one all the same. Undefined where
 * unknown.
 */
async function lastChange(disk: Disk, parts: readonly Part[]): Promise<Date | undefined> {
  const present = parts.filter(({ bytes }) => bytes !== undefined);
  const stats = await Promise.all(present.map(({ file }) => disk.stat(file).catch(() => undefined)));
  const times = stats.flatMap((known) => known?.ctimeMs ?? []);
  return times.length === 0 ? undefined : new Date(Math.max(...times));
}

function foundIn(layout: Layout, parts: readonly Part[]): Found | undefined {
  const understood = layout.understand(parts);
  return understood === undefined ? undefined : { ...understood, version: digestOf(parts), annotations: {} };
}

function digestOf(parts: readonly Part[]): string {
  const hash = createHash('sha256');
  for (const { file, bytes } of parts) {
    hash.update(`${file}:${bytes === undefined ? 'absent' : bytes.length}:`).update(bytes ?? new Uint8Array());
  }
  return hash.digest('hex');
}

/** A backup as parts, without paths on this host. */
export const keptParts = (files: Files): readonly Part[] =>
  [...files].map(([role, bytes]) => ({ role, file: role, bytes }));

function canBeUnderstood(location: DiskLocation, layout: Layout, files: Files): boolean {
  const understood = layout.understand(keptParts(files));
  if (understood === undefined || understood.problem !== undefined || understood.foreign !== undefined) return false;
  return unlessInvalid(() => mainCertificates(location, understood.entries)) !== undefined;
}

/**
 * Certificates of the entry that determines how long an artefact is valid; undefined without that entry. Blocks of
 * others beside them are accepted where a write accepts them. Throws MaterialInvalid.
 */
export function mainCertificates(location: DiskLocation, entries: Entries): readonly Certificate[] | undefined {
  const entry = filesOf(location)[0]?.entry ?? certificateKey;
  const pem = entries[entry];
  return pem && parseCertificates(pem, locationText(location), entry === caBundleKey ? 'unread' : 'skipped');
}

function diskLocation(location: Location): DiskLocation {
  if (isFile(location)) return location;
  throw new RecoveryError('ReadFailed', `Cannot use ${locationText(location)}: not a file of this host`);
}
