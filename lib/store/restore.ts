// The way back: which former generations of each artefact are kept, and one of them put in place again, verified before
// and with what is there now kept first. Whoever calls holds the lock of this host.
import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { attempt, realDisk } from '../disk/disk.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { DiskLocation, Location } from '../inventory/model.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { artefactPath, type DiskStoreOptions, keptParts, layoutOf, lookAt, replaceParts } from './disk-store.ts';
import type { Change, Layout } from './disk-layout.ts';
import { type Files, generationPath, generationsOf, readGeneration, type Shelf } from './disk-backup.ts';
import { caBundleKey, certificateKey, type Entries, locationText, type Material } from './store.ts';
import { verifyMaterial } from './verify-material.ts';
import { isFile } from '../inventory/places.ts';

/** What is restored: an artefact of a resolved inventory. */
export interface Restorable {
  readonly name: string;
  readonly location: Location;
}

export interface Generation {
  readonly artefact: string;
  readonly location: DiskLocation;
  /** `000003`: the higher the younger. */
  readonly generation: string;
  /** When it was copied, just before it was replaced; undefined where the disk does not say. */
  readonly keptAt?: Date;
  /** End of its certificate, of the earliest where it has several roots; undefined where it has none that parses. */
  readonly notAfter?: Date;
  /** Why it cannot be put back. */
  readonly problem?: string;
}

export interface RestoreOptions extends Pick<
  DiskStoreOptions,
  'disk' | 'endpoints' | 'now' | 'onBackupFailed' | 'onAttributesLost'
> {
  readonly backupDir: string;
}

/**
 * All generations of all artefacts that lie on this host, of each the youngest first. One that cannot be read is listed
 * with its problem: the others may be what is needed. Throws ReadFailed.
 */
export async function listGenerations(
  artefacts: readonly Restorable[],
  { backupDir, endpoints, disk = realDisk }: RestoreOptions,
): Promise<Generation[]> {
  const found: Generation[] = [];
  for (const { name, location } of artefacts) {
    if (!isFile(location)) continue;
    const shelf = { disk, backupDir, path: artefactPath(location) };
    const layout = layoutOf(location, endpoints);
    const generations = await onShelf(shelf, location, () => generationsOf(shelf));
    for (const generation of generations.toReversed()) {
      const seen = await lookAtGeneration({ shelf, location, layout }, generation);
      found.push({ artefact: name, location: location, generation, ...seen });
    }
  }
  return found;
}

interface Place {
  readonly shelf: Shelf;
  readonly location: DiskLocation;
  readonly layout: Layout;
}

async function lookAtGeneration(
  { shelf, location, layout }: Place,
  generation: string,
): Promise<Pick<Generation, 'keptAt' | 'notAfter' | 'problem'>> {
  let dated: Pick<Generation, 'keptAt'> = {};
  try {
    const status = await onShelf(shelf, location, () => shelf.disk.stat(generationPath(shelf, generation)));
    dated = { keptAt: status.mtime };
    const files = await onShelf(shelf, location, () => readGeneration(shelf, generation));
    return { ...dated, ...judged(location, files, layout) };
  } catch (err) {
    if (!isCode(err, 'ReadFailed')) throw err;
    return { ...dated, problem: err.message };
  }
}

/**
 * Puts a generation back. `conflict`: somebody else wrote at the same time. Throws ReadFailed when there is no such
 * generation, MaterialInvalid when it is not whole, WriteFailed.
 */
