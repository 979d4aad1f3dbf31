// Whether Go can parse a certificate (crypto/x509, parser.go of Go 1.26), and from when to when it is valid. OpenSSL takes
// dates that do not exist, two signature algorithms that differ, names that are no text; every Kubernetes component refuses
// the file around such a certificate. In the order of Go's parser, and no stricter: what is not asked there is not asked here.
import { isUtf8 } from 'node:buffer';
import { isIP } from 'node:net';
import { DerReader } from './der-reader.ts';
import { tags } from './der.ts';

export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** Context-specific tags. */
const context = (number: number): number => 0x80 | number;
const contextConstructed = (number: number): number => 0xa0 | number;

/** `der`: the whole certificate. Throws RangeError where Go refuses it. */
export function checkEncoding(der: Buffer): Validity {
  const outer = new DerReader(der);
  const parts = outer.inside(tags.sequence, 'certificate');
  if (!outer.isEmpty) throw new RangeError('bytes after the end');
  const tbs = parts.inside(tags.sequence, 'tbsCertificate');
  const version = readVersion(tbs);
  if (tbs.integer('serial number') < 0n) throw new RangeError('serial number is negative');
  const algorithm = tbs.content(tags.sequence, 'signature algorithm');
  if (!parts.content(tags.sequence, 'signature algorithm').equals(algorithm)) {
    throw new RangeError('the two signature algorithms differ');
  }
  checkAlgorithm(new DerReader(algorithm));
  checkName(tbs.inside(tags.sequence, 'issuer'));
  const validity = tbs.inside(tags.sequence, 'validity');
  const [notBefore, notAfter] = [validity.time('notBefore'), validity.time('notAfter')];
  checkName(tbs.inside(tags.sequence, 'subject'));
  checkPublicKey(tbs.inside(tags.sequence, 'public key'));
  if (version > 1) for (const id of [1, 2]) tbs.optional(context(id));
  if (version === 3) checkExtensions(tbs.optional(contextConstructed(3)));
  parts.bitString('signature');
  return { notBefore, notAfter };
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

function checkName(name: DerReader): void {
  while (!name.isEmpty) {
    const set = name.inside(tags.set, 'part of a name');
    while (!set.isEmpty) {
      const attribute = set.inside(tags.sequence, 'attribute of a name');
      attribute.oid('type of a name');
      const { tag, content } = attribute.any();
      if (!isText(tag, content)) throw new RangeError('a name is no text of its type');
    }
  }
}

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
      return isAscii(content);
    case 0x1e: // BMPString
      return isBmpText(content);
    default:
      return false;
  }
}

const isAscii = (content: Buffer): boolean => content.every((byte) => byte < 0x80);

