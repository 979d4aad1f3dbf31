// Chains of certificates from a seed, made by their DER and signed by node:crypto: over every extension, hash, kind and size
// of key, constraint and date that a verifier looks at. Each certificate is nearly as it should be, so that about a third of
// the chains are good.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { derTime, tags, writeDer } from '../../lib/pki/der.ts';
import type { Dice } from '../support/faults/damage.ts';

export interface SeededChain {
  /** PEM. */
  readonly leaf: string;
  readonly intermediates: string;
  readonly roots: string;
  readonly usage: 'clientAuth' | 'serverAuth' | undefined;
  readonly hostname: string | undefined;
}

export const chainsAt = new Date('2026-06-01T00:00:00Z');

const hour = 3_600_000;
const at = (ms: number): Date => new Date(chainsAt.getTime() + ms);
const sequence = (...parts: readonly Buffer[]): Buffer => writeDer(tags.sequence, ...parts);
const explicit = (number: number, ...parts: readonly Buffer[]): Buffer => writeDer(0xa0 | number, ...parts);
const boolean = (value: boolean): Buffer => writeDer(tags.boolean, Buffer.from([value ? 0xff : 0]));
const integer = (...bytes: readonly number[]): Buffer => writeDer(tags.integer, Buffer.from(bytes));
const nullValue = Buffer.from([0x05, 0x00]);

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const base128 = (value: number): number[] => {
    const bytes = [value & 0x7f];
    for (let left = value >> 7; left > 0; left >>= 7) bytes.unshift((left & 0x7f) | 0x80);
    return bytes;
  };
  return writeDer(tags.oid, Buffer.from([first * 40 + second, ...rest].flatMap(base128)));
}

interface SeededKey {
  readonly kind: 'rsa' | 'ec' | 'ed25519';
  readonly key: KeyObject;
  readonly info: Buffer;
}

function makeKey(kind: SeededKey['kind'], make: () => { publicKey: KeyObject; privateKey: KeyObject }): SeededKey {
  const { publicKey, privateKey } = make();
  return { kind, key: privateKey, info: publicKey.export({ type: 'spki', format: 'der' }) };
}

let keysOnce: readonly SeededKey[] | undefined;

/** Made once: what a chain is judged by is their kind and size. The first six are good ones. */
function keys(): readonly SeededKey[] {
  const rsa = (modulusLength: number) => makeKey('rsa', () => generateKeyPairSync('rsa', { modulusLength }));
  const ec = (namedCurve: string) => makeKey('ec', () => generateKeyPairSync('ec', { namedCurve }));
  keysOnce ??= [
    ec('P-256'),
    ec('P-256'),
    ec('P-384'),
    rsa(2048),
    rsa(2048),
    makeKey('ed25519', () => generateKeyPairSync('ed25519')),
    ec('P-521'),
    ec('P-224'),
    rsa(1024),
    rsa(1016),
    rsa(512),
  ];
  return keysOnce;
}

const rsaHashes = {
  sha256: '1.2.840.113549.1.1.11',
  sha384: '1.2.840.113549.1.1.12',
  sha512: '1.2.840.113549.1.1.13',
  sha1: '1.2.840.113549.1.1.5',
  md5: '1.2.840.113549.1.1.4',
} as const;
const ecHashes = {
  sha256: '1.2.840.10045.4.3.2',
  sha384: '1.2.840.10045.4.3.3',
  sha512: '1.2.840.10045.4.3.4',
  sha1: '1.2.840.10045.4.1',
} as const;

interface Signature {
  readonly algorithm: Buffer;
  readonly sign: (tbs: Buffer) => Buffer;
}

function signatureBy({ kind, key }: SeededKey, dice: Dice): Signature {
  if (kind === 'ed25519') return { algorithm: sequence(oid('1.3.101.112')), sign: (tbs) => sign(null, tbs, key) };
  const isRsa = kind === 'rsa';
  const hashes: Readonly<Record<string, string>> = isRsa ? rsaHashes : ecHashes;
  const small = isRsa && (key.asymmetricKeyDetails?.modulusLength ?? 0) < 768;
  const digest = small ? 'sha256' : seldom(dice) ? dice.pick(Object.keys(hashes)) : 'sha256';
  const algorithm = sequence(oid(hashes[digest] ?? ''), ...(isRsa ? [nullValue] : []));
  return { algorithm, sign: (tbs) => sign(digest, tbs, key) };
}

