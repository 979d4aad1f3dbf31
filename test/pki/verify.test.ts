import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signSigner } from '../../lib/pki/sign.ts';
import { type ChainQuestion, signatureMatches, verifyChain } from '../../lib/pki/verify.ts';
import { type Authority, authority, day, leaf, now, one, p256 } from './authority.ts';
import { dated } from '../support/certificates/dated.ts';
import { opensslDir } from './openssl.ts';

interface World {
  root: Authority;
  /** Same name, another key. */
  twin: Authority;
  /** Same name and key as root, other dates: a CA renewed without a new key. */
  renewed: Certificate;
  /** root and middle, but expired. */
  ended: Certificate;
  endedMiddle: Certificate;
  middle: Authority;
  expiredRoot: Certificate;
  belowExpired: Certificate;
  serving: Certificate;
  client: Certificate;
  belowMiddle: Certificate;
  foreign: Foreign;
}

/** Certificates with properties that only openssl makes; they begin at the machine's time. */
interface Foreign {
  at: Date;
  root: Certificate;
  [name: string]: Certificate | Date;
}

/** Extensions of each CA that openssl makes, and what it signs. */
const foreignExtensions: Readonly<Record<string, readonly string[]>> = {
  critical: ['1.2.3.4=critical,ASN1:NULL'],
  noBasicConstraints: [],
  notCa: ['basicConstraints=critical,CA:FALSE'],
  noCertSign: ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,cRLSign'],
  clientOnly: ['basicConstraints=critical,CA:TRUE', 'extendedKeyUsage=clientAuth'],
  pathLengthZero: ['basicConstraints=critical,CA:TRUE,pathlen:0'],
  explicitNow: ['basicConstraints=critical,CA:TRUE', 'policyConstraints=critical,requireExplicitPolicy:0'],
  explicitNext: ['basicConstraints=critical,CA:TRUE', 'policyConstraints=critical,requireExplicitPolicy:1'],
  explicitLater: ['basicConstraints=critical,CA:TRUE', 'policyConstraints=critical,requireExplicitPolicy:5'],
  noMapping: ['basicConstraints=critical,CA:TRUE', 'policyConstraints=critical,inhibitPolicyMapping:0'],
  noAnyPolicy: ['basicConstraints=critical,CA:TRUE', 'inhibitAnyPolicy=critical,0'],
  mapping: ['basicConstraints=critical,CA:TRUE', '2.5.29.33=critical,DER:300c300a06032a030406032a0305'],
};

async function foreignWorld(): Promise<Foreign> {
  await using dir = await opensslDir();
  const { pem } = await generateKey(p256);
  await dir.file('key', pem);
  const config = (name: string, extensions: readonly string[]): Promise<string> =>
    dir.file(`${name}.cnf`, `[ext]\n${extensions.join('\n')}\n[req]\ndistinguished_name=dn\n[dn]\n`);
  const make = async (name: string, extensions: readonly string[], hash = '-sha256'): Promise<Certificate> => {
    const args = ['-new', '-key', 'key', '-subj', `/CN=${name}`, '-config', await config(name, extensions)];
    await dir.openssl('req', ...args, '-out', `${name}.csr`);
    const signer = name === 'root' ? ['-signkey', 'key'] : ['-CA', 'root.pem', '-CAkey', 'key', '-CAcreateserial'];
    const more = ['-extfile', `${name}.cnf`, '-extensions', 'ext', '-days', '30', hash, '-out', `${name}.pem`];
    await dir.openssl('x509', '-req', '-in', `${name}.csr`, ...signer, ...more);
    return one(await readFile(dir.path(`${name}.pem`), 'utf8'));
  };
  const root = await make('root', ['basicConstraints=critical,CA:TRUE']);
  const foreign: Foreign = { root, at: new Date(root.facts.notBefore.getTime() + 3_600_000) };
  foreign['sha1'] = await make('sha1', ['subjectAltName=DNS:x'], '-sha1');
  for (const [name, extensions] of Object.entries(foreignExtensions)) foreign[name] = await make(name, extensions);
  // every CA has the same key, so one leaf for each tells whether that CA would be believed
  await dir.file('below.cnf', '[ext]\nsubjectAltName=DNS:x\n');
  await dir.openssl('req', '-new', '-key', 'key', '-subj', '/CN=x', '-config', 'root.cnf', '-out', 'below.csr');
  const sign = ['x509', '-req', '-in', 'below.csr', '-CAkey', 'key', '-set_serial', '7', '-days', '30'];
  for (const name of Object.keys(foreignExtensions)) {
    const own = ['-CA', `${name}.pem`, '-extfile', 'below.cnf', '-extensions', 'ext', '-out', `below-${name}.pem`];
    await dir.openssl(...sign, ...own);
    foreign[`below ${name}`] = one(await readFile(dir.path(`below-${name}.pem`), 'utf8'));
  }
  return foreign;
}

const pemOf = ({ key }: Authority): string => String(key.export({ type: 'pkcs8', format: 'pem' }));

