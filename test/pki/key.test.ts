import { readFile, stat } from 'node:fs/promises';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isCode } from '../../lib/errors.ts';
import type { KeyAlgorithm } from '../../lib/pki/key.ts';
import {
  algorithmText,
  generateKey,
  keyAlgorithmOf,
  keyMatches,
  parsePrivateKey,
  PrivateKey,
  publicKeyMatches,
} from '../../lib/pki/key.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import { createLog } from '../../lib/log.ts';
import { authority, leaf, p256 } from './authority.ts';
import { opensslDir, type OpensslDir } from './openssl.ts';

const rsa: KeyAlgorithm = { name: 'RSA', bits: 2048 };
const algorithms: [string, KeyAlgorithm, string][] = [
  ['RSA-2048', rsa, 'RSA PRIVATE KEY'],
  ['ECDSA-P-256', p256, 'EC PRIVATE KEY'],
  ['ECDSA-P-384', { name: 'ECDSA', curve: 'P-384' }, 'EC PRIVATE KEY'],
  ['ECDSA-P-521', { name: 'ECDSA', curve: 'P-521' }, 'EC PRIVATE KEY'],
  ['Ed25519', { name: 'Ed25519' }, 'PRIVATE KEY'],
];

let dir: OpensslDir;
beforeAll(async () => {
  dir = await opensslDir();
});
afterAll(() => dir[Symbol.asyncDispose]());

describe('generateKey()', () => {
  test.each(algorithms)('%s: openssl calls it valid, and it can be read again', async (text, algorithm, label) => {
    const made = await generateKey(algorithm);
    expect(algorithmText(made.algorithm)).toBe(text);
    expect(made.pem).toMatch(new RegExp(`^-----BEGIN ${label}-----\n[^-]+-----END ${label}-----\n$`));
    const file = await dir.file('made.key', made.pem);
    if (algorithm.name !== 'Ed25519') {
      expect(await dir.openssl('pkey', '-in', file, '-check', '-noout')).toContain('Key is valid');
    }
    const read = parsePrivateKey(Buffer.from(made.pem), 'test');
    expect(read.equals(made.key)).toBe(true);
    expect(keyAlgorithmOf(read)).toEqual(algorithm);
  });

  test('the event loop goes on while a large key is made', async () => {
    let turns = 0;
    let done = false;
    const turn = (): void => {
      turns += 1;
      if (!done) setImmediate(turn);
    };
    turn();
    await generateKey({ name: 'RSA', bits: 3072 });
    done = true;
    expect(turns).toBeGreaterThan(100);
  });

  test('an impossible algorithm is SignFailed', async () => {
    await expect(generateKey({ name: 'RSA', bits: 8 })).rejects.toThrow(/Cannot make key RSA-8: /);
  });
});

describe('PrivateKey', () => {
  test('shows its algorithm and nothing else', async () => {
    const key = await generateKey(p256);
    const lines: string[] = [];
    createLog({ level: 'debug', write: (line) => lines.push(line) }).info('config.loaded', { config: { key } });
    for (const text of [...lines, JSON.stringify({ key }), inspect({ key }, { depth: 9, showHidden: true })]) {
      expect(text).not.toContain('PRIVATE KEY-');
      for (const part of key.pem.split('\n').slice(1, -2)) expect(text).not.toContain(part);
    }
    expect(inspect(key)).toBe('PrivateKey (ECDSA-P-256)');
  });
});

