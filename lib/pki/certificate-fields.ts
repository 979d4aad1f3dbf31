// The fields of a certificate (RFC 5280, 4.1), read as Go parses them (crypto/x509, parser.go of Go 1.22 and 1.26): in
// its order and no stricter, without checks that Go does not make. OpenSSL accepts dates that do not exist, two
// signature algorithms that differ, names that are no text; every Kubernetes component refuses the file around such a
// certificate. A violation of a check that newer Go has added is reported, and is no error: there are clusters whose
// components load such a certificate.
import { isUtf8 } from 'node:buffer';
import { DerReader, type DerValue, tags } from './der.ts';
import { context, contextConstructed, type ExtensionFields, type LaterRefusal, readExtensions } from './extensions.ts';
import { curves } from './key-encoding.ts';
import { type DistinguishedName, readDistinguishedName } from './names.ts';

export interface CertificateFields extends ExtensionFields {
  /** 1, 2 or 3. */
  readonly version: number;
  readonly subject: DistinguishedName;
  readonly issuer: DistinguishedName;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly signatureOid: string;
  /** DER of the public key with its algorithm. */
  readonly publicKeyInfo: Buffer;
  /**
   * Whether the key is of a kind that Go parses: RSA, DSA, EC, Ed25519, X25519. A key of any other kind (GOST, a
   * post-quantum one) is left unread, and the certificate around it is valid.
   */
  readonly isKeyRead: boolean;
  /** The earliest refusal of newer Go; undefined: none. */
  readonly refusal: LaterRefusal | undefined;
}

/** `der`: the whole certificate. Throws RangeError where no Go has ever accepted it. */
export function readCertificateFields(der: Buffer): CertificateFields {
  const later: LaterRefusal[] = [];
  const outer = new DerReader(der);
  const parts = outer.inside(tags.sequence, 'certificate');
  if (!outer.isEmpty) throw new RangeError('bytes after the end');
  const tbs = parts.inside(tags.sequence, 'tbsCertificate');
  const version = readVersion(tbs);
  if (tbs.integer('serial number') < 0n) later.push({ since: '1.23', problem: 'its serial number is negative' });
  const algorithm = tbs.content(tags.sequence, 'signature algorithm');
  if (!parts.content(tags.sequence, 'signature algorithm').equals(algorithm)) {
    throw new RangeError('the two signature algorithms differ');
  }
  const { oid: signatureOid } = readAlgorithm(new DerReader(algorithm));
  const checkText = (value: DerValue): void => checkNameText(value, later);
  const issuer = readDistinguishedName(tbs.value(tags.sequence, 'issuer'), checkText);
  const validity = tbs.inside(tags.sequence, 'validity');
  const [notBefore, notAfter] = [validity.time('notBefore'), validity.time('notAfter')];
  const subject = readDistinguishedName(tbs.value(tags.sequence, 'subject'), checkText);
  const publicKey = tbs.value(tags.sequence, 'public key');
  const isKeyRead = checkPublicKey(new DerReader(publicKey.content));
  if (version > 1) for (const id of [1, 2]) tbs.optional(context(id));
  const extensions = readExtensions(version === 3 ? tbs.optional(contextConstructed(3)) : undefined, later);
  parts.bitString('signature');
  return {
    version,
    subject,
    issuer,
    notBefore,
    notAfter,
    signatureOid,
    publicKeyInfo: publicKey.raw,
    isKeyRead,
    ...extensions,
    refusal: later.toSorted((a, b) => a.since.localeCompare(b.since))[0],
  };
}

function readVersion(tbs: DerReader): number {
  const part = tbs.optional(contextConstructed(0));
  if (part === undefined) return 1;
  const version = Number(part.integer('version')) + 1;
  if (!part.isEmpty || version < 1 || version > 3) throw new RangeError('version is not 1, 2 or 3');
  return version;
}

function readAlgorithm(algorithm: DerReader): { readonly oid: string; readonly parameters: Buffer } {
  const oid = algorithm.oid('algorithm');
  return { oid, parameters: algorithm.isEmpty ? Buffer.alloc(0) : algorithm.any().raw };
}