let world: World;
beforeAll(async () => {
  const root = await authority({ commonName: 'root' });
  const middle = await authority({ commonName: 'middle', issuer: root });
  const again = { commonName: 'root', key: root.key, notBefore: day(-1), notAfter: day(900), now };
  const old = await authority({ commonName: 'old', notBefore: day(-90), notAfter: day(-1), at: day(-50) });
  world = {
    root,
    middle,
    twin: await authority({ commonName: 'root' }),
    renewed: await signSigner(again),
    ended: one(dated(root.certificate.pem, pemOf(root), day(-90), day(-1))),
    endedMiddle: one(dated(middle.certificate.pem, pemOf(root), day(-90), day(-1))),
    expiredRoot: old.certificate,
    belowExpired: await leaf(old, { now: day(-50), notBefore: day(-51) }),
    serving: await leaf(root, { hostnames: ['*.example.com', 'localhost', '10.0.0.1', 'fd00::1'] }),
    client: await leaf(root, { usage: 'client', commonName: 'c', hostnames: [] }),
    belowMiddle: await leaf(middle),
    foreign: await foreignWorld(),
  };
}, 60_000);

type Row = readonly [string, (w: World) => Partial<ChainQuestion>, 'ok' | RegExp];

async function expectRow(ask: Row[1], expected: Row[2]): Promise<void> {
  const asked = { leaf: world.serving, intermediates: [], roots: [world.root.certificate], at: now, ...ask(world) };
  const answer = verifyChain(asked);
  if (expected === 'ok') expect(answer).toEqual({ ok: true });
  else expect(answer).toEqual({ ok: false, reason: expect.stringMatching(expected) as string });
}

const below =
  (name: string) =>
  (w: World): Partial<ChainQuestion> => {
    const [made, ca] = [w.foreign[`below ${name}`] as Certificate, w.foreign[name] as Certificate];
    return { leaf: made, intermediates: [ca], roots: [w.foreign.root], at: w.foreign.at };
  };
const trusting =
  (name: string) =>
  (w: World): Partial<ChainQuestion> => ({
    ...below(name)(w),
    roots: [w.foreign[name] as Certificate],
  });

