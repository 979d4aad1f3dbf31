// Entries that are files of their own: a certificate and its key, or a bundle. Their bytes are written as they come.
import { RecoveryError } from '../errors.ts';
import type { PemFileLocation, PemPairLocation } from '../inventory/model.ts';
import { bytesOf, type Change, type Layout } from './disk-layout.ts';
import { caBundleKey, certificateKey, locationText, privateKeyKey } from './store.ts';

interface File {
  readonly key: string;
  readonly file: string;
  readonly mode: number;
}

/** The key first: what is read between the two renames is a certificate that somebody knows, without its key. */
export function pemPairLayout(location: PemPairLocation): Layout {
  return filesLayout(location, [
    { key: privateKeyKey, file: location.keyFile, mode: 0o600 },
    { key: certificateKey, file: location.certFile, mode: 0o644 },
  ]);
}

export function pemFileLayout(location: PemFileLocation): Layout {
  return filesLayout(location, [{ key: caBundleKey, file: location.file, mode: 0o644 }]);
}

function filesLayout(location: PemPairLocation | PemFileLocation, files: readonly File[]): Layout {
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
      return present.length === 0 ? undefined : { entries: Object.fromEntries(present) };
    },
    async change(next, parts) {
      const unknown = Object.keys(next).find((key) => !files.some((file) => file.key === key));
      // A key that stays is not replaced by itself.
      const isThere = (key: string, bytes: Uint8Array | undefined): boolean => {
        const present = bytesOf(parts, key);
        return present !== undefined && bytes !== undefined && Buffer.from(present).equals(bytes);
      };
      if (unknown === undefined) return changes((key) => (isThere(key, next[key]) ? undefined : next[key]));
      const message = `Cannot write ${locationText(location)}: it has no place for "${unknown}"`;
      throw new RecoveryError('MaterialInvalid', message);
    },
    putBack: (kept) => changes((key) => kept.get(key)),
  };
}