function checkNameText({ tag, content }: DerValue, later: LaterRefusal[]): void {
  if (tag === bmpString && !isBmpText(content))
    later.push({ since: '1.25', problem: 'a name has characters that are none' });
  if (!isText({ tag, content })) throw new RangeError('a name is no text of its type');
}

export const bmpString = 0x1e;
const printable = /^[A-Za-z0-9 '()*+,\-./:=?&]*$/;

/** Whether a value of a name is text of its type, by Go's rules (crypto/x509, parseASN1String). */
export function isText({ tag, content }: Pick<DerValue, 'tag' | 'content'>): boolean {
  switch (tag) {
    case tags.utf8String:
      return isUtf8(content);
    case tags.printableString:
      return printable.test(content.toString('latin1'));
    case 0x12: // NumericString
      return /^[0-9 ]*$/.test(content.toString('latin1'));
    case 0x14: // T61String
      return true;
    case 0x16: // IA5String
      return content.every((byte) => byte < 0x80);
    case bmpString:
      return content.length % 2 === 0;
    default:
      return false;
  }
}

/** Whether a BMPString holds characters only; checked by newer Go (1.25). */
export function isBmpText(content: Buffer): boolean {
  const end =
    content.length >= 2 && content.readUInt16BE(content.length - 2) === 0 ? content.length - 2 : content.length;
  for (let at = 0; at + 1 < end; at += 2) {
    const point = content.readUInt16BE(at);
    const isNoCharacter = point >= 0xfffe || (point >= 0xfdd0 && point <= 0xfdef);
    if (isNoCharacter || (point >= 0xd800 && point <= 0xdfff)) return false;
  }
  return true;
}

/** Whether Go reads a key of this kind at all. OpenSSL checks that a point is on its curve. */
export function checkPublicKey(info: DerReader): boolean {
  const { oid, parameters } = readAlgorithm(info.inside(tags.sequence, 'public key algorithm'));
  const { bytes, unused } = info.bitString('public key');
  const check = keyChecks[oid];
  if (check === undefined) return false;
  if (unused > 0) throw new RangeError('public key has unused bits');
  check(bytes, parameters);
  return true;
}

const isPositive = (reader: DerReader, below?: bigint): boolean => {
  const value = reader.integer('number of the public key');
  return value > 0n && (below === undefined || value < below);
};

const p224 = '1.3.132.0.33';

const keyChecks: Readonly<Record<string, (key: Buffer, parameters: Buffer) => void>> = {
  // RSA
  '1.2.840.113549.1.1.1'(key, parameters) {
    if (!parameters.equals(Buffer.from([5, 0]))) throw new RangeError('RSA key without NULL parameters');
    const numbers = new DerReader(key).inside(tags.sequence, 'RSA key');
    if (!isPositive(numbers) || !isPositive(numbers, 2n ** 63n)) throw new RangeError('RSA key is out of range');
  },
  // ECDSA
  '1.2.840.10045.2.1'(key, parameters) {
    const oid = new DerReader(parameters).oid('elliptic curve');
    const size = oid === p224 ? 28 : curves[oid]?.size;
    if (size === undefined) return; // certifiedAlgorithmOf() refuses it by its name
    if (key[0] !== 4 || key.length !== 1 + 2 * size) throw new RangeError('point is not uncompressed');
  },
  // DSA
  '1.2.840.10040.4.1'(key, parameters) {
    const domain = new DerReader(parameters).inside(tags.sequence, 'DSA parameters');
    const areGood = [new DerReader(key), domain, domain, domain].every((reader) => isPositive(reader));
    if (!areGood) throw new RangeError('DSA key is out of range');
  },
  '1.3.101.112': checkRaw, // Ed25519
  '1.3.101.110': checkRaw, // X25519
};

function checkRaw(key: Buffer, parameters: Buffer): void {
  if (key.length !== 32 || parameters.length > 0)
    throw new RangeError('public key of another length, or with parameters');
}