function isBmpText(content: Buffer): boolean {
  if (content.length % 2 !== 0) return false;
  const end =
    content.length >= 2 && content.readUInt16BE(content.length - 2) === 0 ? content.length - 2 : content.length;
  for (let at = 0; at < end; at += 2) {
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

function checkExtensions(part: DerReader | undefined): void {
  if (part === undefined) return;
  const list = part.inside(tags.sequence, 'extensions');
  const found: { readonly oid: string; readonly critical: boolean; readonly value: Buffer }[] = [];
  while (!list.isEmpty) {
    const extension = list.inside(tags.sequence, 'extension');
    const oid = extension.oid('type of an extension');
    const critical = extension.next === tags.boolean && extension.boolean('critical');
    const value = extension.content(tags.octetString, 'value of an extension');
    if (found.some((other) => other.oid === oid)) throw new RangeError('an extension is there twice');
    found.push({ oid, critical, value });
  }
  for (const { oid, critical, value } of found) {
    if (critical && neverCritical.has(oid)) throw new RangeError('an extension must not be critical');
    extensionChecks[oid]?.(new DerReader(value));
  }
}

/** Key identifiers and authorityInfoAccess. */
const neverCritical: ReadonlySet<string> = new Set(['551d0e', '551d23', '2b06010505070101']);

/** By type, what its value must be: 2.5.29.x is 551dxx. */
const extensionChecks: Readonly<Record<string, (value: DerReader) => void>> = {
  '551d0e': (value) => void value.content(tags.octetString, 'subject key identifier'),
  '551d0f': (value) => void value.bitString('key usage'),
  '551d11': (value) => each(value, 'alternative names', checkAlternativeName),
  '551d13'(value) {
    const parts = value.inside(tags.sequence, 'basic constraints');
    if (parts.next === tags.boolean) parts.boolean('CA flag');
    if (parts.next === tags.integer) isIn(parts.integer('path length'), 0n, 2n ** 63n);
  },
  '551d1e': checkNameConstraints,
  '551d1f': (value) =>
    each(value, 'CRL distribution points', (points) => {
      const point = points.inside(tags.sequence, 'CRL distribution point');
      const uris = point.optional(contextConstructed(0))?.inside(contextConstructed(0), 'CRL distribution point');
      while (uris?.next === context(6)) uris.any();
    }),
  '551d20'(value) {
    const seen = new Set<string>();
    each(value, 'certificate policies', (policies) => {
      const oid = policies.inside(tags.sequence, 'policy').content(tags.oid, 'policy').toString('hex');
      if (seen.has(oid) || !isOid(Buffer.from(oid, 'hex'))) throw new RangeError('certificate policies are damaged');
      seen.add(oid);
    });
  },
  '551d21': (value) =>
    each(value, 'policy mappings', (mappings) => {
      const mapping = mappings.inside(tags.sequence, 'policy mapping');
      for (const side of ['issuer', 'subject']) mapping.content(tags.oid, `policy of the ${side}`);
    }),
  '551d23'(value) {
    const parts = value.inside(tags.sequence, 'authority key identifier');
    if (parts.next === context(0)) parts.any();
  },
  '551d24'(value) {
    const parts = value.inside(tags.sequence, 'policy constraints');
    for (const number of [0, 1]) {
      if (parts.next === context(number))
        isIn(parts.integer('policy constraint', context(number)), -(2n ** 63n), 2n ** 63n);
    }
  },
  '551d25': (value) => each(value, 'extended key usages', (usages) => void usages.oid('extended key usage')),
  '551d36': (value) => isIn(value.integer('inhibitAnyPolicy'), -(2n ** 63n), 2n ** 63n),
  '2b06010505070101': (value) =>
    each(value, 'authority info access', (accesses) => {
      const access = accesses.inside(tags.sequence, 'authority info access');
      access.oid('access method');
      if (access.next === context(6)) access.any();
    }),
};

function each(value: DerReader, what: string, check: (items: DerReader) => void): void {
  const items = value.inside(tags.sequence, what);
  while (!items.isEmpty) check(items);
}

function isIn(value: bigint, from: bigint, below: bigint): void {
  if (value < from || value >= below) throw new RangeError('number out of range');
}

/** Without a limit for the size of an arc. */
function isOid(content: Buffer): boolean {
  const starts = (byte: number, at: number): boolean => byte === 0x80 && (at === 0 || (content[at - 1] ?? 0) < 0x80);
  return content.length > 0 && (content.at(-1) ?? 0) < 0x80 && !content.some(starts);
}

function checkAlternativeName(names: DerReader): void {
  const { tag, content } = names.any();
  const isAsciiKind = tag === context(1) || tag === context(2) || tag === context(6);
  if (isAsciiKind && !isAscii(content)) throw new RangeError('an alternative name is no text');
  if (tag === context(6) && !isUri(content.toString('latin1'))) throw new RangeError('an alternative name is no URI');
  if (tag === context(7) && content.length !== 4 && content.length !== 16) {
    throw new RangeError(`an IP address of ${content.length} bytes`);
  }
}

/** As far as net/url refuses what may stand in a certificate: control characters, broken escapes, a host that is none. */
function isUri(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(text) || /%(?![0-9A-Fa-f]{2})/.test(text.split('?')[0] ?? '')) return false;
  const host = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i.exec(text)?.[1] ?? '';
  return !text.startsWith(':') && (host === '' || isDomain(host, false));
}

function isDomain(text: string, isConstraint: boolean): boolean {
  if (text === '') return isConstraint;
  if ((!isConstraint && text.endsWith('.')) || text.length > 253) return false;
  const labels = (isConstraint && text.startsWith('.') ? text.slice(1) : text).split('.');
  return /^[!-~]*$/.test(text) && labels.every(({ length }) => length > 0 && length <= 63);
}

function checkNameConstraints(value: DerReader): void {
  const parts = value.inside(tags.sequence, 'name constraints');
  const [permitted, excluded] = [parts.optional(contextConstructed(0)), parts.optional(contextConstructed(1))];
  const lists = [permitted, excluded].filter((list) => list !== undefined);
  if (!value.isEmpty || !parts.isEmpty || !lists.some((list) => !list.isEmpty)) {
    throw new RangeError('name constraints are empty or damaged');
  }
  for (const list of lists) while (!list.isEmpty) checkConstraint(list.inside(tags.sequence, 'name constraint').any());
}

function checkConstraint({ tag, content }: { readonly tag: number; readonly content: Buffer }): void {
  const text = content.toString('latin1');
  const isGood = ((): boolean => {
    if (tag === context(7)) return isNetwork(content);
    if (tag === context(2)) return isAscii(content) && isDomain(text, true);
    if (tag === context(6)) return isAscii(content) && isIP(text) === 0 && isDomain(text, true);
    if (tag === context(1)) return isAscii(content) && (/^[^@]+@/.test(text) || isDomain(text, true));
    return true;
  })();
  if (!isGood) throw new RangeError('a name constraint is damaged');
}

/** An address and a mask of ones followed by zeros. */
function isNetwork(content: Buffer): boolean {
  if (content.length !== 8 && content.length !== 32) return false;
  const bits = [...content.subarray(content.length / 2)].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return /^1*0*$/.test(bits);
}
