import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isCode } from '../../lib/errors.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import type { KeyAlgorithm } from '../../lib/pki/key.ts';
import { generateKey, keyMatches } from '../../lib/pki/key.ts';
import { signLeaf, signSigner } from '../../lib/pki/sign.ts';
import { signatureMatches } from '../../lib/pki/verify.ts';
import { type Authority, authority, day, leaf, now, one, p256 } from './authority.ts';
import { opensslDir, type OpensslDir } from './openssl.ts';

const rsa: KeyAlgorithm = { name: 'RSA', bits: 2048 };
const p384: KeyAlgorithm = { name: 'ECDSA', curve: 'P-384' };
const attime = String(now.getTime() / 1000);

let dir: OpensslDir;
let ca: Authority;
beforeAll(async () => {
  dir = await opensslDir();
  ca = await authority({ commonName: 'ca' });
});
afterAll(() => dir[Symbol.asyncDispose]());

/** What `openssl verify` says, at `now` unless the arguments say another time. */
async function verify(certificate: Certificate, roots: string, ...args: readonly string[]): Promise<string> {
  const [rootFile, file] = [await dir.file('roots.pem', roots), await dir.file('leaf.pem', certificate.pem)];
  return dir.openssl('verify', '-attime', attime, '-x509_strict', '-CAfile', rootFile, ...args, file);
}

async function text(certificate: Certificate): Promise<string> {
  return dir.openssl('x509', '-in', await dir.file('text.pem', certificate.pem), '-noout', '-text');
}

describe('signSigner(), signLeaf(): openssl verify -x509_strict accepts', () => {
  test.each<[string, KeyAlgorithm, KeyAlgorithm, string]>([
    ['RSA-2048 by RSA-2048', rsa, rsa, 'sha256WithRSAEncryption'],
    ['RSA-2048 by RSA-4096', { name: 'RSA', bits: 4096 }, rsa, 'sha256WithRSAEncryption'],
    ['P-256 by P-256', p256, p256, 'ecdsa-with-SHA256'],
    ['P-384 by P-384', p384, p384, 'ecdsa-with-SHA384'],
    ['P-256 by RSA-2048', rsa, p256, 'sha256WithRSAEncryption'],
    ['RSA-2048 by P-384', p384, rsa, 'ecdsa-with-SHA384'],
    ['P-256 by P-521', { name: 'ECDSA', curve: 'P-521' }, p256, 'ecdsa-with-SHA512'],
    ['P-256 by Ed25519', { name: 'Ed25519' }, p256, 'ED25519'],
  ])(
    '%s',
    async (_name, signerAlgorithm, algorithm, signature) => {
      const signer = await authority({ algorithm: signerAlgorithm });
      const { key } = await generateKey(algorithm);
      const made = await leaf(signer, { key, usage: 'peer' });
      const roots = signer.certificate.pem;
      expect(await verify(made, roots, '-purpose', 'sslserver', '-verify_hostname', 'localhost')).toMatch(/: OK\n/);
      expect(await verify(made, roots, '-purpose', 'sslclient', '-verify_ip', '127.0.0.1')).toMatch(/: OK\n/);
      for (const certificate of [made, signer.certificate]) {
        expect(await text(certificate)).toContain(`Signature Algorithm: ${signature}`);
      }
      expect(keyMatches(made, key)).toBe(true);
    },
    20_000,
  );

  test('a leaf below an intermediate CA', async () => {
    const middle = await authority({ commonName: 'middle', issuer: ca });
    const made = await leaf(middle);
    const chain = await dir.file('middle.pem', middle.certificate.pem);
    expect(await verify(made, ca.certificate.pem, '-untrusted', chain, '-purpose', 'sslserver')).toMatch(/: OK\n/);
    await expect(verify(made, ca.certificate.pem)).rejects.toThrow();
    expect(signatureMatches(middle.certificate, ca.certificate)).toBe(true);
  });
});

describe('signSigner()', () => {
  test('says what Go and OpenShift say in a CA', async () => {
    const shown = await text(ca.certificate);
    expect(shown).toMatch(/Basic Constraints: critical\s+CA:TRUE\n/);
    expect(shown).toMatch(/Key Usage: critical\s+Digital Signature, Key Encipherment, Certificate Sign\n/);
    expect(shown).not.toMatch(/Extended Key Usage|Alternative Name/);
    expect(ca.certificate.fields.authorityKeyId).toBe(ca.certificate.fields.subjectKeyId);
    expect(ca.certificate.facts).toMatchObject({
      subject: 'CN=ca',
      issuer: 'CN=ca',
      notBefore: day(-1),
      notAfter: day(365),
    });
  });

  test('keeps common names that are longer than 64 characters', async () => {
    const commonName = `openshift-kube-apiserver-operator_loadbalancer-serving-signer-${'x'.repeat(40)}@1780315200`;
    expect((await authority({ commonName })).certificate.facts.commonName).toBe(commonName);
  });

  test('an intermediate CA is capped at the end of its signer', async () => {
    const { certificate } = await authority({ issuer: ca, notAfter: day(4000) });
    expect(certificate.facts.notAfter).toEqual(day(365));
  });

  test('dates beyond 2049 survive', async () => {
    const { certificate } = await authority({ notAfter: new Date('2061-02-03T04:05:06Z') });
    expect(await text(certificate)).toContain('Not After : Feb  3 04:05:06 2061 GMT');
  });
});

