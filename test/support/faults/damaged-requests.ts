// Certificate signing requests as no program makes them, from a seed: what is signed is changed before it is signed, so that
// its signature is right and only its form is odd; the request around it and its PEM text are changed after that.
import { type KeyObject, generateKeyPairSync, sign } from 'node:crypto';
import { childrenOf, DerReader, readDer, writeDer } from '../../../lib/pki/der.ts';
import { encodePem } from '../../../lib/pki/pem.ts';
import { oidDer } from '../certificates/request-forms.ts';
import { damages, type Dice } from './damage.ts';

interface Signer {
  readonly key: KeyObject;
  /** SubjectPublicKeyInfo. */
  readonly info: Buffer;
  readonly algorithms: readonly (readonly [oid: string, hash: string | null, parameters: Buffer])[];
}

const none = Buffer.alloc(0);
const asn1Null = Buffer.from([5, 0]);
const rsaHashes = [
  ['1.2.840.113549.1.1.11', 'sha256', asn1Null],
  ['1.2.840.113549.1.1.11', 'sha256', asn1Null],
  ['1.2.840.113549.1.1.13', 'sha512', asn1Null],
  ['1.2.840.113549.1.1.11', 'sha256', none],
  ['1.2.840.113549.1.1.5', 'sha1', asn1Null],
] as const;
const ecHashes = [
  ['1.2.840.10045.4.3.2', 'sha256', none],
  ['1.2.840.10045.4.3.2', 'sha256', none],
  ['1.2.840.10045.4.3.4', 'sha512', none],
  ['1.2.840.10045.4.3.2', 'sha256', asn1Null],
  ['1.2.840.10045.4.1', 'sha1', none],
] as const;
const edHashes = [
  ['1.3.101.112', null, none],
  ['1.3.101.112', null, asn1Null],
] as const;

/** Made once: keys of a thousand requests would take minutes. */
export function makeSigners(): readonly Signer[] {
  const infoOf = (key: KeyObject): Buffer => key.export({ type: 'spki', format: 'der' });
  const signer = (
    { publicKey, privateKey }: { publicKey: KeyObject; privateKey: KeyObject },
    algorithms: Signer['algorithms'],
    change: (info: Buffer) => Buffer = (info) => info,
  ): Signer => ({ key: privateKey, info: change(infoOf(publicKey)), algorithms });
  const ec = (namedCurve: string, paramEncoding: 'named' | 'explicit' = 'named') =>
    generateKeyPairSync('ec', { namedCurve, paramEncoding });
  const rsa = (modulusLength: number, publicExponent = 65_537) =>
    generateKeyPairSync('rsa', { modulusLength, publicExponent });
  const [p256, r2048] = [ec('P-256'), rsa(2048)];
  return [
    signer(p256, ecHashes),
    signer(p256, ecHashes),
    signer(p256, ecHashes),
    signer(r2048, rsaHashes),
    signer(generateKeyPairSync('ed25519'), edHashes),
    signer(ec('P-384'), ecHashes),
    signer(ec('P-521'), ecHashes),
    signer(ec('P-224'), ecHashes),
    signer(ec('secp256k1'), ecHashes),
    signer(ec('P-256', 'explicit'), ecHashes),
    signer(p256, ecHashes, compressed),
    signer(rsa(512), rsaHashes),
    signer(rsa(1024), rsaHashes),
    signer(rsa(2048, 3), rsaHashes),
    signer(rsa(2048, 4_294_967_291), rsaHashes),
    signer(r2048, rsaHashes, withoutParameters),
  ];
}

function compressed(info: Buffer): Buffer {
  const [algorithm, key] = childrenOf(readDer(info));
  const point = key?.content.subarray(2) ?? none;
  const parity = Buffer.from([0, 2 + ((point.at(-1) ?? 0) & 1)]);
  return writeDer(0x30, algorithm?.raw ?? none, writeDer(3, parity, point.subarray(0, point.length / 2)));
}

function withoutParameters(info: Buffer): Buffer {
  const [algorithm, key] = childrenOf(readDer(info));
  const [oid] = algorithm === undefined ? [] : childrenOf(algorithm);
  return writeDer(0x30, writeDer(0x30, oid?.raw ?? none), key?.raw ?? none);
}

