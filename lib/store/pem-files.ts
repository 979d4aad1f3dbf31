// PEM files of this host as layouts. A certificate and its key, or a bundle, in files of their own: their bytes are
// written unchanged. Or certificate and key in one file, as the kubelet keeps them: split into entries, and joined
// again with all other blocks of the file. Certificates that follow the leaf belong to its entry: issue decides which
// of them stay. Blocks that are neither certificate nor key are in no entry; they stay here.
import { errorText, RecoveryError } from '../errors.ts';
import type { DiskLocation, LocationOf } from '../inventory/model.ts';
import { filesOf } from '../inventory/places.ts';
import { encodePem, type PemBlock, readPem } from '../pki/pem.ts';
import { bytesOf, type Change, type Layout, type Part } from './disk-layout.ts';
import { bothRoles, contentOfOthers, requireOwn, roleOfEntry } from './others-content.ts';
import { type Entries, locationText } from './store.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';

/** The key first: a read between the two renames returns a certificate that readers know, without its key. */
export function pemFilesLayout(location: LocationOf<'pemPair' | 'pemFile'>): Layout {
  const files = filesOf(location)
    .map(({ entry, file }) => ({ key: entry ?? '', file, mode: entry === privateKeyKey ? 0o600 : 0o644 }))
    .toReversed();
  const changes = (bytesFor: (key: string) => Uint8Array | undefined): Change[] =>
    files.flatMap(({ key, file, mode }) => {
      const bytes = bytesFor(key);
      return bytes === undefined ? [] : [{ file, bytes, mode, secret: key === privateKeyKey }];
    });
  return {
    look: async (read) =>
      Promise.all(files.map(async ({ key, file }) => ({ role: key, file, bytes: await read(file) }))),
    understand(parts) {
      const present = parts.flatMap(({ role, bytes }) => (bytes === undefined ? [] : [[role, bytes] as const]));
      if (present.length === 0) return undefined;
      return { entries: Object.fromEntries(present), ...contentOfOthers(location, parts, roleOfEntry) };
    },
    async change(next, parts) {
      requirePlaces(location, next, (key) => files.some((file) => file.key === key));
      requireOwn(location, parts, roleOfEntry);
      for (const { key, file } of files)
        if (key !== privateKeyKey) requireNoKeyLost(location, file, { key, parts, next });
      // An unchanged key is not replaced.
      const isThere = (key: string, bytes: Uint8Array | undefined): boolean => {
        const present = bytesOf(parts, key);
        return present !== undefined && bytes !== undefined && Buffer.from(present).equals(bytes);
      };
      return changes((key) => (isThere(key, next[key]) ? undefined : next[key]));
    },
    putBack: (kept) => changes((key) => kept.get(key)),
  };
}

interface CertificateWrite {
  readonly key: string;
  readonly parts: readonly Part[];
  readonly next: Entries;
}

/**
 * Checks for a key in a file of certificates that no other file has: it may be the only copy. Where a pair gets a new
 * key with its certificate, the former key is of no use. Throws WriteFailed.
 */
function requireNoKeyLost(location: DiskLocation, file: string, { key, parts, next }: CertificateWrite): void {
  const former = bytesOf(parts, key);
  if (next[key] === undefined || !holdsKey(former) || !holdsCertificate(former)) return;
  const keysIn = (bytes: Uint8Array | undefined): readonly string[] => blocksOf(bytes).filter(isKey).map(encodePem);
  const present = keysIn(bytesOf(parts, privateKeyKey));
  const hasNewKey = keysIn(next[privateKeyKey]).some((one) => !present.includes(one));
  if (hasNewKey || keysIn(former).every((one) => present.includes(one))) return;
  const problem = `file "${file}" holds a private key that is in no other file; move it to a file of its own`;
  throw new RecoveryError('WriteFailed', `Cannot write ${locationText(location)}: ${problem}`);
}

const combinedRole = 'combined.pem';