describe('signLeaf()', () => {
  test.each<['client' | 'serving' | 'peer', readonly string[], RegExp]>([
    ['client', ['clientAuth'], /Extended Key Usage: *\s+TLS Web Client Authentication\n/],
    ['serving', ['serverAuth'], /Extended Key Usage: *\s+TLS Web Server Authentication\n/],
    ['peer', ['clientAuth', 'serverAuth'], /TLS Web Client Authentication, TLS Web Server Authentication\n/],
  ])('%s', async (usage, usages, shownUsages) => {
    const made = await leaf(ca, { usage });
    const shown = await text(made);
    expect(shown).toMatch(/Basic Constraints: critical\s+CA:FALSE\n/);
    expect(shown).toMatch(/Key Usage: critical\s+Digital Signature, Key Encipherment\n/);
    expect(shown).toMatch(shownUsages);
    expect(made.facts.usages).toEqual(usages);
    expect(made.fields.authorityKeyId).toBe(ca.certificate.fields.subjectKeyId);
  });

  test('organizations come out as RDNs of their own, before the common name', async () => {
    const organizations = ['system:masters', 'a', 'größer, & <kleiner>'];
    const made = await leaf(ca, { usage: 'client', hostnames: [], commonName: 'admin', organizations });
    expect(await text(made)).toMatch(/Subject: O = system:masters, O = a, O = .*, CN = admin\n/);
    expect(made.facts).toMatchObject({ commonName: 'admin', organizations, hostnames: [] });
    expect(await text(made)).not.toContain('Alternative Name');
  });

  test('host names are told from addresses, put in canonical form, and the first one is the default name', async () => {
    const hostnames = ['kubernetes.default', '10.0.0.1', 'FD00:0::1', '*.apps.example', 'localhost', 'fd00::1'];
    const made = await leaf(ca, { hostnames });
    expect(made.facts.hostnames).toEqual(['*.apps.example', '10.0.0.1', 'fd00::1', 'kubernetes.default', 'localhost']);
    expect(made.facts.commonName).toBe('*.apps.example');
    const shown = await text(made);
    expect(shown).toMatch(
      /DNS:\*\.apps\.example, IP Address:10\.0\.0\.1, IP Address:FD00:0:0:0:0:0:0:1, DNS:kubernetes/,
    );
    const roots = ca.certificate.pem;
    expect(await verify(made, roots, '-verify_ip', 'fd00::1')).toMatch(/: OK\n/);
    expect(await verify(made, roots, '-verify_hostname', 'a.apps.example')).toMatch(/: OK\n/);
  });

  test('it is capped at the end of its signer', async () => {
    expect((await leaf(ca, { notAfter: day(9999) })).facts.notAfter).toEqual(day(365));
    expect((await leaf(ca, { notAfter: day(7) })).facts.notAfter).toEqual(day(7));
  });

  test('parts of a second are cut from its dates', async () => {
    const made = await leaf(ca, {
      notBefore: new Date(day(-1).getTime() + 999),
      notAfter: new Date(day(1).getTime() + 1),
    });
    expect([made.facts.notBefore, made.facts.notAfter]).toEqual([day(-1), day(1)]);
  });

  test('serials are 16 random bytes and positive', async () => {
    const serials = await Promise.all(Array.from({ length: 30 }, async () => (await leaf(ca)).facts.serial));
    expect(new Set(serials).size).toBe(30);
    for (const serial of serials) expect(serial).toMatch(/^[4-7][0-9a-f]{31}$/);
  });

  test('the issuer is the very bytes of the subject of a CA that openssl made, its key identifier the one it states', async () => {
    const foreign = await foreignAuthority(
      ['subjectKeyIdentifier=0102030405', 'authorityKeyIdentifier=none', 'keyUsage=critical,keyCertSign'].flatMap(
        (extension) => ['-addext', extension],
      ),
    );
    const made = await leaf(foreign, foreignDates(foreign));
    expect(made.fields.issuer.der.equals(foreign.certificate.fields.subject.der)).toBe(true);
    expect(made.fields.authorityKeyId).toBe('0102030405');
    const seconds = String(foreignDates(foreign).now.getTime() / 1000);
    expect(await verify(made, foreign.certificate.pem, '-attime', seconds)).toMatch(/: OK\n/);
  });
});