/** One deviation among some dozen of choices leaves a third of the chains good. */
const seldom = (dice: Dice): boolean => dice.roll(40) === 0;

function name(text: string, dice: Dice, isOther: boolean): Buffer {
  const tag = isOther && seldom(dice) ? tags.printableString : tags.utf8String;
  return sequence(writeDer(tags.set, sequence(oid('2.5.4.3'), writeDer(tag, Buffer.from(text)))));
}

const generalNames = [
  'good.example.com',
  'GOOD.example.com',
  '*.example.com',
  'bad.other.org',
  'example.com',
  'x..y',
  '',
];
const addresses = [[192, 0, 2, 1], [10, 0, 0, 1], [...Buffer.from('20010db8000000000000000000000001', 'hex')]];
const uris = ['https://good.example.com/a', 'spiffe://192.0.2.1/x', 'urn:a:b', 'https://bad.other.org:443/'];
const mails = ['root@example.com', 'root@other.org', 'a@b@example.com'];

const text = (tag: number, value: string): Buffer => writeDer(tag, Buffer.from(value));

function alternativeNames(dice: Dice): Buffer {
  const names = [text(0x82, 'good.example.com'), writeDer(0x87, Buffer.from(addresses[0] ?? []))];
  while (dice.roll(4) === 0) {
    const more = [
      () => text(0x82, dice.pick(generalNames)),
      () => writeDer(0x87, Buffer.from(dice.pick(addresses))),
      () => text(0x86, dice.pick(uris)),
      () => text(0x81, dice.pick(mails)),
      () => writeDer(0x88, Buffer.from([0x2a, 0x03])), // registeredID
    ];
    names.push(dice.pick(more)());
  }
  return sequence(...names);
}

function nameConstraints(dice: Dice): Buffer {
  const network = (address: readonly number[], bits: number): Buffer => {
    const mask = address.map((_, byte) => (0xff00 >> Math.min(8, Math.max(0, bits - 8 * byte))) & 0xff);
    return writeDer(0x87, Buffer.from([...address.map((byte, index) => byte & (mask[index] ?? 0)), ...mask]));
  };
  const kinds = [
    () => text(0x82, dice.pick(['example.com', '.example.com', 'other.org', '', 'EXAMPLE.com', 'a..b', 'com'])),
    () => network(dice.pick(addresses), dice.pick([0, 8, 24, 32])),
    () => text(0x86, dice.pick(['example.com', '.example.com', 'other.org', '192.0.2.1'])),
    () => text(0x81, dice.pick(['example.com', 'root@example.com', '.org', 'root@'])),
    () => explicit(4, sequence()), // directoryName
  ];
  const list = (): Buffer[] => Array.from({ length: 1 + dice.roll(2) }, () => sequence(dice.pick(kinds)()));
  const [permitted, excluded] = [explicit(0, ...list()), explicit(1, ...list())];
  return sequence(...dice.pick([[permitted], [excluded], [permitted, excluded], []]));
}

const usageOids = {
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
  any: '2.5.29.37.0',
  codeSigning: '1.3.6.1.5.5.7.3.3',
} as const;

function extension(id: string, value: Buffer, isCritical: boolean): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), writeDer(tags.octetString, value));
}