const isKey = ({ label }: PemBlock): boolean => label.endsWith('PRIVATE KEY');
const isCertificate = ({ label }: PemBlock): boolean => label === 'CERTIFICATE';

export function combinedPemLayout(location: LocationOf<'combinedPem'>): Layout {
  const { file } = location;
  const place = { file, mode: 0o600, secret: true, dated: true };
  return {
    look: async (read) => [{ role: combinedRole, file, bytes: await read(file) }],
    understand(parts) {
      const bytes = bytesOf(parts, combinedRole);
      if (bytes === undefined) return undefined;
      try {
        return { entries: takeApart(bytes, locationText(location)), ...contentOfOthers(location, parts, bothRoles) };
      } catch (err) {
        return { entries: {}, problem: errorText(err), ...contentOfOthers(location, parts, bothRoles) };
      }
    },
    async change(next, parts) {
      requirePlaces(location, next, (key) => key === certificateKey || key === privateKeyKey);
      requireOwn(location, parts, bothRoles);
      return [{ ...place, bytes: putTogether(next, bytesOf(parts, combinedRole)) }];
    },
    putBack(kept) {
      const bytes = kept.get(combinedRole);
      return bytes === undefined ? [] : [{ ...place, bytes }];
    },
  };
}

function requirePlaces(location: DiskLocation, next: Entries, hasPlace: (key: string) => boolean): void {
  const unknown = Object.keys(next).find((key) => !hasPlace(key));
  if (unknown === undefined) return;
  const message = `Cannot write ${locationText(location)}: it has no place for "${unknown}"`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** The certificates as one entry, the keys as another; an entry without blocks is left out. Throws MaterialInvalid. */
function takeApart(bytes: Uint8Array, what: string): Entries {
  const blocks = readPem(bytes, what);
  const certificates = blocks.filter(isCertificate);
  const keys = blocks.filter(isKey);
  return {
    ...(certificates.length > 0 && { [certificateKey]: Buffer.from(certificates.map(encodePem).join('')) }),
    ...(keys.length > 0 && { [privateKeyKey]: Buffer.from(keys.map(encodePem).join('')) }),
  };
}

/** Certificate and key in one file, then the foreign blocks of the former file. */
export function putTogether(next: Entries, former: Uint8Array | undefined): Buffer {
  const { [certificateKey]: certificate = Buffer.of(), [privateKeyKey]: key = Buffer.of() } = next;
  return joined([certificate, key, ...othersIn(former)]);
}

/** A file of certificates only, then the foreign blocks of the former file. */
export function certificateFile(certificate: Uint8Array, former: Uint8Array | undefined): Buffer {
  return joined([certificate, ...othersIn(former)]);
}

/** Blocks of one entry in a mixed file; other files unchanged, for their readers to judge. */
export function entryIn(bytes: Uint8Array, entry: string): Uint8Array {
  const blocks = blocksOf(bytes);
  const isMixed = entry === certificateKey ? !blocks.every(isCertificate) : blocks.some(isCertificate);
  return isMixed ? (takeApart(bytes, 'file')[entry] ?? bytes) : bytes;
}

export const holdsKey = (bytes: Uint8Array | undefined): boolean => blocksOf(bytes).some(isKey);
export const holdsCertificate = (bytes: Uint8Array | undefined): boolean => blocksOf(bytes).some(isCertificate);

/** Foreign blocks of a file; none of a damaged file. */
const othersIn = (file: Uint8Array | undefined): Buffer[] =>
  blocksOf(file)
    .filter((block) => !isKey(block) && !isCertificate(block))
    .map((block) => Buffer.from(encodePem(block)));

function blocksOf(bytes: Uint8Array | undefined): PemBlock[] {
  try {
    return bytes === undefined ? [] : readPem(bytes, 'file');
  } catch {
    return [];
  }
}

function joined(pieces: readonly Uint8Array[]): Buffer {
  const newline = Buffer.from('\n');
  return Buffer.concat(
    pieces.flatMap((piece) => (piece.length > 0 && piece.at(-1) !== 10 ? [piece, newline] : [piece])),
  );
}