/** An hour after openssl made it: openssl takes no other time than the machine's. */
function foreignDates({ certificate }: Authority): { now: Date; notBefore: Date; notAfter: Date } {
  const start = certificate.facts.notBefore;
  const at = new Date(start.getTime() + 3_600_000);
  return { now: at, notBefore: start, notAfter: new Date(start.getTime() + 86_400_000) };
}

/** A CA of openssl's making, its name in several string types. */
async function foreignAuthority(args: readonly string[] = []): Promise<Authority> {
  const { key, pem } = await generateKey(p256);
  await dir.file('foreign.key', pem);
  const subject = ['-utf8', '-subj', '/C=DE/O=Größe+OU=unit/CN=plain'];
  const out = await dir.openssl('req', '-x509', '-new', '-days', '3650', '-key', 'foreign.key', ...subject, ...args);
  const certificate = one(out);
  return { certificate, key };
}

describe('signLeaf() refuses', () => {
  const rows: Readonly<Record<string, { make: () => Promise<unknown>; says: RegExp }>> = {
    'an expired signer': {
      make: async () =>
        leaf(await authority({ commonName: 'old', notAfter: day(-1), notBefore: day(-9), at: day(-5) })),
      says: /^Cannot sign certificate "127\.0\.0\.1": its signer "CN=old" expired at 2026-05-31T12:00:00\.000Z, wanted/,
    },
    'a signer at the second of its end': {
      make: async () => leaf(await authority({ notAfter: now, notBefore: day(-9), at: day(-5) })),
      says: /expired at/,
    },
    'a signer that is not yet valid': {
      make: async () => leaf(await authority({ notBefore: day(1), at: day(2) })),
      says: /is not valid before 2026-06-02/,
    },
    'a key that is not the signer’s': {
      make: async () => leaf({ ...ca, key: (await generateKey(p256)).key }),
      says: /the key of its signer "CN=ca" does not belong to its certificate/,
    },
    'a leaf as signer': {
      make: async () => {
        const { key } = await generateKey(p256);
        return leaf({ certificate: await leaf(ca, { key }), key });
      },
      says: /is not a CA that may sign/,
    },
    'a CA without the key usage': {
      make: async () => {
        const foreign = await foreignAuthority(['-addext', 'keyUsage=critical,cRLSign']);
        return leaf(foreign, foreignDates(foreign));
      },
      says: /is not a CA that may sign/,
    },
    'an intermediate below a CA of path length 0': {
      make: async () => {
        const issuer = await foreignAuthority(['-addext', 'basicConstraints=critical,CA:TRUE,pathlen:0']);
        const { now: at, ...dates } = foreignDates(issuer);
        return authority({ issuer, at, ...dates });
      },
      says: /may not sign CAs \(path length 0\)/,
    },
    'no host name for serving': { make: () => leaf(ca, { hostnames: [], commonName: 'x' }), says: /has no host name/ },
    'no name at all': { make: () => leaf(ca, { hostnames: [], usage: 'client' }), says: /has no name/ },
    'a host name that is not ASCII': { make: () => leaf(ca, { hostnames: ['größe.example'] }), says: /not ASCII/ },
    'an end in the past': { make: () => leaf(ca, { notAfter: day(-1) }), says: /wanted one that is valid at/ },
    'a start in the future': { make: () => leaf(ca, { notBefore: day(1) }), says: /wanted one that is valid at/ },
    'an invalid date': { make: () => leaf(ca, { notAfter: new Date(Number.NaN) }), says: /an invalid date/ },
  };
  test.each(Object.entries(rows))('%s', async (_name, { make, says }) => {
    const err: unknown = await make().then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(isCode(err, 'SignFailed')).toBe(true);
    expect((err as Error).message).toMatch(says);
  });

  test('a self-signed CA without a name', async () => {
    const { key } = await generateKey(p256);
    const request = { commonName: '', key, notBefore: day(-1), notAfter: day(1), now };
    await expect(signSigner(request)).rejects.toThrow(/has no name/);
  });

  test('what it returns is one PEM block with a newline at the end', async () => {
    const { key } = await generateKey(p256);
    const names = { commonName: 'x', organizations: [], hostnames: [], usage: 'client' as const };
    const { pem } = await signLeaf({ issuer: ca, key, ...names, notBefore: day(-1), notAfter: day(1), now });
    expect(pem).toMatch(/^-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=]{1,64}\n)+-----END CERTIFICATE-----\n$/);
  });
});
