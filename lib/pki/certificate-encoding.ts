// Whether Go can parse a certificate (crypto/x509, parser.go of Go 1.22 and 1.26), and from when to when it is valid.
// OpenSSL takes dates that do not exist, two signature algorithms that differ, names that are no text; every Kubernetes
// component refuses the file around such a certificate. In the order of Go's parser, and no stricter: what is not asked
// there is not asked here. What Go has begun to ask is told and no error: there are clusters whose components load it.
import { isUtf8 } from 'node:buffer';
import { DerReader } from './der-reader.ts';
import { tags } from './der.ts';
import { checkExtensions, context, contextConstructed } from './extension-encoding.ts';
import { type Later, type LaterRefusal, laterRefusals } from './later-refusals.ts';

export interface Encoding {
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Since when Go refuses it, if it has not always done so. */
  readonly refusal?: LaterRefusal;
}

/** `der`: the whole certificate. Throws RangeError where no Go has ever accepted it. */
export function checkEncoding(der: Buffer): Encoding {
  const later = laterRefusals();
  const outer = new DerReader(der);
  const parts = outer.inside(tags.sequence, 'certificate');
  if (!outer.isEmpty) throw new RangeError('bytes after the end');
  const tbs = parts.inside(tags.sequence, 'tbsCertificate');
  const version = readVersion(tbs);
  if (tbs.integer('serial number') < 0n) later.note('1.23', 'its serial number is negative');
  const algorithm = tbs.content(tags.sequence, 'signature algorithm');
  if (!parts.content(tags.sequence, 'signature algorithm').equals(algorithm)) {
    throw new RangeError('the two signature algorithms differ');
  }
  checkAlgorithm(new DerReader(algorithm));
  checkName(tbs.inside(tags.sequence, 'issuer'), later);
  const validity = tbs.inside(tags.sequence, 'validity');
  const [notBefore, notAfter] = [validity.time('notBefore'), validity.time('notAfter')];
  checkName(tbs.inside(tags.sequence, 'subject'), later);
  checkPublicKey(tbs.inside(tags.sequence, 'public key'));
  if (version > 1) for (const id of [1, 2]) tbs.optional(context(id));
  if (version === 3) checkExtensions(tbs.optional(contextConstructed(3)), later);
  parts.bitString('signature');
  const { refusal } = later;
  return { notBefore, notAfter, ...(refusal !== undefined && { refusal }) };
}

function readVersion(tbs: DerReader): number {
  const part = tbs.optional(contextConstructed(0));
  if (part === undefined) return 1;
  const version = Number(part.integer('version')) + 1;
  if (!part.isEmpty || version < 1 || version > 3) throw new RangeError('version is not 1, 2 or 3');
  return version;
}

function checkAlgorithm(algorithm: DerReader): { readonly oid: string; readonly parameters: Buffer } {
  const oid = algorithm.oid('algorithm');
  return { oid, parameters: algorithm.isEmpty ? Buffer.alloc(0) : algorithm.any().raw };
}

function checkName(name: DerReader, later: Later): void {
  while (!name.isEmpty) {
    const set = name.inside(tags.set, 'part of a name');
    while (!set.isEmpty) {
      const attribute = set.inside(tags.sequence, 'attribute of a name');
      attribute.oid('type of a name');
      const { tag, content } = attribute.any();
      if (tag === bmpString && !isBmpText(content)) later.note('1.25', 'a name has characters that are none');
      if (!isText(tag, content)) throw new RangeError('a name is no text of its type');
    }
  }
}

const bmpString = 0x1e;
const printable = /^[A-Za-z0-9 '()*+,\-./:=?&]*$/;

function isText(tag: number, content: Buffer): boolean {
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

function isBmpText(content: Buffer): boolean {
  const end =
    content.length >= 2 && content.readUInt16BE(content.length - 2) === 0 ? content.length - 2 : content.length;
  for (let at = 0; at + 1 < end; at += 2) {
    const point = content.readUInt16BE(at);
    const isNoCharacter = point >= 0xfffe || (point >= 0xfdd0 && point <= 0xfdef);
    if (isNoCharacter || (point >= 0xd800 && point <= 0xdfff)) return false;
  }
  return true;
}

/** Object identifiers as hex of their content. */
const keyOids = {
  rsa: '2a864886f70d010101',
  dsa: '2a8648ce380401',
  ecdsa: '2a8648ce3d0201',
  x25519: '2b656e',
  ed25519: '2b6570',
} as const;
/** Curves by the length of an uncompressed point: P-224, P-256, P-384, P-521. */
const pointLengths: Readonly<Record<string, number>> = {
  '2b81040021': 57,
  '2a8648ce3d030107': 65,
  '2b81040022': 97,
  '2b81040023': 133,
};

/** That a point is on its curve OpenSSL finds out. */
function checkPublicKey(info: DerReader): void {
  const { oid, parameters } = checkAlgorithm(info.inside(tags.sequence, 'public key algorithm'));
  const { bytes, unused } = info.bitString('public key');
  const check = keyChecks[oid];
  if (check === undefined) return; // of a kind that Go does not know it reads nothing
  if (unused > 0) throw new RangeError('public key has unused bits');
  check(bytes, parameters);
}

const isPositive = (reader: DerReader, below?: bigint): boolean => {
  const value = reader.integer('number of the public key');
  return value > 0n && (below === undefined || value < below);
};

const keyChecks: Readonly<Record<string, (key: Buffer, parameters: Buffer) => void>> = {
  [keyOids.rsa](key, parameters) {
    if (!parameters.equals(Buffer.from([5, 0]))) throw new RangeError('RSA key without NULL parameters');
    const numbers = new DerReader(key).inside(tags.sequence, 'RSA key');
    if (!isPositive(numbers) || !isPositive(numbers, 2n ** 63n)) throw new RangeError('RSA key is out of range');
  },
  [keyOids.ecdsa](key, parameters) {
    const length = pointLengths[new DerReader(parameters).oid('elliptic curve')];
    if (length === undefined) return; // key-algorithm.ts refuses it by its name
    if (key[0] !== 4 || key.length !== length) throw new RangeError('point is not uncompressed');
  },
  [keyOids.ed25519]: checkRaw,
  [keyOids.x25519]: checkRaw,
  [keyOids.dsa](key, parameters) {
    const domain = new DerReader(parameters).inside(tags.sequence, 'DSA parameters');
    const areGood = [new DerReader(key), domain, domain, domain].every((reader) => isPositive(reader));
    if (!areGood) throw new RangeError('DSA key is out of range');
  },
};

function checkRaw(key: Buffer, parameters: Buffer): void {
  if (key.length !== 32 || parameters.length > 0)
    throw new RangeError('public key of another length, or with parameters');
}
