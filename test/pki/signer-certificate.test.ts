// Whichever stands first, the certificate of the key is the signer's own.
import { beforeAll, describe, expect, it, test } from 'vitest';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { PrivateKey } from '../../lib/pki/key.ts';
import { renewWithOwnKey } from '../../lib/pki/own-key.ts';
import { encodePem, readPem } from '../../lib/pki/pem.ts';
import { editPem } from '../../lib/pki/pem-edit.ts';
import { chainOf, ownCertificate, ownFirst } from '../../lib/pki/signer-certificate.ts';
import { type Authority, authority, day, leaf } from './authority.ts';

let own: Authority;
let kinds: Record<string, Certificate>;
let renewed: Certificate;
const keyPem = ({ key }: Authority): Buffer => Buffer.from(new PrivateKey(key).pem);

beforeAll(async () => {
  const root = await authority({ commonName: 'root' });
  own = await authority({ commonName: 'ca' });
  renewed = renewWithOwnKey({ old: own.certificate, key: own.key, others: [], now: day(364) });
  kinds = {
    former: (await authority({ commonName: 'ca' })).certificate,
    expired: (await authority({ commonName: 'ca', notBefore: day(-90), notAfter: day(-1), at: day(-90) })).certificate,
    next: (await authority({ commonName: 'next' })).certificate,
    root: root.certificate,
    leaf: await leaf(own),
  };
});

describe('ownFirst()', () => {
  const names = ['former', 'expired', 'next', 'root', 'leaf'];
  const rows = names.flatMap((one) => names.filter((other) => other !== one).map((other) => [one, other] as const));
  test.each(rows)('beside %s and %s, in each place', (one, other) => {
    const others = [kinds[one], kinds[other]] as readonly Certificate[];
    for (const place of [0, 1, 2]) {
      const all = others.toSpliced(place, 0, own.certificate);
      expect(ownFirst(all, keyPem(own))).toEqual([own.certificate, ...others]);
      const pem = Buffer.from(all.map((certificate) => certificate.pem).join(''));
      expect(ownCertificate(pem, keyPem(own))?.pem).toBe(own.certificate.pem);
    }
  });

  it('takes the renewed one of two with its key', () => {
    const { certificate } = own;
    for (const all of [
      [certificate, renewed],
      [renewed, certificate],
    ])
      expect(ownFirst(all, keyPem(own))[0]).toBe(renewed);
  });

  it('leaves the order where no key decides', async () => {
    const all = [kinds['next'], own.certificate] as readonly Certificate[];
    expect(ownFirst(all, undefined)).toBe(all);
    expect(ownFirst(all, Buffer.from('no key'))).toBe(all);
    expect(ownFirst(all, keyPem(await authority()))).toBe(all);
  });
});

test('chainOf() is what a server sends along: CAs above, and no former or next one', async () => {
  const root = await authority({ commonName: 'root' });
  const middle = await authority({ commonName: 'middle', issuer: root });
  const issuing = await authority({ commonName: 'issuing', issuer: middle });
  const [former, next] = [kinds['former'], kinds['next']] as [Certificate, Certificate];
  const others = [former, root.certificate, next, middle.certificate];
  expect(chainOf(issuing.certificate, others)).toEqual([middle.certificate, root.certificate]);
  expect(chainOf(own.certificate, others)).toEqual([]);
});

describe('editPem()', () => {
  const block = (text: string) => encodePem({ label: 'TEST', der: Buffer.from(text) });
  const text = Buffer.from(
    `\uFEFF# one\r\n${block('a').replaceAll('\n', '\r\n')}\n  two\n${block('b')}${block('c')}end`,
  );

  it('keeps all that is not changed, to the byte', () => {
    expect(editPem(text, 'test', () => 'kept').equals(text)).toBe(true);
  });

  it('replaces and removes blocks alone', () => {
    const made = editPem(text, 'test', ({ der }) =>
      der.toString() === 'b' ? { label: 'NEW', der: Buffer.from('d') } : der.toString() === 'c' ? 'removed' : 'kept',
    );
    const wanted = text.toString().replace(block('b'), encodePem({ label: 'NEW', der: Buffer.from('d') }));
    expect(made.toString()).toBe(wanted.replace(block('c'), ''));
    expect(readPem(made, 'test').map(({ label }) => label)).toEqual(['TEST', 'NEW']);
  });

  it('refuses what is torn', () => {
    expect(() => editPem(text.subarray(0, -20), 'test', () => 'kept')).toThrow('is cut off');
  });
});
