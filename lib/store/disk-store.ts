// The store of artefacts that are files of this host. A live path is never absent and never half written: new content
// is complete and durable beside it before it takes the name. Two files cannot change their names in one step, so
// between two renames a reader can meet a pair that does not match; a run that dies there is repaired by the next.
//
// write() in numbered steps:
//   1. refuse what is broken                       4. copy what is there now, write and sync temporary files
//   2. read: a conflict when it is not what        5. read again: a conflict when it is not the same
//      the caller saw                              6. rename in order, the key before the certificate
//   3. follow links, remove what killed runs left  7. sync the directories
import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { systemClock } from '../clock.ts';
import { attempt, type Disk, onPath, realDisk, together, unlessAbsent } from '../disk/disk.ts';
import { readRegularFile } from '../disk/read.ts';
import { RecoveryError } from '../errors.ts';
import type { DiskLocation, Endpoints, Location } from '../inventory/model.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { combinedPemLayout } from './combined-pem.ts';
import { backUp, type Files, keptOwner, newestGeneration, type Owners } from './disk-backup.ts';
import type { Change, Layout, Part } from './disk-layout.ts';
import { commitAll, discardAll, type Placement, placeAll, prepareAll, type Preparing } from './disk-replace.ts';
import { kubeconfigLayout } from './kubeconfig.ts';
import { pemFileLayout, pemPairLayout } from './pem-files.ts';
import { type Owner, refuseFilesOfOthers } from './shared-files.ts';
import { caBundleKey, certificateKey, locationText } from './store.ts';
import type { Found, Store } from './store.ts';
import { verifyMaterial } from './verify-material.ts';
import { isFile } from '../inventory/places.ts';

export interface DiskStoreOptions {
  /** Where replaced files are copied to; without it nothing is kept. */
  readonly backupDir?: string;
  /** Told of a copy that could not be kept or read; the write goes on. Must not throw. */
  readonly onBackupFailed?: (err: RecoveryError) => void;
  /** Told of a file that could not get all that the one before it had; the write goes on. Must not throw. */
  readonly onAttributesLost?: (err: RecoveryError) => void;
  /** The server that a kubeconfig names which has to be made from nothing. */
  readonly endpoints?: Endpoints | undefined;
  /** All artefacts of the inventory: what belongs to another one is never written. Default: only this one is known. */
  readonly owners?: readonly Owner[];
  readonly disk?: Disk;
  /** Dates a new file of a kubelet's identity. */
  readonly now?: () => Date;
}

export function createDiskStore(options: DiskStoreOptions = {}): Store {
  const { backupDir, endpoints, disk = realDisk } = options;

  /** One that cannot be read is none. */
  async function newestBackup(location: DiskLocation): Promise<readonly Part[] | undefined> {
    if (backupDir === undefined) return undefined;
    const shelf = { disk, backupDir, path: artefactPath(location) };
    const what = `backup of ${locationText(location)}`;
    try {
      const files = await attempt({ ...reading(location), what, directory: backupDir }, () =>
        newestGeneration(shelf, isUsable(location, layoutOf(location, endpoints))),
      );
      return files === undefined ? undefined : keptParts(files);
    } catch (err) {
      tell(options.onBackupFailed, err);
      return undefined;
    }
  }

  return {
    async read(location): Promise<Found | undefined> {
      const at = diskLocation(location);
      const layout = layoutOf(at, endpoints);
      const parts = await lookAt(disk, at, layout);
      const found = foundIn(layout, parts);
      return found === undefined ? undefined : { ...found, ...(await lastChange(disk, parts)) };
    },

    async write(location, next, seen): Promise<'written' | 'conflict'> {
      const at = diskLocation(location);
      verifyMaterial(at, next); // 1
      const layout = layoutOf(at, endpoints);
      const parts = await lookAt(disk, at, layout); // 2
      const expected = seen === 'absent' ? undefined : seen.version;
      if (foundIn(layout, parts)?.version !== expected) return 'conflict';
      const changes = await layout.change(next.entries, parts, () => newestBackup(at));
      return replaceParts({ ...options, location: at, layout, parts, changes });
    },

    async backup(location): Promise<Found | undefined> {
      const at = diskLocation(location);
      const parts = await newestBackup(at);
      return parts === undefined ? undefined : foundIn(layoutOf(at, endpoints), parts);
    },
  };
}

interface Replacement extends DiskStoreOptions {
  readonly location: DiskLocation;
  readonly layout: Layout;
  /** What is there, as it was seen. */
  readonly parts: readonly Part[];
  readonly changes: readonly Change[];
  /** The backup that is put back. Default: the newest tells whose the files were that are not there. */
  readonly generation?: string;
}

