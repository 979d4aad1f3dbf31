import { beforeAll, describe, expect, it } from 'vitest';
import { withCas } from '../../lib/pki/bundle-edit.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { authority } from './authority.ts';

const crl = '-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n';
let [own, next]: Certificate[] = [];

beforeAll(async () => {
  own = (await authority({ commonName: 'own' })).certificate;
  next = (await authority({ commonName: 'next' })).certificate;
});

const edited = (former: string, ...cas: readonly (Certificate | undefined)[]): string =>
  withCas(
    Buffer.from(former),
    cas.flatMap((ca) => ca ?? []),
  ).toString();
const pem = (certificate: Certificate | undefined): string => certificate?.pem ?? '';

describe('withCas()', () => {
  it('adds a CA at the end, and keeps comments and other blocks where they are', () => {
    const former = `# ours\n${pem(own)}# revoked\n${crl}# end`;
    expect(edited(former, own, next)).toBe(`${former}\n${pem(next)}`);
  });

  it('keeps the line breaks of others', () => {
    const former = `# ours\r\n${pem(own).replaceAll('\n', '\r\n')}`;
    expect(edited(former, own, next)).toBe(former + pem(next));
  });

  it('removes a CA, and nothing around it', () => {
    expect(edited(`# a\n${pem(own)}# b\n${crl}${pem(next)}`, next)).toBe(`# a\n# b\n${crl}${pem(next)}`);
  });

  it.each([
    ['headers in another block', 'X509 CRL', 'Version: 1\nNote: a\n b\n\nAAAA'],
    ['headers in a certificate, which Go does not count then', 'CERTIFICATE', 'Note: a\n\nAAAA'],
    ['what is no base64 in another block', 'PGP SIGNATURE', 'AAAA\n=njUN'],
  ])('keeps %s', (_, label, body) => {
    const others = `# a\n-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n# b\n${crl}`;
    expect(edited(others + pem(own), own, next)).toBe(others + pem(own) + pem(next));
  });

  it('has one of each', () => {
    expect(edited(`${pem(own)}${pem(own)}`, own, next)).toBe(pem(own) + pem(next));
  });

  it.each([
    ['is torn', () => `# a\n-----BEGIN CERTIFICATE-----\nAAAA\n${pem(own)}`],
    ['has a certificate that is garbled', () => `# a\n${pem(own).replace(/.(?=\n-----END)/, ':')}`],
    ['is empty', () => ''],
  ])('is the CAs alone where the file %s', (_, former) => {
    expect(edited(former(), own, next)).toBe(pem(own) + pem(next));
  });
});
