import { beforeAll, expect, test } from 'vitest';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { generateKey, type PrivateKey } from '../../lib/pki/key.ts';
import { pairMatches } from '../../lib/pki/key.ts';
import { type Authority, authority, leaf, p256 } from './authority.ts';

let issuer: Authority;
let key: PrivateKey;
let other: PrivateKey;
let certificate: Certificate;

beforeAll(async () => {
  issuer = await authority();
  [key, other] = await Promise.all([generateKey(p256), generateKey(p256)]);
  certificate = await leaf(issuer, { key: key.key });
});

const matches = (pem: string, what = 'Secret "a/b"'): boolean => pairMatches(certificate, Buffer.from(pem), what);

test('a pair is one again and again, and with another key it is none before and after', () => {
  for (const _ of [1, 2]) {
    expect(matches(other.pem)).toBe(false);
    expect(matches(key.pem)).toBe(true);
  }
});

test('a key that was found with one certificate does not count for another', async () => {
  expect(matches(key.pem)).toBe(true);
  const theirs = await leaf(issuer, { key: other.key });
  expect(pairMatches(theirs, Buffer.from(key.pem), 'test')).toBe(false);
});

test('a key that was whole and is damaged is refused each time, with the place that it is in now', () => {
  expect(matches(key.pem)).toBe(true);
  const torn = key.pem.slice(0, -40);
  expect(() => matches(torn, 'Secret "a/b" tls.key')).toThrow(/private key of Secret "a\/b" tls\.key: .*cut off/);
  expect(() => matches(torn, 'Secret "c/d" tls.key')).toThrow(/private key of Secret "c\/d" tls\.key: .*cut off/);
  expect(() => matches(`${key.pem}${other.pem}`)).toThrow(/a second one at line/);
});

test('many other pairs in between change no answer', async () => {
  for (let n = 0; n < 120; n += 1) {
    const fresh = await generateKey(p256);
    const own = await leaf(issuer, { key: fresh.key });
    expect(pairMatches(own, Buffer.from(fresh.pem), 'test')).toBe(true);
  }
  expect(matches(key.pem)).toBe(true);
  expect(matches(other.pem)).toBe(false);
});