const texts = (dice: Dice, wanted: string): Buffer => {
  const odd = [
    wanted.toUpperCase(),
    `${wanted}.`,
    ` ${wanted}`,
    `${wanted} `,
    `${wanted}\0`,
    `${wanted}\0.example.com`,
    `${wanted}\n`,
    wanted.replace('a', '\u0430'),
    `${wanted}*`,
    `${wanted}@&_`,
    `${wanted},O=system:masters`,
    '',
  ];
  if (dice.roll(30) === 0) return Buffer.concat([Buffer.from(wanted), dice.bytes(3)]);
  if (dice.roll(30) === 0) return Buffer.from(wanted, 'utf16le').swap16();
  return Buffer.from(dice.roll(8) === 0 ? dice.pick(odd) : wanted);
};

const stringTags = [0x0c, 0x13, 0x16, 0x14, 0x1e, 0x1c, 0x12, 0x1a, 0x04, 0x03, 0x02, 0x30];
const oddOids = ['2.5.4.11', '2.5.4.5', '2.5.4.97', '1.2.3.4.5', '2.999.4294967295', '0.9.2342.19200300.100.1.25'];

function attributeOf(dice: Dice, type: string, value: string): Buffer {
  const tag = dice.roll(12) === 0 ? dice.pick(stringTags) : dice.pick([0x0c, 0x13]);
  const parts = [oidDer(dice.roll(30) === 0 ? dice.pick(oddOids) : type), writeDer(tag, texts(dice, value))];
  if (dice.roll(40) === 0) parts.push(asn1Null);
  return writeDer(0x30, ...parts);
}

function subjectOf(dice: Dice): Buffer {
  const organization = (value = 'system:nodes'): Buffer => attributeOf(dice, '2.5.4.10', value);
  const commonName = (value = 'system:node:panda'): Buffer => attributeOf(dice, '2.5.4.3', value);
  const set = (...values: readonly Buffer[]): Buffer => writeDer(0x31, ...values);
  const plain = [set(organization()), set(commonName())];
  const shapes: readonly (() => readonly Buffer[])[] = [
    () => plain,
    () => plain,
    () => plain,
    () => plain.toReversed(),
    () => [set(organization(), commonName())],
    () => [set(commonName(), organization())],
    () => [...plain, set(organization('system:masters'))],
    () => [set(organization('system:masters')), ...plain],
    () => [set(organization(), organization('system:masters')), set(commonName())],
    () => [...plain, set(commonName('system:node:tiger'))],
    () => [set(organization()), set(commonName(), commonName('kubernetes-admin'))],
    () => [...plain, set(attributeOf(dice, dice.pick(oddOids), 'x'))],
    () => [...plain, set()],
    () => plain.slice(1),
    () => [],
  ];
  return writeDer(0x30, ...dice.pick(shapes)());
}

function generalName(dice: Dice): Buffer {
  const hosts = [
    'node1',
    'node1.local',
    'NODE1',
    'node1.',
    '*.local',
    'node1\0.evil',
    'n\u00f6de',
    '',
    'a\nDNS:b',
    '-a',
  ];
  const host = Buffer.from(dice.roll(3) === 0 ? dice.pick(hosts) : 'node1.local');
  switch (dice.roll(12)) {
    case 0:
      return writeDer(0x81, Buffer.from(dice.pick(['a@b', 'a', '', 'a@b\0c', 'ä@b'])));
    case 1:
      return writeDer(0x86, Buffer.from(dice.pick(['https://a/', 'spiffe://x/y', ':', 'http://a b/', '%zz', ''])));
    case 2:
    case 3:
      return writeDer(0x87, dice.bytes(dice.pick([4, 4, 4, 4, 16, 16, 16, 16, 0, 5, 8, 32])));
    case 4:
      return writeDer(0x87, Buffer.from('00000000000000000000ffffc0000201', 'hex'));
    case 5: // registeredID, otherName, directoryName, x400Address
      return writeDer(dice.pick([0x88, 0xa0, 0xa4, 0xa3]), oidDer('1.2.3'), writeDer(0xa0, writeDer(0x0c, host)));
    case 6: // of another class, constructed, or universal
      return writeDer(dice.pick([0xa2, 0x42, 0x16, 0x0c, 0xa7]), host);
    default:
      return writeDer(0x82, host);
  }
}

