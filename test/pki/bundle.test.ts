import { beforeAll, describe, expect, test } from 'vitest';
import { type BundleParts, encodeBundle, joinBundles, mergeBundle } from '../../lib/pki/bundle.ts';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { authority, day, now } from './authority.ts';

const merged = (parts: BundleParts): string => encodeBundle(mergeBundle(parts));

let certificates: Certificate[];
let expired: Certificate;
let ending: Certificate;

beforeAll(async () => {
  const made = await Promise.all(['a', 'b', 'c', 'd'].map((commonName) => authority({ commonName })));
  certificates = made.map(({ certificate }) => certificate);
  const dates = { notBefore: day(-9), at: day(-5) };
  expired = (await authority({ commonName: 'expired', notAfter: day(-1), ...dates })).certificate;
  ending = (await authority({ commonName: 'ending', notAfter: now, ...dates })).certificate;
});

function namesOf(pem: string): string[] {
  return parseCertificates(Buffer.from(pem), 'bundle').map(({ facts }) => facts.commonName);
}

describe('mergeBundle()', () => {
  test('gives the same text for every order of the same certificates', () => {
    const [a, b, c, d] = certificates as [Certificate, Certificate, Certificate, Certificate];
    const text = merged({ rest: [a, b, c, d], now });
    for (const rest of [
      [d, c, b, a],
      [b, d, a, c],
      [a, a, b, b, c, d, d],
    ]) {
      expect(merged({ rest, now })).toBe(text);
      expect(merged({ first: [c], rest, now })).toBe(text);
    }
    expect(namesOf(text).toSorted()).toEqual(['a', 'b', 'c', 'd']);
    const ders = parseCertificates(Buffer.from(text), 'bundle').map(({ x509 }) => x509.raw);
    expect(ders).toEqual(ders.toSorted((x, y) => Buffer.compare(x, y)));
  });

  test('keeps what a machine whose clock is five minutes behind still takes for valid, beside what is valid', () => {
    const [a] = certificates as [Certificate];
    const rest = [ending, a];
    const minutes = (count: number): Date => new Date(now.getTime() + count * 60_000);
    expect(namesOf(merged({ rest, now })).toSorted()).toEqual(['a', 'ending']);
    expect(namesOf(merged({ rest, now: minutes(4.9) })).toSorted()).toEqual(['a', 'ending']);
    expect(namesOf(merged({ rest, now: minutes(5) }))).toEqual(['a']);
    expect(merged({ rest: [ending], now })).toBe('');
    const composed = joinBundles({ certificates: rest, now: minutes(4.9) });
    expect(namesOf(encodeBundle(composed))).toEqual(['ending', 'a']);
  });

  test('drops what expired, and what is there twice', () => {
    const [a, b] = certificates as [Certificate, Certificate];
    const [again] = parseCertificates(Buffer.from(`# the same\n${a.pem.replaceAll('\n', '\r\n')}`), 'again');
    const rest = [expired, a, b, ...(again === undefined ? [] : [again])];
    expect(namesOf(merged({ rest, now })).toSorted()).toEqual(['a', 'b']);
  });

  test('refuses to merge for a live signer that has expired', () => {
    expect(() => merged({ first: [expired], rest: certificates, now })).toThrow(
      'Cannot merge bundle with signer "CN=expired": expired at 2026-05-31T12:00:00.000Z, wanted a valid one',
    );
  });

  test('is empty when nothing is left', () => {
    expect(merged({ rest: [expired], now })).toBe('');
  });
});

describe('encodeBundle()', () => {
  test('keeps the order and ends with a newline', () => {
    const text = encodeBundle(certificates.toReversed());
    expect(namesOf(text)).toEqual(['d', 'c', 'b', 'a']);
    expect(text.endsWith('-----END CERTIFICATE-----\n')).toBe(true);
    expect(text).not.toContain('\n\n');
  });
});
