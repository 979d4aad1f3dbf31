// CAs that are renewed with their own key. What is renewed is openssl's; that it may take the place of the old one `openssl
// verify` says, in both directions.
import { createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { isCode } from '../../lib/errors.ts';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { DerReader, derTime } from '../../lib/pki/der.ts';
import { renewedNotAfter, renewWithOwnKey } from '../../lib/pki/own-key.ts';
import { isSuccessor } from '../../lib/pki/successor.ts';
import { isSignedByKey } from '../../lib/pki/verify.ts';
import { authority, day, leaf, now } from './authority.ts';
import { opensslDir, type OpensslDir } from './openssl.ts';

const dayMs = 86_400_000;
const later = (days: number): Date => new Date(Date.now() + days * dayMs);

let dir: OpensslDir;
beforeAll(async () => {
  dir = await opensslDir();
});
afterAll(() => dir[Symbol.asyncDispose]());

interface Made {
  readonly certificate: Certificate;
  readonly key: ReturnType<typeof createPrivateKey>;
}

const p256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];
const rsa = ['-newkey', 'rsa:2048'];
const usual = 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash';

/** A CA that lives 90 days from now on. */
async function ca(name: string, extensions = usual, algorithm = p256, ...more: readonly string[]): Promise<Made> {
  const config = await dir.file(`${name}.cnf`, `[req]\ndistinguished_name=dn\n[dn]\n[ext]\n${extensions}\n`);
  const out = ['-keyout', dir.path(`${name}.key`), '-out', dir.path(`${name}.crt`)];
  const what = ['-x509', '-nodes', '-days', '90', '-subj', `/O=Größe/CN=${name}`, '-utf8', '-extensions', 'ext'];
  await dir.openssl('req', ...what, '-config', config, ...algorithm, ...more, ...out);
  const [certificate] = parseCertificates(await readFile(dir.path(`${name}.crt`)), name);
  const key = createPrivateKey(await readFile(dir.path(`${name}.key`)));
  return { certificate: certificate ?? expect.fail('no certificate'), key };
}

/** A leaf of that CA for 30 days, made by openssl. */
async function leafOf(name: string, extensions: string): Promise<Certificate> {
  const config = await dir.file(`${name}-leaf.cnf`, `[req]\ndistinguished_name=dn\n[dn]\n[ext]\n${extensions}\n`);
  const [key, csr, crt] = ['key', 'csr', 'crt'].map((end) => dir.path(`${name}-leaf.${end}`));
  const subject = ['-subj', '/CN=leaf', '-config', config];
  await dir.openssl('req', '-new', '-nodes', ...p256, ...subject, '-keyout', key ?? '', '-out', csr ?? '');
  const by = ['-CA', dir.path(`${name}.crt`), '-CAkey', dir.path(`${name}.key`), '-CAcreateserial'];
  const what = ['-req', '-in', csr ?? '', '-days', '30', '-extfile', config, '-extensions', 'ext', '-out', crt ?? ''];
  await dir.openssl('x509', ...what, ...by);
  const [certificate] = parseCertificates(await readFile(crt ?? ''), name);
  return certificate ?? expect.fail('no certificate');
}

const renewed = ({ certificate, key }: Made, others: readonly Certificate[] = [], at = later(100)): Certificate =>
  renewWithOwnKey({ old: certificate, key, others, now: at });

/** What `openssl verify` says; by default strictly. */
async function verify(certificate: Certificate, root: Certificate, at: Date): Promise<string> {
  const [roots, file] = [await dir.file('roots.pem', root.pem), await dir.file('leaf.pem', certificate.pem)];
  const time = ['-attime', String(Math.floor(at.getTime() / 1000))];
  return dir.openssl('verify', ...time, '-CAfile', roots, file).catch((err: unknown) => String(err));
}

async function shown(certificate: Certificate): Promise<string> {
  return dir.openssl('x509', '-in', await dir.file('shown.pem', certificate.pem), '-noout', '-text');
}