function extensionOf(dice: Dice): Buffer {
  const repeated = <T>(make: () => T): T[] => Array.from({ length: dice.roll(4) }, make);
  const values: readonly (() => readonly [string, Buffer])[] = [
    () => ['2.5.29.17', writeDer(dice.roll(20) === 0 ? 0x31 : 0x30, ...repeated(() => generalName(dice)))],
    () => ['2.5.29.17', writeDer(0x30, ...repeated(() => generalName(dice)))],
    () => ['2.5.29.19', writeDer(0x30, writeDer(1, Buffer.from([dice.pick([255, 255, 0, 1])])))],
    () => ['2.5.29.15', writeDer(3, Buffer.from(dice.pick([[2, 4], [5, 160], [7, 128], [0], [8, 1]])))],
    () => ['2.5.29.37', writeDer(0x30, oidDer('1.3.6.1.5.5.7.3.1'), oidDer('1.3.6.1.5.5.7.3.2'))],
    () => ['1.2.3.4294967295.1', dice.bytes(5)],
    () => ['1.2.840.113556.1.4.1', dice.bytes(9)],
  ];
  const [oid, value] = dice.pick(values)();
  const critical = dice.roll(6) === 0 ? [writeDer(1, Buffer.from([dice.pick([255, 0, 1])]))] : [];
  const after = dice.roll(40) === 0 ? [asn1Null] : [];
  return writeDer(0x30, oidDer(oid), ...critical, writeDer(4, value), ...after);
}

function attributesOf(dice: Dice): readonly Buffer[] {
  const wish = (): Buffer => {
    const extensions = Array.from({ length: 1 + dice.roll(3) }, () => extensionOf(dice));
    if (dice.roll(15) === 0) extensions.push(extensions[0] ?? none);
    const lists = [writeDer(0x30, ...extensions)];
    if (dice.roll(20) === 0) lists.push(writeDer(0x30, extensionOf(dice)));
    return writeDer(0x30, oidDer('1.2.840.113549.1.9.14'), writeDer(0x31, ...(dice.roll(30) === 0 ? [] : lists)));
  };
  const password = (): Buffer =>
    writeDer(0x30, oidDer('1.2.840.113549.1.9.7'), writeDer(0x31, writeDer(0x0c, Buffer.from('secret'))));
  const microsoft = (): Buffer => writeDer(0x30, oidDer('1.3.6.1.4.1.311.2.1.14'), writeDer(0x31, writeDer(0x30)));
  switch (dice.roll(10)) {
    case 0:
      return [wish(), wish()];
    case 1:
      return [password()];
    case 2:
      return [wish(), password()];
    case 3:
      return [microsoft(), wish()];
    case 4:
    case 5:
    case 6:
    case 7:
      return [wish()];
    default:
      return [];
  }
}

/** One change to one value somewhere in it: its length, its tag, twice, left out, or with bytes after its end. */
function changedDer(der: Buffer, dice: Dice): Buffer {
  let value;
  try {
    value = readDer(der);
  } catch {
    return dice.pick(damages)(der, dice);
  }
  let children: Buffer[] = [];
  try {
    if ((value.tag & 0x20) !== 0) children = new DerReader(value.content).all((each) => each.any().raw);
  } catch {
    // what is no list of values is changed as a whole
  }
  if (children.length > 0 && dice.roll(6) > 0) {
    const at = dice.roll(children.length);
    return writeDer(value.tag, ...children.with(at, changedDer(children[at] ?? none, dice)));
  }
  const { tag, content } = value;
  const long = (count: number): Buffer => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(content.length));
    return Buffer.concat([Buffer.from([tag, 0x80 | count]), length.subarray(8 - count), content]);
  };
  switch (dice.roll(12)) {
    case 0:
      return long(1);
    case 1:
      return long(dice.pick([2, 3, 4, 5, 8]));
    case 2:
      return Buffer.concat([Buffer.from([tag, 0x80]), content, Buffer.alloc(2)]); // indefinite
    case 3:
      return Buffer.concat([Buffer.from([tag, dice.pick([0x84, 0x88, 0xff]), 0xff, 0xff, 0xff, 0xff]), content]);
    case 4:
      return Buffer.concat([Buffer.from([tag ^ dice.pick([0x20, 0x40, 0x80, 1, 0x1f])]), der.subarray(1)]);
    case 5:
      return Buffer.concat([der, der]);
    case 6:
      return none;
    case 7:
      return writeDer(tag, content, dice.pick([asn1Null, Buffer.alloc(1), dice.bytes(2)]));
    case 8:
      return writeDer(tag, Buffer.alloc(1), content);
    case 9:
      return writeDer(tag, ...children.toReversed());
    case 10:
      return writeDer(tag);
    default:
      return dice.pick(damages)(der, dice);
  }
}

