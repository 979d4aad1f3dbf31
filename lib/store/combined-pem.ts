// A certificate and its key in one PEM file, as the kubelet keeps them: taken apart into entries, and put together again
// with whatever else is in the file. Certificates that follow the leaf belong to its entry: whoever makes a new one says
// which of them stay. Blocks that are neither certificate nor key are in no entry; they stay here.
import { errorText, RecoveryError } from '../errors.ts';
import type { CombinedPemLocation } from '../inventory/model.ts';
import { encodePem, type PemBlock, readPem } from '../pki/pem.ts';
import { bytesOf, type Layout } from './disk-layout.ts';
import { certificateKey, type Entries, locationText, privateKeyKey } from './store.ts';

const combinedRole = 'combined.pem';

const isKey = ({ label }: PemBlock): boolean => label.endsWith('PRIVATE KEY');
const isCertificate = ({ label }: PemBlock): boolean => label === 'CERTIFICATE';

export function combinedPemLayout(location: CombinedPemLocation): Layout {
  const { file } = location;
  const place = { file, mode: 0o600, secret: true, dated: true };
  return {
    look: async (read) => [{ role: combinedRole, file, bytes: await read(file) }],
    understand(parts) {
      const bytes = bytesOf(parts, combinedRole);
      if (bytes === undefined) return undefined;
      try {
        return { entries: takeApart(bytes, locationText(location)) };
      } catch (err) {
        return { entries: {}, problem: errorText(err) };
      }
    },
    async change(next, parts) {
      const unknown = Object.keys(next).find((key) => key !== certificateKey && key !== privateKeyKey);
      if (unknown !== undefined) {
        const message = `Cannot write ${locationText(location)}: it has no place for "${unknown}"`;
        throw new RecoveryError('MaterialInvalid', message);
      }
      return [{ ...place, bytes: putTogether(next, bytesOf(parts, combinedRole)) }];
    },
    putBack(kept) {
      const bytes = kept.get(combinedRole);
      return bytes === undefined ? [] : [{ ...place, bytes }];
    },
  };
}

/** The certificates as one entry, the keys as another; either is left out where there is none. Throws MaterialInvalid. */
function takeApart(bytes: Uint8Array, what: string): Entries {
  const blocks = readPem(bytes, what);
  const certificates = blocks.filter(isCertificate);
  const keys = blocks.filter(isKey);
  return {
    ...(certificates.length > 0 && { [certificateKey]: Buffer.from(certificates.map(encodePem).join('')) }),
    ...(keys.length > 0 && { [privateKeyKey]: Buffer.from(keys.map(encodePem).join('')) }),
  };
}

/** Certificate and key in one file, then the blocks of others that were in it. */
export function putTogether(next: Entries, former: Uint8Array | undefined): Buffer {
  const { [certificateKey]: certificate = Buffer.of(), [privateKeyKey]: key = Buffer.of() } = next;
  return joined([certificate, key, ...othersIn(former)]);
}

/** A file of certificates only, then the blocks of others that were in it. */
export function certificateFile(certificate: Uint8Array, former: Uint8Array | undefined): Buffer {
  return joined([certificate, ...othersIn(former)]);
}

/** What a file says of an entry where it holds more than that; anything else as it is, for others to judge. */
export function entryIn(bytes: Uint8Array, entry: string): Uint8Array {
  const blocks = blocksOf(bytes);
  const isMixed = entry === certificateKey ? !blocks.every(isCertificate) : blocks.some(isCertificate);
  return isMixed ? (takeApart(bytes, 'file')[entry] ?? bytes) : bytes;
}

export const holdsKey = (bytes: Uint8Array | undefined): boolean => blocksOf(bytes).some(isKey);
export const holdsCertificate = (bytes: Uint8Array | undefined): boolean => blocksOf(bytes).some(isCertificate);

/** Of a damaged file nothing. */
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