describe('renewWithOwnKey()', () => {
  test.each([
    ['RSA', rsa],
    ['RSA, SHA-384', [...rsa, '-sha384']],
    ['P-256', p256],
    ['P-384', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384']],
    ['Ed25519', ['-newkey', 'ed25519']],
  ])('%s: only the end, the serial and the signature are new', async (name, algorithm) => {
    const old = await ca(`same-${name.replaceAll(/\W/g, '')}`, usual, algorithm);
    const made = renewed(old);
    const differing = (text: string): string =>
      text
        .replace(/Serial Number:[^A-Z]*(?=Signature)/, '')
        .replace(/Not After : .*/, '')
        .replace(/Signature Value:[\s\S]*/, '');
    expect(differing(await shown(made))).toBe(differing(await shown(old.certificate)));
    expect(made.facts.serial).not.toBe(old.certificate.facts.serial);
    expect(made.facts.serial).toMatch(/^[4-7][0-9a-f]{39}$/);
    expect(isSuccessor(made, old.certificate)).toBe(true);
    expect(isSuccessor(old.certificate, made)).toBe(false);
  });

  it('makes the same bytes with RSA, and with ECDSA ones that serve as well', async () => {
    const one = await ca('twice-rsa', usual, rsa);
    expect(renewed(one).pem).toBe(renewed(one, [], later(100.01)).pem);
    const other = await ca('twice-ec');
    const [first, second] = [renewed(other), renewed(other)];
    expect(first.facts.serial).toBe(second.facts.serial);
    const made = await leafOf('twice-ec', 'subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid');
    for (const root of [other.certificate, first, second]) expect(await verify(made, root, later(1))).toContain(': OK');
  });

  it.each([
    ['the key identifier', 'authorityKeyIdentifier=keyid:always', false],
    ['issuer and serial', 'authorityKeyIdentifier=keyid:always,issuer:always', true],
    ['nothing', 'authorityKeyIdentifier=none', false],
  ])('a leaf that names the CA by %s verifies under both', async (_by, identifier, keeps) => {
    const name = `named-${String(_by.length)}`;
    const old = await ca(name);
    const before = await leafOf(name, `subjectKeyIdentifier=hash\n${identifier}`);
    const made = renewed(old, [before]);
    expect(made.facts.serial === old.certificate.facts.serial).toBe(keeps);
    await dir.file(`${name}.crt`, made.pem);
    const after = await leafOf(name, `subjectKeyIdentifier=hash\n${identifier}`);
    for (const one of [before, after])
      for (const root of [old.certificate, made]) expect(await verify(one, root, later(1))).toContain(': OK');
  });

  it('keeps the serial of a CA that names its own', async () => {
    const old = await ca('own-serial', `${usual}\nauthorityKeyIdentifier=keyid:always,issuer:always`);
    const made = renewed(old);
    expect(made.facts.serial).toBe(old.certificate.facts.serial);
    expect(await verify(await leafOf('own-serial', 'subjectKeyIdentifier=hash'), made, later(1))).toContain(': OK');
  });

  it('adds no key identifier to a CA that has none', async () => {
    const old = await ca(
      'no-ski',
      'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=none\nauthorityKeyIdentifier=none',
    );
    const made = renewed(old);
    expect(old.certificate.fields.subjectKeyId).toBeUndefined();
    expect(made.fields.subjectKeyId).toBeUndefined();
    const before = await leafOf('no-ski', 'subjectKeyIdentifier=hash\nauthorityKeyIdentifier=none');
    expect(await verify(before, made, later(1))).toContain(': OK');
  });

  it('keeps path length, name constraints, and what it does not know', async () => {
    const odd =
      'basicConstraints=critical,CA:TRUE,pathlen:0\nnameConstraints=critical,permitted;DNS:cluster.local\n1.2.3.4=ASN1:UTF8String:x';
    const made = renewed(await ca('limited', `${odd}\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash`));
    expect(made.fields.basicConstraints).toEqual({ ca: true, pathLength: 0 });
    const text = await shown(made);
    expect(text).toMatch(/Name Constraints: critical\s+Permitted:\s+DNS:cluster.local/);
    expect(text).toContain('1.2.3.4');
  });

  it('signs with SHA-256 what was signed with RSA-PSS, whose signatures are random', async () => {
    const old = await ca('pss', usual, rsa, '-sigopt', 'rsa_padding_mode:pss');
    expect(renewed(old).fields.signatureOid).toBe('1.2.840.113549.1.1.11');
    expect(renewed(old).pem).toBe(renewed(old).pem);
  });

  it('refuses another key, a CA that another one has signed, and what is no CA', async () => {
    const [one, other] = [await ca('refused'), await ca('refused-other')];
    const refusal = (problem: RegExp): unknown =>
      expect.toSatisfy((err: unknown) => isCode(err, 'SignFailed') && problem.test(err.message));
    expect(() => renewed({ ...one, key: other.key })).toThrow(refusal(/the key does not belong to it/));
    const top = await authority();
    const middle = await authority({ commonName: 'middle', issuer: top });
    expect(() => renewed(middle)).toThrow(refusal(/not signed by its own key/));
    expect(() => renewed({ ...top, certificate: middle.certificate })).toThrow(refusal(/not signed by its own key/));
    const plain = await leaf(top);
    expect(() => renewed({ ...top, certificate: plain })).toThrow(refusal(/not a CA/));
  });
});

describe('renewedNotAfter()', () => {
  const dates = (from: number, to: number) => ({ notBefore: day(from), notAfter: day(to) });
  it.each([
    ['just expired: later by its life', dates(-3650, -1), 3648],
    ['expired for long: by as many lives as it takes', dates(-130, -100), 20],
    ['a tenth of a life is left at the least', dates(-61, -31), 29],
    ['less than that is not enough', dates(-58.5, -28.5), 31.5],
    ['not yet expired: by one life', dates(-50, 50), 150],
    ['a life that was long already does not double', dates(-7300, -1), 3649],
  ])('%s', (_name, old, want) => {
    expect(renewedNotAfter(old, now)).toEqual(day(want));
  });
});

describe('isSuccessor(): refused', () => {
  it('the CA of an attacker, by the same name and with the same key identifier', async () => {
    const trusted = await ca('trusted');
    const identifier = trusted.certificate.fields.subjectKeyId ?? '';
    const forged = await ca(
      'forged',
      usual.replace('hash', identifier),
      p256,
      '-subj',
      '/O=Größe/CN=trusted',
      '-days',
      '900',
    );
    expect(forged.certificate.facts.subject).toBe(trusted.certificate.facts.subject);
    expect(forged.certificate.fields.subjectKeyId).toBe(identifier);
    expect(isSuccessor(forged.certificate, trusted.certificate)).toBe(false);
  });

  it('the right public key in a certificate that another key has signed', async () => {
    const [trusted, thief] = [await ca('stolen'), await ca('thief', usual, p256, '-subj', '/O=Größe/CN=stolen')];
    const made = renewed(trusted);
    const bytes = Buffer.from(made.x509.raw);
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1; // the signature is another one's, or nobody's
    const [forged] = parseCertificates(
      Buffer.from(`-----BEGIN CERTIFICATE-----\n${bytes.toString('base64')}\n-----END CERTIFICATE-----\n`),
      'test',
    );
    expect(forged && isSuccessor(forged, trusted.certificate)).toBe(false);
    expect(isSignedByKey(made, thief.certificate)).toBe(false);
    expect(isSuccessor(made, thief.certificate)).toBe(false);
  });

  it('a CA of the same name with another key, which the trusted one has signed', async () => {
    const bare = 'basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=none\nauthorityKeyIdentifier=none';
    const trusted = await ca('rolled', bare);
    const by = ['-CA', dir.path('rolled.crt'), '-CAkey', dir.path('rolled.key'), '-subj', '/O=Größe/CN=rolled'];
    const { certificate: next } = await ca('rolled-next', bare, p256, ...by, '-days', '900');
    expect(next.fields.issuer.der.equals(next.fields.subject.der)).toBe(true);
    expect(isSignedByKey(next, trusted.certificate)).toBe(true);
    expect(isSuccessor(next, trusted.certificate)).toBe(false);
  });

  it('one by the same key without the limits of the other', async () => {
    const limited = await ca(
      'limits',
      `${usual.replace('TRUE', 'TRUE,pathlen:0')}\nnameConstraints=critical,permitted;DNS:a.example`,
    );
    const config = await dir.file('wide.cnf', `[req]\ndistinguished_name=dn\n[dn]\n[ext]\n${usual}\n`);
    const what = ['-x509', '-key', dir.path('limits.key'), '-days', '900', '-subj', '/O=Größe/CN=limits', '-utf8'];
    await dir.openssl('req', ...what, '-config', config, '-extensions', 'ext', '-out', dir.path('wide.crt'));
    const [wide] = parseCertificates(await readFile(dir.path('wide.crt')), 'wide');
    expect(wide && isSignedByKey(wide, limited.certificate)).toBe(true);
    expect(wide && isSuccessor(wide, limited.certificate)).toBe(false);
  });
});

test.each(['2049-12-31T23:59:59.000Z', '2050-01-01T00:00:00.000Z', '9999-12-31T23:59:59.000Z'])(
  'derTime(%s)',
  (text) => {
    const der = derTime(new Date(text));
    expect(new DerReader(der).time('it').toISOString()).toBe(text);
    expect(der[0]).toBe(text < '2050' ? 0x17 : 0x18);
  },
);