/** Steps 3 to 7, for whoever has files to put in place. Throws WriteFailed. */
export async function replaceParts(replacement: Replacement): Promise<'written' | 'conflict'> {
  const { disk = realDisk, now = () => systemClock.now(), location, layout, parts, changes } = replacement;
  const writing = { code: 'WriteFailed', action: 'write', what: locationText(location) } as const;
  return attempt({ ...writing, directory: dirname(artefactPath(location)) }, async () => {
    let placements: readonly Placement[] = [];
    try {
      placements = await placeAll(disk, changes, now()); // 3
      await refuseFilesOfOthers(disk, { location, placements, owners: replacement.owners ?? [] });
      await together([keep(replacement), prepareAll(disk, placements, preparing(replacement))]); // 4
      const present = await lookAt(disk, location, layout); // 5
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
  });
}

function preparing({
  disk = realDisk,
  backupDir,
  onAttributesLost,
  location,
  parts,
  generation,
}: Replacement): Preparing {
  return {
    onAttributesLost: (err) => tell(onAttributesLost, err),
    async formerOwner(file) {
      const role = parts.find((part) => part.file === file)?.role;
      if (backupDir === undefined || role === undefined) return undefined;
      // One that cannot be read is none.
      return keptOwner({ disk, backupDir, path: artefactPath(location) }, role, generation).catch(() => undefined);
    },
  };
}

/** Copies what is there. What is healed is worth more than the copy: that one could not be made is told. */
async function keep({ disk = realDisk, backupDir, onBackupFailed, ...rest }: Replacement): Promise<void> {
  const { location, layout, parts } = rest;
  const present = parts.filter(({ bytes, foreign }) => bytes !== undefined && foreign !== true);
  if (backupDir === undefined || present.length === 0) return;
  const files = new Map(present.map(({ role, bytes }) => [role, bytes ?? new Uint8Array()]));
  const what = `${locationText(location)} to "${backupDir}"`;
  const shelf = { disk, backupDir, path: artefactPath(location) };
  try {
    await attempt({ code: 'WriteFailed', action: 'back up', what, directory: backupDir, remains: '' }, async () =>
      backUp(shelf, files, isUsable(location, layout), await ownersOf(disk, present)),
    );
  } catch (err) {
    tell(onBackupFailed, err);
  }
}

async function ownersOf(disk: Disk, parts: readonly Part[]): Promise<Owners> {
  const owners = parts.map(async ({ role, file }) => {
    const { mode, uid, gid } = await disk.stat(file);
    return [role, { mode, uid, gid }] as const;
  });
  return new Map(await Promise.all(owners));
}

/** Throws what is a fault of this program and no state of the disk. */
function tell(told: ((err: RecoveryError) => void) | undefined, err: unknown): void {
  if (!(err instanceof RecoveryError)) throw err;
  told?.(err);
}

export async function lookAt(disk: Disk, location: DiskLocation, layout: Layout): Promise<readonly Part[]> {
  const read = async (file: string): Promise<Uint8Array | undefined> =>
    unlessAbsent(() => onPath(file, () => readRegularFile(disk, file)));
  return attempt(reading(location), () => layout.look(read));
}

const reading = (location: DiskLocation) =>
  ({
    code: 'ReadFailed',
    action: 'read',
    what: locationText(location),
    directory: dirname(artefactPath(location)),
  }) as const;

/** By ctime: a copy that keeps the dates of its original has a new one all the same. */
async function lastChange(disk: Disk, parts: readonly Part[]): Promise<Pick<Found, 'changedAt'>> {
  const times = await Promise.all(
    parts.map(async ({ file, bytes }) =>
      bytes === undefined
        ? undefined
        : disk.stat(file).then(
            ({ ctimeMs }) => ctimeMs,
            () => undefined,
          ),
    ),
  );
  const known = times.filter((time): time is number => time !== undefined);
  return known.length === 0 ? {} : { changedAt: new Date(Math.max(...known)) };
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

/** A backup as parts: their places on this host are the business of whoever puts them back. */
export const keptParts = (files: Files): readonly Part[] =>
  [...files].map(([role, bytes]) => ({ role, file: role, bytes }));

/** Whether a backup can be understood: at the least its certificates parse. */
function isUsable(location: DiskLocation, layout: Layout): (files: Files) => boolean {
  return (files) => {
    const understood = layout.understand(keptParts(files));
    const pem = understood?.entries[location.kind === 'pemFile' ? caBundleKey : certificateKey];
    if (understood?.problem !== undefined || understood?.foreign !== undefined || pem === undefined) return false;
    try {
      return parseCertificates(pem, 'backup', 'skipped').length > 0;
    } catch {
      return false;
    }
  };
}

/** The path by which an artefact's backups are found. */
export const artefactPath = (location: DiskLocation): string =>
  location.kind === 'pemPair' ? location.certFile : location.file;

export function layoutOf(location: DiskLocation, endpoints?: Endpoints): Layout {
  switch (location.kind) {
    case 'pemPair':
      return pemPairLayout(location);
    case 'pemFile':
      return pemFileLayout(location);
    case 'combinedPem':
      return combinedPemLayout(location);
    case 'kubeconfig':
      break;
  }
  return kubeconfigLayout(location, endpoints);
}

function diskLocation(location: Location): DiskLocation {
  if (isFile(location)) return location;
  throw new RecoveryError('ReadFailed', `Cannot use ${locationText(location)}: not a file of this host`);
}