const pemChanges: readonly ((pem: string, dice: Dice) => string)[] = [
  (pem) => pem + pem,
  (pem) => pem.replace('-----\n', '-----\nProc-Type: 4,ENCRYPTED\n\n'),
  (pem) => pem.replace('-----\n', '-----\nx: y\n\n'),
  (pem) => pem.replaceAll('CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST'),
  (pem) => pem.replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE'),
  (pem) => pem.replace('END CERTIFICATE REQUEST', 'END CERTIFICATE'),
  (pem) => pem.replaceAll('\n', '\r\n'),
  (pem) => pem.replaceAll('\n', ' \n'),
  (pem) => pem.replaceAll('\n', '\n\n'),
  (pem) => `a line before\n${pem}a line after\n`,
  (pem) => ` ${pem}`,
  (pem) => `\ufeff${pem}`,
  (pem) => `x-----BEGIN CERTIFICATE REQUEST-----\n${pem}`,
  (pem) => `-----BEGIN CERTIFICATE REQUEST-----\n${pem}`,
  (pem) => `-----BEGIN X-----\nAAAA\n-----END X-----\n${pem}`,
  (pem) => pem.trimEnd(),
  (pem) => `${pem.trimEnd()}x`,
  (pem, dice) => inside(pem, dice, dice.pick(['*', '=', ' ', '\t', '\v', '\0', '-', '_', '\n', '\r', 'é', '----'])),
  (pem) => pem.replace(/=*\n-----END/, '\n-----END'),
  (pem) => pem.replace(/\n-----END/, '=\n-----END'),
  (pem) => pem.replace(/\n-----END/, 'AAAA\n-----END'),
  (pem) => pem.replace(/(.)(=+)\n-----END/, (_all, _last: string, pad: string) => `/${pad}\n-----END`),
  (pem, dice) => dice.pick(damages)(Buffer.from(pem), dice).toString('latin1'),
];

function inside(pem: string, dice: Dice, noise: string): string {
  const at = dice.roll(pem.length + 1);
  return pem.slice(0, at) + noise + pem.slice(at);
}

/** PEM text, mostly. */
export function damagedRequest(dice: Dice, signers: readonly Signer[]): Buffer {
  const signer = dice.roll(3) > 0 ? (signers[0] as Signer) : dice.pick(signers);
  const attributes = attributesOf(dice);
  const version = writeDer(2, Buffer.from(dice.roll(40) === 0 ? dice.pick([[1], [2], [0, 0], [255], []]) : [0]));
  const list = attributes.length === 0 && dice.roll(20) === 0 ? [] : [writeDer(0xa0, ...attributes)];
  let info = writeDer(0x30, version, subjectOf(dice), signer.info, ...list);
  if (dice.roll(4) === 0) info = changedDer(info, dice);
  const [oid, hash, parameters] = dice.pick(signer.algorithms);
  const by = dice.roll(25) === 0 ? dice.pick(signers) : signer;
  const signature = signatureOf(hash, info, by.key);
  const odd = dice.roll(25) === 0 ? dice.pick(damages)(signature, dice) : signature;
  const unused = Buffer.from([dice.roll(60) === 0 ? dice.roll(9) : 0]);
  let der = writeDer(0x30, info, writeDer(0x30, oidDer(oid), parameters), writeDer(3, unused, odd));
  if (dice.roll(8) === 0) der = changedDer(der, dice);
  const pem = encodePem({ label: 'CERTIFICATE REQUEST', der });
  return Buffer.from(dice.roll(6) === 0 ? dice.pick(pemChanges)(pem, dice) : pem);
}

/** A hash that is longer than a small RSA key can sign is left out. */
function signatureOf(hash: string | null, info: Buffer, key: KeyObject): Buffer {
  try {
    return sign(key.asymmetricKeyType === 'ed25519' ? null : (hash ?? 'sha256'), info, key);
  } catch {
    return Buffer.alloc(64);
  }
}