describe('verifyChain()', () => {
  test.each<Row>([
    ['a leaf below its root', () => ({ usage: 'serverAuth', hostname: 'localhost' }), 'ok'],
    ['no roots', () => ({ roots: [] }), /is signed by "CN=root", which is not among the trusted certificates/],
    ['a root of another name', (w) => ({ roots: [w.middle.certificate] }), /not among the trusted/],
    [
      'a root of the same name and another key',
      (w) => ({ roots: [w.twin.certificate] }),
      /was not signed by the key of/,
    ],
    ['both of one name: the right one is found', (w) => ({ roots: [w.twin.certificate, w.root.certificate] }), 'ok'],
    ['a root renewed with the same key', (w) => ({ roots: [w.renewed] }), 'ok'],
    ['the leaf itself among the roots', (w) => ({ roots: [w.serving] }), 'ok'],
    ['before it begins', () => ({ at: new Date(day(-1).getTime() - 1) }), /is not valid before/],
    ['at its first moment', () => ({ at: day(-1) }), 'ok'],
    ['at its last moment', () => ({ at: day(30) }), 'ok'],
    ['after its end', () => ({ at: new Date(day(30).getTime() + 1) }), /expired at 2026-07-01T12:00:00/],
    ['an expired root', (w) => ({ leaf: w.belowExpired, roots: [w.expiredRoot] }), /"CN=127.0.0.1" expired/],
    ['a root that ended before its leaf', (w) => ({ roots: [w.ended] }), /"CN=root" expired/],
    ['the same, by its name and key alone', (w) => ({ roots: [w.ended], rootDates: 'ignored' }), 'ok'],
    [
      'a leaf after its end, by the key of its root',
      (w) => ({ rootDates: 'ignored', roots: [w.ended], at: day(31) }),
      /expired at 2026-07-01/,
    ],
    [
      'an intermediate after its end, by the key of its root',
      (w) => ({ leaf: w.belowMiddle, intermediates: [w.endedMiddle], rootDates: 'ignored' }),
      /"CN=middle" expired/,
    ],
    [
      'an intermediate that is sent along',
      (w) => ({ leaf: w.belowMiddle, intermediates: [w.middle.certificate] }),
      'ok',
    ],
    ['an intermediate that is missing', (w) => ({ leaf: w.belowMiddle }), /signed by "CN=middle", which is not among/],
    [
      'an intermediate in the trust file is a root',
      (w) => ({ leaf: w.belowMiddle, roots: [w.middle.certificate] }),
      'ok',
    ],
    [
      'an intermediate whose root is not trusted',
      (w) => ({ leaf: w.belowMiddle, intermediates: [w.middle.certificate], roots: [w.twin.certificate] }),
      /"CN=middle" was not signed by/,
    ],
    [
      'a client certificate for serving',
      (w) => ({ leaf: w.client, usage: 'serverAuth' }),
      /may not be used for server/,
    ],
    ['a client certificate for a client', (w) => ({ leaf: w.client, usage: 'clientAuth' }), 'ok'],
    ['a name below the wildcard', () => ({ hostname: 'API.example.com' }), 'ok'],
    ['a name with a dot at its end', () => ({ hostname: 'api.example.com.' }), 'ok'],
    [
      'a name two labels below the wildcard',
      () => ({ hostname: 'a.b.example.com' }),
      /is not valid for "a\.b\.example/,
    ],
    ['the domain of the wildcard', () => ({ hostname: 'example.com' }), /is not valid for/],
    ['an address in another form', () => ({ hostname: 'FD00:0:0::1' }), 'ok'],
    ['another address', () => ({ hostname: '10.0.0.2' }), /only for \*\.example\.com, 10\.0\.0\.1, fd00::1, localhost/],
    ['the common name is no host name', (w) => ({ leaf: w.client, hostname: 'c' }), /only for no name/],
  ])('%s', (_name, ask, expected) => expectRow(ask, expected));

  test.each<Row>([
    ['a SHA-1 signature', (w) => sha1Question(w), /insecure hash/],
    ['below an intermediate that is no CA', below('notCa'), /"CN=notCa" is not a CA/],
    ['below a trusted certificate that is no CA', trusting('notCa'), /"CN=notCa" is not a CA/],
    ['below a certificate without basic constraints', below('noBasicConstraints'), /is not a CA/],
    ['below a CA that may not sign', below('noCertSign'), /may not sign certificates/],
    ['below a trusted CA that may not sign', trusting('noCertSign'), /may not sign certificates/],
    ['below a CA with an unknown critical extension', below('critical'), /unknown critical extension 1\.2\.3\.4/],
    // What Go 1.26 makes of each: looks at no policies of a root, and follows those of a CA that is sent along.
    ['below a trusted CA that demands policies', trusting('explicitNow'), 'ok'],
    ['below a CA that demands policies', below('explicitNow'), /"CN=explicitNow" demands certificate policies/],
    ['below a CA that demands them of the next', below('explicitNext'), /demands certificate policies/],
    ['below a CA that demands them further down', below('explicitLater'), 'ok'],
    ['below a CA that forbids policy mappings', below('noMapping'), 'ok'],
    ['below a CA that forbids any policy', below('noAnyPolicy'), 'ok'],
    ['below a CA that maps policies', below('mapping'), 'ok'],
    ['below a CA for clients, as a client', (w) => ({ ...below('clientOnly')(w), usage: 'clientAuth' }), 'ok'],
    [
      'below a CA for clients, as a server',
      (w) => ({ ...below('clientOnly')(w), usage: 'serverAuth' }),
      /CN=clientOnly/,
    ],
    ['a leaf below path length 0', below('pathLengthZero'), 'ok'],
    ['a leaf below a trusted CA of path length 0', trusting('pathLengthZero'), 'ok'],
  ])('%s', (_name, ask, expected) => expectRow(ask, expected));

  test('many intermediates of one name and key that lead nowhere are given up', async () => {
    const { root, serving } = world;
    const again = { commonName: 'root', key: root.key, notBefore: day(-1), now };
    const intermediates = await Promise.all(
      Array.from({ length: 12 }, (_, n) => signSigner({ ...again, notAfter: day(40 + n) })),
    );
    const answer = verifyChain({
      leaf: serving,
      intermediates,
      roots: [world.twin.certificate],
      at: now,
    });
    expect(answer).toMatchObject({ ok: false });
  }, 2000);

  test('a CA below path length 0', () => {
    const { foreign } = world;
    const narrow = foreign['pathLengthZero'] as Certificate;
    // root's name and key are those that signed; as an intermediate below the narrow CA it is one too many
    const fields = { ...narrow.fields, subject: foreign.root.fields.subject };
    const pretender = { ...narrow, fields };
    const made = foreign['below clientOnly'] as Certificate;
    const intermediates = [foreign['clientOnly'] as Certificate];
    const question = { leaf: made, intermediates, roots: [pretender], at: foreign.at };
    expect(verifyChain(question)).toEqual({
      ok: false,
      reason: 'certificate "CN=pathLengthZero" allows 0 intermediate CAs below it',
    });
  });
});

function sha1Question({ foreign }: World): Partial<ChainQuestion> {
  return { leaf: foreign['sha1'] as Certificate, roots: [foreign.root], at: foreign.at };
}

describe('signatureMatches()', () => {
  test('needs the name and the key', async () => {
    const { root, twin, renewed, middle, serving, belowMiddle } = world;
    const rsa = await authority({ commonName: 'root', algorithm: { name: 'RSA', bits: 2048 } });
    const parents = [root, twin, middle, rsa].map(({ certificate }) => certificate);
    expect(parents.map((parent) => signatureMatches(serving, parent))).toEqual([true, false, false, false]);
    expect(signatureMatches(serving, renewed)).toBe(true);
    expect(signatureMatches(belowMiddle, middle.certificate)).toBe(true);
    expect(signatureMatches(root.certificate, root.certificate)).toBe(true);
  });
});