function extensions(isCa: boolean, dice: Dice): readonly Buffer[] {
  const critical = (): boolean => dice.roll(2) === 0;
  const usages = (...names: readonly (keyof typeof usageOids)[]): Buffer =>
    extension('2.5.29.37', sequence(...names.map((one) => oid(usageOids[one]))), critical());
  const found: Buffer[] = [];
  if (isCa ? !seldom(dice) : seldom(dice)) {
    const length = dice.roll(6) === 0 ? [integer(dice.pick([0, 1, 2, 0x80]))] : [];
    found.push(extension('2.5.29.19', sequence(...(seldom(dice) ? [] : [boolean(true)]), ...length), critical()));
  }
  if (dice.roll(2) === 0) {
    const bits = seldom(dice) ? 0xa0 : isCa ? 0x06 : 0xa0;
    found.push(extension('2.5.29.15', writeDer(tags.bitString, Buffer.from([0, bits])), critical()));
  }
  if (!isCa && dice.roll(10) > 0) found.push(extension('2.5.29.17', alternativeNames(dice), seldom(dice)));
  if (isCa && dice.roll(6) === 0) found.push(extension('2.5.29.30', nameConstraints(dice), critical()));
  if (!isCa && dice.roll(2) === 0) found.push(usages('serverAuth', 'clientAuth'));
  else if (dice.roll(8) === 0) {
    found.push(usages(...dice.pick([['serverAuth'], ['clientAuth'], ['any'], ['codeSigning']] as const)));
  }
  if (seldom(dice)) found.push(extension(dice.pick(['1.2.3.4', '2.5.29.31', '2.5.29.46']), sequence(), critical()));
  if (seldom(dice)) found.push(extension('2.5.29.32', sequence(sequence(oid('1.2.3.5'))), critical()));
  if (seldom(dice)) {
    const required = writeDer(0x80, Buffer.from([dice.roll(3)]));
    found.push(extension('2.5.29.36', sequence(required), critical()));
  }
  if (seldom(dice)) found.push(extension('2.5.29.54', integer(dice.roll(2)), critical()));
  if (seldom(dice)) found.push(extension('2.5.29.14', writeDer(tags.octetString, Buffer.from([1, 2])), seldom(dice)));
  if (seldom(dice) && found[0] !== undefined) found.push(found[0]);
  return found;
}

interface Link {
  readonly name: string;
  readonly key: SeededKey;
}

function dates(dice: Dice): readonly [Date, Date] {
  if (!seldom(dice)) return [at(-hour), at(hour)];
  return dice.pick([
    [at(-2 * hour), at(-hour)],
    [at(hour), at(2 * hour)],
    [at(-hour), at(0)],
    [at(0), at(hour)],
    [at(-hour), at(-1000)],
    [at(hour), at(-hour)],
  ] as const);
}

/** DER. `isCa`: it is to sign others. */
function certificate(subject: Link, issuer: Link, isCa: boolean, dice: Dice): Buffer {
  const { algorithm, sign: signTbs } = signatureBy(issuer.key, dice);
  const isOld = seldom(dice) && dice.roll(2) === 0;
  const [notBefore, notAfter] = dates(dice);
  const list = isOld ? [] : extensions(isCa, dice);
  const tbs = sequence(
    ...(isOld ? [] : [explicit(0, integer(2))]),
    integer(seldom(dice) ? 0x80 : 1 + dice.roll(100)),
    algorithm,
    name(issuer.name, dice, true),
    sequence(derTime(notBefore), derTime(notAfter)),
    name(subject.name, dice, false),
    subject.key.info,
    ...(list.length > 0 ? [explicit(3, sequence(...list))] : []),
  );
  const signature = signTbs(seldom(dice) && dice.roll(2) === 0 ? Buffer.concat([tbs, Buffer.from([0])]) : tbs);
  return sequence(tbs, algorithm, writeDer(tags.bitString, Buffer.from([0]), signature));
}

const pem = (...certificates: readonly Buffer[]): string =>
  certificates
    .map((der) => `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`)
    .join('');

export function seededChain(dice: Dice): SeededChain {
  const key = (): SeededKey => dice.pick(seldom(dice) ? keys() : keys().slice(0, 6));
  const links: Link[] = Array.from({ length: 2 + dice.roll(3) }, (_, depth) => ({ name: `link ${depth}`, key: key() }));
  const [root, ...rest] = links as [Link, ...Link[]];
  const certificates = [certificate(root, root, true, dice)];
  for (const [depth, link] of rest.entries()) {
    const parent = links[depth] ?? root;
    const issuer = {
      name: seldom(dice) && dice.roll(2) === 0 ? 'somebody else' : parent.name,
      key: seldom(dice) && dice.roll(2) === 0 ? key() : parent.key,
    };
    certificates.push(certificate(link, issuer, depth < rest.length - 1, dice));
  }
  const [top = Buffer.alloc(0), ...below] = certificates;
  const leaf = below.pop() ?? top;
  return {
    leaf: pem(leaf),
    intermediates: pem(...below),
    roots: pem(...(seldom(dice) ? [top, ...below] : [top])),
    usage: dice.pick(['serverAuth', 'clientAuth', undefined]),
    hostname: dice.pick([undefined, undefined, 'good.example.com', 'a.example.com', '192.0.2.1', 'else.example.org']),
  };
}
