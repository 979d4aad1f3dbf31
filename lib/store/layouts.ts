// Kinds of location in files of this host as layouts: one for each kind. A certificate and its key, or a bundle, in files
// of their own: their bytes are written unchanged. Or certificate and key in one file, as the kubelet keeps them: split
// into entries, and joined again with all other blocks of the file. Certificates that follow the leaf belong to its
// entry: issue decides which of them stay. A kubeconfig is in kubeconfig.ts.
import { errorText, RecoveryError } from '../errors.ts';
import { certificateKey, privateKeyKey, registryAuthsKey } from '../inventory/content.ts';
import type { DiskLocation, Endpoints, LocationOf } from '../inventory/model.ts';
import { filesOf } from '../inventory/places.ts';
import { bytesOf, type Change, type Layout, type Part } from './disk-layout.ts';
import { kubeconfigLayout } from './kubeconfig.ts';
import { wholeCertificates } from '../pki/certificate.ts';
import { bothRoles, contentOfOthers, requireOwn, roleOfEntry } from './others-content.ts';
import { keysIn, putTogether, takeApart } from './pem-blocks.ts';
import { type Entries, locationText } from './store.ts';

/** Entries that nobody else may read. */
const secretKeys: readonly string[] = [privateKeyKey, registryAuthsKey];

/** The key first: a read between the two renames returns a certificate that readers know, without its key. */
function pemFilesLayout(location: LocationOf<'pemPair' | 'pemFile' | 'pemDirectory' | 'registryAuths'>): Layout {
  const files = filesOf(location)
    .map(({ entry, file }) => ({ key: entry ?? '', file, secret: secretKeys.includes(entry ?? '') }))
    .toReversed();
  const changes = (bytesFor: (key: string) => Uint8Array | undefined): Change[] =>
    files.flatMap(({ key, file, secret }) => {
      const bytes = bytesFor(key);
      return bytes === undefined ? [] : [{ file, bytes, mode: secret ? 0o600 : 0o644, secret }];
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
  const keys = keysIn(former);
  if (next[key] === undefined || keys.length === 0 || wholeCertificates(former).length === 0) return;
  const present = keysIn(bytesOf(parts, privateKeyKey));
  const hasNewKey = keysIn(next[privateKeyKey]).some((one) => !present.includes(one));
  if (hasNewKey || keys.every((one) => present.includes(one))) return;
  const problem = `file "${file}" holds a private key that is in no other file; move it to a file of its own`;
  throw new RecoveryError('WriteFailed', `Cannot write ${locationText(location)}: ${problem}`);
}

const combinedRole = 'combined.pem';

function combinedPemLayout(location: LocationOf<'combinedPem'>): Layout {
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

const newline = Buffer.from('\n');

/**
 * A key and its public keys. These files are never written: every token that was signed with the key would be worthless
 * with another one. An empty file, as a loss of power leaves it, counts as absent.
 */
function keyFilesLayout(location: LocationOf<'keyFiles'>): Layout {
  return {
    look: async (read) =>
      Promise.all(
        filesOf(location).map(async ({ entry, file }) => ({ role: entry ?? '', file, bytes: await read(file) })),
      ),
    understand(parts) {
      // Public keys of several files are one list, as for kube-apiserver.
      const entries = [...Map.groupBy(parts, ({ role }) => role)].flatMap(([role, all]) => {
        const texts = all.flatMap(({ bytes }) => (bytes === undefined ? [] : [bytes, newline]));
        return texts.length === 0 ? [] : [[role, Buffer.concat(texts)] as const];
      });
      const missing = parts.flatMap(({ file, bytes }) => {
        if (bytes === undefined) return [`"${file}" is absent`];
        if (bytes.length === 0) return [`"${file}" is empty`];
        return Buffer.from(bytes).includes('-----BEGIN ') ? [] : [`"${file}" holds no key`];
      });
      const problem = missing.length === 0 ? {} : { problem: missing.join(', ') };
      return { entries: Object.fromEntries(entries), ...problem };
    },
    async change() {
      throw new RecoveryError('WriteFailed', `Cannot write ${locationText(location)}: it is only ever read`);
    },
    putBack: () => [],
  };
}

const layouts: {
  readonly [Kind in DiskLocation['kind']]: (location: LocationOf<Kind>, endpoints?: Endpoints) => Layout;
} = {
  pemPair: pemFilesLayout,
  pemFile: pemFilesLayout,
  pemDirectory: pemFilesLayout, // whose files are each a pemFile (bundle-directory.ts)
  registryAuths: pemFilesLayout,
  combinedPem: combinedPemLayout,
  kubeconfig: kubeconfigLayout,
  keyFiles: keyFilesLayout,
};

/** `endpoints`: servers for a kubeconfig that is made from nothing. */
export const layoutOf = (location: DiskLocation, endpoints?: Endpoints): Layout =>
  (layouts[location.kind] as (at: DiskLocation, known?: Endpoints) => Layout)(location, endpoints);