describe('parsePrivateKey()', () => {
  test.each<[string, readonly string[]]>([
    ['RSA, PKCS#1', ['genrsa', '-traditional', '-out', 'k', '2048']],
    ['RSA, PKCS#8', ['genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', 'k']],
    ['EC, SEC 1 after its parameters', ['ecparam', '-name', 'prime256v1', '-genkey', '-out', 'k']],
    ['EC, PKCS#8', ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-384', '-out', 'k']],
    ['Ed25519, PKCS#8', ['genpkey', '-algorithm', 'ED25519', '-out', 'k']],
  ])('reads what openssl wrote: %s', async (_name, args) => {
    await dir.openssl(...args);
    const pkcs8 = await dir.openssl('pkey', '-in', 'k');
    const read = parsePrivateKey(await readFile(dir.path('k')), 'test');
    expect(read.equals(parsePrivateKey(Buffer.from(pkcs8), 'test'))).toBe(true);
  });

  test('a key beside its certificate in one file', async () => {
    const made = await generateKey(p256);
    const certificate = await leaf(await authority(), { key: made.key });
    expect(parsePrivateKey(Buffer.from(certificate.pem + made.pem), 'test').equals(made.key)).toBe(true);
  });

  test.each<[string, (pem: string) => string, RegExp]>([
    ['nothing', () => '', /there is none/],
    ['cut off', (pem) => pem.slice(0, 300), /cut off/],
    ['two keys', (pem) => pem + pem, /a second one at line/],
    ['not base64', (pem) => pem.replace(/\n(.)/, '\n!'), /not base64/],
    ['an encrypted key', (pem) => pem.replaceAll('RSA PRIVATE', 'ENCRYPTED PRIVATE'), /wanted an unencrypted key/],
    ['a damaged modulus', (pem) => damaged(pem, 100), /do not belong together/],
    ['a damaged private exponent', (pem) => damaged(pem, 400), /do not belong together/],
    ['a damaged prime', (pem) => damaged(pem, 600), /do not belong together/],
    ['a damaged CRT exponent', (pem) => damaged(pem, 900), /do not belong together/],
    ['a damaged CRT coefficient', (pem) => damaged(pem, 1150), /do not belong together/],
    ['bytes after the key', (pem) => rewrapped(pem, (der) => Buffer.concat([der, Buffer.from([0])])), /is not a key/],
  ])('refuses: %s', async (_name, change, says) => {
    const text = change((await generateKey(rsa)).pem);
    const parse = (): unknown => parsePrivateKey(Buffer.from(text), 'Secret "a/b" tls.key');
    expect(parse).toThrow(says);
    expect(parse).toThrow(/^Cannot read private key of Secret "a\/b" tls\.key: /);
  });

  test('of an EC key the private half counts, as for Go: it does not fit the certificate of the public one', async () => {
    const [one, two] = await Promise.all([generateKey(p256), generateKey(p256)]);
    const mixed = rewrapped(one.pem, (der) => {
      const other = Buffer.from(two.pem.replaceAll(/-----.*-----/g, ''), 'base64');
      return Buffer.concat([der.subarray(0, 7), other.subarray(7, 39), der.subarray(39)]);
    });
    const read = parsePrivateKey(Buffer.from(mixed), 'test');
    expect(read.equals(two.key)).toBe(true);
    const certificate = await leaf(await authority(), { key: one.key });
    expect(keyMatches(certificate, read)).toBe(false);
  });

  test.each(['00', 'ff'])(
    'an EC key that is out of range (%s...) is refused, and nothing else is thrown',
    async (byte) => {
      const { pem } = await generateKey(p256);
      const odd = rewrapped(pem, (der) => Buffer.from(der).fill(Buffer.from(byte, 'hex'), 7, 39));
      const parse = (): unknown => parsePrivateKey(Buffer.from(odd), 'Secret "a/b" tls.key');
      expect(parse).toThrow(/Cannot read private key of Secret "a\/b" tls\.key: .*EC key is zero, or beyond/);
      expect(parse).toThrow(expect.toSatisfy((err) => isCode(err, 'MaterialInvalid')));
    },
  );

  test('what a block is called does not decide how it is read', async () => {
    const { key } = await generateKey(p256);
    const pkcs8 = String(key.export({ type: 'pkcs8', format: 'pem' }));
    for (const label of ['RSA PRIVATE KEY', 'EC PRIVATE KEY']) {
      const text = pkcs8.replaceAll('PRIVATE KEY', label);
      expect(parsePrivateKey(Buffer.from(text), 'test').equals(key)).toBe(true);
    }
  });

  test('a kind of key that Go does not know is refused by name', async () => {
    await dir.openssl('ecparam', '-name', 'secp256k1', '-genkey', '-noout', '-out', 'odd');
    const pem = await dir.openssl('ec', '-in', 'odd');
    expect(() => parsePrivateKey(Buffer.from(pem), 'test')).toThrow(/Cannot use key: kind "ec secp256k1"/);
  });
});

function rewrapped(pem: string, change: (der: Buffer) => Buffer): string {
  const [, label = '', body = ''] = /BEGIN ([A-Z ]+)-----([^-]+)-----/.exec(pem) ?? [];
  const base64 = change(Buffer.from(body, 'base64')).toString('base64');
  return `-----BEGIN ${label}-----\n${base64}\n-----END ${label}-----\n`;
}

/** One bit turned in the byte at `offset`: the DER stays well-formed. */
function damaged(pem: string, offset: number): string {
  return rewrapped(pem, (der) => {
    der.writeUInt8(der.readUInt8(offset) ^ 1, offset);
    return der;
  });
}

test('parsePrivateKey() refuses a PKCS#8 key whose parameters are cut off, as encoding/asn1 does', async () => {
  const { key } = await generateKey(rsa);
  const der = key.export({ type: 'pkcs8', format: 'der' });
  const at = der.indexOf(Buffer.from('2a864886f70d0101010500', 'hex')) + 10; // the length of NULL
  const pem = (bytes: Buffer): Buffer => Buffer.from(encodePem({ label: 'PRIVATE KEY', der: bytes }));
  expect(parsePrivateKey(pem(der), 'key').asymmetricKeyType).toBe('rsa');
  der[at] = 0x20;
  expect(() => parsePrivateKey(pem(der), 'key')).toThrow('cut off');
});

describe('keyMatches(), publicKeyMatches()', () => {
  test.each(algorithms)('%s: only the own key', async (_text, algorithm) => {
    const [own, other] = await Promise.all([generateKey(algorithm), generateKey(algorithm)]);
    const certificate = await leaf(await authority(), { key: own.key });
    expect([keyMatches(certificate, own.key), keyMatches(certificate, other.key)]).toEqual([true, false]);
  });

  test('a file of several public keys, one of them a certificate', async () => {
    const [own, other] = await Promise.all([generateKey(rsa), generateKey(p256)]);
    await dir.file('own.key', own.pem);
    const spki = await dir.openssl('rsa', '-in', 'own.key', '-pubout');
    const certificate = await leaf(await authority(), { key: other.key });
    const file = Buffer.from(certificate.pem + spki.slice(spki.indexOf('-----BEGIN')));
    expect([own, other].map(({ key }) => publicKeyMatches(file, key, 'test'))).toEqual([true, true]);
    expect(publicKeyMatches(Buffer.from(certificate.pem), own.key, 'test')).toBe(false);
  });

  test('a private key stands for its public key, and other blocks count for nothing', async () => {
    const [own, other] = await Promise.all([generateKey(rsa), generateKey(p256)]);
    const list = encodePem({ label: 'X509 CRL', der: Buffer.from('list') });
    const file = Buffer.from(list + own.pem);
    expect([own, other].map(({ key }) => publicKeyMatches(file, key, 'test'))).toEqual([true, false]);
    expect(() => publicKeyMatches(Buffer.from(list), own.key, 'test')).toThrow(/wanted "PUBLIC KEY"/);
    expect(() => publicKeyMatches(Buffer.from('hello'), own.key, 'test')).toThrow('there is none');
  });
});

describe('createKeyPool()', () => {
  test('fill() makes keys ahead, take() hands each out once and then makes new ones', async () => {
    const pool = createKeyPool({ algorithm: rsa, size: 3 });
    await pool.fill(9);
    expect(pool.ready).toBe(3);
    const taken = await Promise.all([1, 2, 3, 4].map(() => pool.take(rsa)));
    expect(pool.ready).toBe(0);
    expect(new Set(taken.map(({ pem }) => pem)).size).toBe(4);
    for (const key of taken) expect(key).toBeInstanceOf(PrivateKey);
  });

  test('take() of another algorithm leaves the pool alone', async () => {
    const pool = createKeyPool({ algorithm: p256, size: 2 });
    await pool.fill();
    expect((await pool.take(rsa)).algorithm).toEqual(rsa);
    expect(pool.ready).toBe(2);
  });

  test('keys taken while the pool is filled are not handed out again', async () => {
    const pool = createKeyPool({ algorithm: p256, size: 20 });
    const filling = pool.fill();
    const early = await Promise.all(Array.from({ length: 10 }, () => pool.take(p256)));
    await filling;
    const late = await Promise.all(Array.from({ length: 20 }, () => pool.take(p256)));
    expect(new Set([...early, ...late].map(({ pem }) => pem)).size).toBe(30);
  });

  test('files can be read while many keys are made: these never take all threads', async () => {
    const pool = createKeyPool({ algorithm: p256, size: 1 });
    let made = 0;
    const taking = Array.from({ length: 12 }, () => pool.take(rsa).then(() => (made += 1)));
    await stat(import.meta.filename);
    expect(made).toBeLessThan(6);
    await Promise.all(taking);
    expect(made).toBe(12);
  });

  test('drop() forgets the keys and ends a running fill', async () => {
    const pool = createKeyPool({ algorithm: rsa, size: 50 });
    await pool.fill(1);
    const filling = pool.fill();
    pool.drop();
    await filling;
    expect(pool.ready).toBe(0);
    expect((await pool.take(rsa)).algorithm).toEqual(rsa);
  });
});