export async function restoreGeneration(
  { location, generation }: Pick<Generation, 'location' | 'generation'>,
  options: RestoreOptions,
): Promise<'restored' | 'unchanged' | 'conflict'> {
  const { disk = realDisk, backupDir, endpoints } = options;
  const shelf: Shelf = { disk, backupDir, path: artefactPath(location) };
  const files = await onShelf(shelf, location, () => readGeneration(shelf, generation));
  if (files.size === 0) {
    const message = `Cannot restore ${locationText(location)}: there is no generation "${generation}" in "${backupDir}"`;
    throw new RecoveryError('ReadFailed', `${message}; name one that is listed`);
  }
  const own = layoutOf(location, endpoints);
  verifyMaterial(location, { entries: entriesOf(location, files, own), annotations: {} });
  const changes = own.putBack(files);
  const layout = lookingAt(own, changes);
  const parts = await lookAt(disk, location, layout);
  const present = new Map(parts.map(({ file, bytes }) => [file, bytes]));
  const different = changes.filter(({ file, bytes }) => !isSame(present.get(file), bytes));
  if (different.length === 0) return 'unchanged';
  const outcome = await replaceParts({ ...options, location, layout, parts, changes: different, generation });
  return outcome === 'written' ? 'restored' : outcome;
}

/** Sees what is to be replaced, too: the kept document may name other files than the present one. */
function lookingAt(layout: Layout, changes: readonly Change[]): Layout {
  return {
    ...layout,
    async look(read) {
      const parts = await layout.look(read);
      const others = changes.filter(({ file }) => !parts.some((part) => part.file === file));
      // a role of their own: the present document does not name them
      const role = (file: string, at: number): string => `other-${at}-${basename(file).slice(0, 100)}`;
      const seen = others.map(async ({ file }, at) => ({ role: role(file, at), file, bytes: await read(file) }));
      return [...parts, ...(await Promise.all(seen))];
    },
  };
}

const isSame = (present: Uint8Array | undefined, bytes: Uint8Array): boolean =>
  present !== undefined && isDeepStrictEqual(Buffer.from(present), Buffer.from(bytes));

function onShelf<T>({ backupDir }: Shelf, location: DiskLocation, call: () => Promise<T>): Promise<T> {
  const what = `backups of ${locationText(location)}`;
  return attempt({ code: 'ReadFailed', action: 'read', what, directory: backupDir }, call);
}

/** Throws MaterialInvalid, saying why it cannot be understood. */
function entriesOf(location: DiskLocation, files: Files, layout: Layout): Entries {
  const understood = layout.understand(keptParts(files));
  const problem = understood === undefined ? 'its main file is missing' : (understood.problem ?? understood.foreign);
  if (understood !== undefined && problem === undefined) return understood.entries;
  throw new RecoveryError('MaterialInvalid', `Cannot restore ${locationText(location)}: ${problem}`);
}

function judged(location: DiskLocation, files: Files, layout: Layout): Pick<Generation, 'notAfter' | 'problem'> {
  const { entries = {} } = layout.understand(keptParts(files)) ?? {};
  const notAfter = endOf(entries[location.kind === 'pemFile' ? caBundleKey : certificateKey], location);
  try {
    verifyMaterial(location, { entries: entriesOf(location, files, layout), annotations: {} });
    return { ...(notAfter !== undefined && { notAfter }) };
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    return { ...(notAfter !== undefined && { notAfter }), problem: err.message };
  }
}

/** When what lies there now ends; undefined where there is nothing that can be used. */
export function presentEnd(location: DiskLocation, found: Material | undefined): Date | undefined {
  if (found === undefined) return undefined;
  try {
    verifyMaterial(location, found);
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  }
  return endOf(found.entries[location.kind === 'pemFile' ? caBundleKey : certificateKey], location);
}

/** Of the leaf; of a bundle the one that ends first. */
function endOf(pem: Uint8Array | undefined, location: DiskLocation): Date | undefined {
  if (pem === undefined) return undefined;
  try {
    const certificates = parseCertificates(pem, locationText(location), 'skipped');
    const ends = certificates.map(({ facts }) => facts.notAfter).slice(0, location.kind === 'pemFile' ? undefined : 1);
    return ends.toSorted((a, b) => a.getTime() - b.getTime())[0];
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  }
}
