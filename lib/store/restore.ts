// Restores backups: lists the generations kept of each artefact, and puts one in place again, with a backup of the
// present files first. It is verified before, unless the caller wants the bytes unchanged in any case. The caller holds
// the lock of this host.
import { attempt } from '../disk/disk.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { unlessInvalid, valueOrProblem } from '../pki/pem.ts';
import type { Artefact, DiskLocation } from '../inventory/model.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import {
  artefactAt,
  createDiskStore,
  type DiskArtefact,
  type DiskStoreOptions,
  keptParts,
  lookAt,
  mainCertificates,
  replaceParts,
} from './disk-store.ts';
import { lookingAt, unseenParts } from './disk-layout.ts';
import { bothRoles, requireOwn } from './others-content.ts';
import type { BackupDirectory, Files } from './backup-directory.ts';
import { type Entries, locationText, verifyMaterial } from './store.ts';
import { isFile, isFileOfItsOwn } from '../inventory/places.ts';
import { caBundleKey, privateKeyKey } from '../inventory/content.ts';

export interface Generation {
  readonly artefact: string;
  readonly location: DiskLocation;
  /** `000003`: the higher the younger. */
  readonly generation: string;
  /** Time of the copy, just before the replacement; undefined where the disk does not show it. */
  readonly keptAt?: Date | undefined;
  /** notAfter of its certificate, the earliest where it has several roots; undefined where none parses. */
  readonly notAfter?: Date | undefined;
  /** Why it cannot be read, and so not be restored. */
  readonly problem?: string | undefined;
  /** Why no reader can use it: it can be restored unchanged all the same. */
  readonly unusable?: string | undefined;
}

export interface RestoreOptions extends Pick<
  DiskStoreOptions,
  'disk' | 'endpoints' | 'now' | 'owners' | 'onBackupFailed' | 'onAttributesLost'
> {
  readonly backupDir: string;
  /** Restores content that no reader can use, too. */
  readonly asItWas?: boolean;
}

/**
 * All generations of all artefacts on this host, for each the youngest first. An unreadable generation is listed with
 * its problem: an older one may be the wanted one. Throws ReadFailed.
 */
export async function listGenerations(
  artefacts: readonly Pick<Artefact, 'name' | 'location'>[],
  options: RestoreOptions,
): Promise<Generation[]> {
  const found: Generation[] = [];
  for (const { name, location } of artefacts) {
    if (!isFile(location)) continue;
    const kept = keptFilesOf(location, options);
    for (const generation of (await kept.reading(() => kept.backups.generations())).toReversed()) {
      found.push({ artefact: name, location, generation, ...(await lookAtGeneration(kept, generation)) });
    }
  }
  return found;
}

interface KeptFiles extends DiskArtefact {
  readonly backups: BackupDirectory;
  /** Turns errors of the file system into ReadFailed. */
  readonly reading: <T>(call: () => Promise<T>) => Promise<T>;
}

function keptFilesOf(location: DiskLocation, options: RestoreOptions): KeptFiles {
  const what = `backups of ${locationText(location)}`;
  const reading = { code: 'ReadFailed', action: 'read', what, directory: options.backupDir } as const;
  return { ...artefactAt(location, options), reading: (call) => attempt(reading, call) };
}

async function lookAtGeneration(
  kept: KeptFiles,
  generation: string,
): Promise<Pick<Generation, 'keptAt' | 'notAfter' | 'problem' | 'unusable'>> {
  const { disk, backups, reading } = kept;
  let keptAt: Date | undefined;
  try {
    keptAt = (await reading(() => disk.stat(backups.pathOf(generation)))).mtime;
    return { keptAt, ...judged(kept, await reading(() => backups.read(generation))) };
  } catch (err) {
    if (!isCode(err, 'ReadFailed')) throw err;
    return { keptAt, problem: err.message };
  }
}

/**
 * Restores a generation. `conflict`: another process wrote at the same time. Throws ReadFailed when there is no such
 * generation, MaterialInvalid when it is not whole and not wanted unchanged, WriteFailed.
 */
export async function restoreGeneration(
  { location, generation }: Pick<Generation, 'location' | 'generation'>,
  options: RestoreOptions,
): Promise<'restored' | 'unchanged' | 'conflict'> {
  const kept = keptFilesOf(location, options);
  const files = await kept.reading(() => kept.backups.read(generation));
  if (files.size === 0) {
    const where = `there is no generation "${generation}" in "${options.backupDir}"`;
    const message = `Cannot restore ${locationText(location)}: ${where}; name one that is listed`;
    throw new RecoveryError('ReadFailed', message);
  }
  if (options.asItWas !== true) verifyMaterial(location, { entries: entriesOf(kept, files), annotations: {} });
  const changes = kept.layout.putBack(files);
  const artefact = { ...kept, layout: lookingAt(kept.layout, changes) };
  const parts = await lookAt(artefact);
  requireOwn(location, unseenParts(parts), bothRoles);
  const present = new Map(parts.map(({ file, bytes }) => [file, bytes]));
  const different = changes.filter(({ file, bytes }) => !isSame(present.get(file), bytes));
  if (different.length === 0) return 'unchanged';
  const outcome = await replaceParts(artefact, { parts, changes: different, generation }, options);
  return outcome === 'written' ? 'restored' : outcome;
}

const isSame = (present: Uint8Array | undefined, bytes: Uint8Array): boolean =>
  present !== undefined && Buffer.compare(present, bytes) === 0;

/** Throws MaterialInvalid with the reason why it is not usable. */
function entriesOf({ location, layout }: DiskArtefact, files: Files): Entries {
  const understood = layout.understand(keptParts(files));
  const problem = understood === undefined ? 'its main file is missing' : (understood.problem ?? understood.foreign);
  if (understood !== undefined && problem === undefined) return understood.entries;
  throw new RecoveryError('MaterialInvalid', `Cannot restore ${locationText(location)}: ${problem}`);
}

function judged(artefact: DiskArtefact, files: Files): Pick<Generation, 'notAfter' | 'unusable'> {
  const { location, layout } = artefact;
  const { entries = {} } = layout.understand(keptParts(files)) ?? {};
  const verified = valueOrProblem(() =>
    verifyMaterial(location, { entries: entriesOf(artefact, files), annotations: {} }),
  );
  return { notAfter: endOf(entries, location), unusable: verified.problem };
}

/**
 * notAfter of the present file; undefined where it is absent or unusable. Throws ReadFailed where it cannot be read.
 */
export async function readPresentEnd(
  location: DiskLocation,
  options: RestoreOptions,
  signal: AbortSignal,
): Promise<Date | undefined> {
  try {
    const found = await createDiskStore(options).read(location, signal);
    if (found === undefined) return undefined;
    verifyMaterial(location, found);
    return endOf(found.entries, location);
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    return undefined;
  }
}

/** notAfter of the leaf, or of a signer's own certificate; of a bundle the earliest. */
function endOf(entries: Entries, location: DiskLocation): Date | undefined {
  const all = unlessInvalid(() => mainCertificates(location, entries)) ?? [];
  const ends = ownFirst(all, entries[privateKeyKey])
    .map(({ facts }) => facts.notAfter)
    .slice(0, isFileOfItsOwn(location, caBundleKey) ? undefined : 1);
  return ends.toSorted((a, b) => a.getTime() - b.getTime())[0];
}
