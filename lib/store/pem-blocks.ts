// The blocks of PEM files: certificates as one entry, keys as another, and all foreign blocks beside them, which stay
// where they are. Pure.
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { encodePem, type PemBlock, readPem, unlessInvalid } from '../pki/pem.ts';
import type { Entries } from './store.ts';

const isKey = ({ label }: PemBlock): boolean => label.endsWith('PRIVATE KEY');
const isCertificate = ({ label }: PemBlock): boolean => label === 'CERTIFICATE';

/** The certificates as one entry, the keys as another; an entry without blocks is left out. Throws MaterialInvalid. */
export function takeApart(bytes: Uint8Array, what: string): Entries {
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
/** Keys as whole blocks, to compare them; also those of a damaged file, and those with headers (RFC 1421). */
export function keysIn(bytes: Uint8Array = Buffer.of()): readonly string[] {
  const text = Buffer.from(bytes).toString('latin1').replaceAll('\r', '');
  return [...text.matchAll(wholeKey)].map(([block]) => blocksOf(Buffer.from(block)).map(encodePem)[0] ?? block);
}

const wholeKey = /^-----BEGIN ([A-Z0-9 ]{0,64}PRIVATE KEY)-----[ \t]*$(?:[^-]|-(?!----))+^-----END \1-----[ \t]*$/gm;

/** Foreign blocks of a file; none of a damaged file. */
const othersIn = (file: Uint8Array | undefined): Buffer[] =>
  blocksOf(file)
    .filter((block) => !isKey(block) && !isCertificate(block))
    .map((block) => Buffer.from(encodePem(block)));

const blocksOf = (bytes: Uint8Array | undefined): PemBlock[] =>
  (bytes && unlessInvalid(() => readPem(bytes, 'file'))) ?? [];

function joined(pieces: readonly Uint8Array[]): Buffer {
  const newline = Buffer.from('\n');
  return Buffer.concat(
    pieces.flatMap((piece) => (piece.length > 0 && piece.at(-1) !== 10 ? [piece, newline] : [piece])),
  );
}
