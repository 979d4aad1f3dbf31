import { describe, expect, it } from 'vitest';
import { isCode } from '../../lib/errors.ts';
import { type CertificateRequest, parseCertificateRequest } from '../../lib/pki/csr.ts';
import { encodePem, readPem } from '../../lib/pki/pem.ts';
import { createRequest, kubeletRequest, type RequestKey, withSignatureOf } from '../support/certificates/requests.ts';

const parse = (pem: string): CertificateRequest =>
  parseCertificateRequest(Buffer.from(pem), 'CertificateSigningRequest "a"');

function problemOf(pem: string): string {
  try {
    parse(pem);
    return '';
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return err.message;
    throw err;
  }
}

describe('parseCertificateRequest()', () => {
  it.each<[RequestKey, object]>([
    ['rsa2048', { name: 'RSA', bits: 2048 }],
    ['P-256', { name: 'ECDSA', curve: 'P-256' }],
    ['P-384', { name: 'ECDSA', curve: 'P-384' }],
    ['P-521', { name: 'ECDSA', curve: 'P-521' }],
    ['ed25519', { name: 'Ed25519' }],
  ])('reads a request with a key of kind %s, and verifies its signature', async (key, algorithm) => {
    const request = parse(await kubeletRequest('a', { key }));
    expect(request).toMatchObject({
      key: algorithm,
      provesPossession: true,
      alternativeNames: [],
      wantsCa: false,
      extensions: [],
      attributes: [],
    });
    expect(request).not.toHaveProperty('unusualSubject');
    expect(request.subject).toMatchObject({
      text: 'CN=system:node:a,O=system:nodes',
      attributes: [
        { type: 'O', value: 'system:nodes' },
        { type: 'CN', value: 'system:node:a' },
      ],
    });
  });

  it.each(['sha384', 'sha512'])('verifies a signature with %s', async (digest) => {
    expect(parse(await kubeletRequest('a', { digest })).provesPossession).toBe(true);
  });

  it('does not believe a signature with SHA-1', async () => {
    expect(parse(await kubeletRequest('a', { digest: 'sha1' })).provesPossession).toBe(false);
  });

  it.each<[string, RequestKey, RequestKey]>([
    ['of another key', 'P-256', 'P-256'],
    ['of a key of another kind', 'P-256', 'rsa2048'],
    ['of a key of another length', 'P-256', 'P-384'],
    ['of another RSA key', 'rsa2048', 'rsa2048'],
    ['of another Ed25519 key', 'ed25519', 'ed25519'],
  ])('does not believe the signature %s', async (_what, key, other) => {
    const pem = withSignatureOf(await kubeletRequest('a', { key: other }), await kubeletRequest('a', { key }));
    expect(parse(pem).provesPossession).toBe(false);
  });

  it('names every alternative name by its kind', async () => {
    const names = 'DNS:a.example,IP:192.0.2.1,IP:2001:db8::1,email:a@example.com,URI:spiffe://a/b,RID:1.2.3';
    const { alternativeNames } = parse(await kubeletRequest('a', { extensions: [`subjectAltName = ${names}`] }));
    expect(alternativeNames).toEqual([
      { kind: 'DNS', value: 'a.example' },
      { kind: 'IP', value: '192.0.2.1' },
      { kind: 'IP', value: '2001:db8::1' },
      { kind: 'email', value: 'a@example.com' },
      { kind: 'URI', value: 'spiffe://a/b' },
      { kind: 'other', value: '2a03' },
    ]);
  });

  it.each([
    ['basicConstraints = critical,CA:TRUE', true],
    ['keyUsage = keyCertSign', true],
    ['basicConstraints = CA:FALSE', false],
    ['keyUsage = digitalSignature', false],
  ])('with %s asks for the rights of a CA: %s', async (extension, wantsCa) => {
    expect(parse(await kubeletRequest('a', { extensions: [extension] })).wantsCa).toBe(wantsCa);
  });

  it('tells every attribute and every extension, also one that is not known and one that is critical', async () => {
    expect(parse(await kubeletRequest('a', { challengePassword: 'secret' }))).toMatchObject({
      extensions: [],
      attributes: ['1.2.840.113549.1.9.7'],
    });
    const extensions = ['extendedKeyUsage = critical,codeSigning', '1.2.3.4 = critical,ASN1:NULL'];
    expect(parse(await kubeletRequest('a', { extensions }))).toMatchObject({
      extensions: ['2.5.29.37', '1.2.3.4'],
      attributes: ['1.2.840.113549.1.9.14'],
    });
  });

  it.each([
    ['a set with several values', { subject: ['O=a', '+CN=b'] }],
    ['a string of ASN.1 tag 30', { stringMask: 'MASK:0x800' }],
    ['a string of ASN.1 tag 20', { stringMask: 'MASK:0x4' }],
  ])('tells what Go does not write in a name: %s', async (unusualSubject, options) => {
    expect(parse(await kubeletRequest('a', options))).toMatchObject({ unusualSubject });
  });

  it('gives the subject as it stands there', async () => {
    const subject = ['CN=a', 'O=one', 'O=two', 'CN=b', 'emailAddress=x@example.com'];
    const { attributes } = parse(await createRequest({ subject })).subject;
    expect(attributes.map(({ type, value }) => `${type}=${value}`)).toEqual([
      'CN=a',
      'O=one',
      'O=two',
      'CN=b',
      '1.2.840.113549.1.9.1=x@example.com',
    ]);
  });

  it('refuses what is not one block of the right kind', async () => {
    const pem = await kubeletRequest('a');
    const wanted = 'wanted one "CERTIFICATE REQUEST"';
    expect(problemOf('')).toBe(`Cannot read request of CertificateSigningRequest "a": PEM blocks: none, ${wanted}`);
    expect(problemOf(pem + pem)).toContain(wanted);
    expect(problemOf(pem.replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE'))).toContain(wanted);
    expect(problemOf(pem.replaceAll('CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST'))).toContain(wanted);
  });

  it('refuses bytes after the end, torn bytes, and a key that Go does not know', async () => {
    const [block] = readPem(Buffer.from(await kubeletRequest('a')), 'request');
    const der = block?.der ?? Buffer.alloc(0);
    const again = (bytes: Buffer): string => encodePem({ label: 'CERTIFICATE REQUEST', der: bytes });
    expect(problemOf(again(Buffer.concat([der, Buffer.from([0])])))).toContain('bytes after the end');
    expect(problemOf(again(der.subarray(0, -1)))).toContain('cut off');
    expect(problemOf(again(Buffer.from([0x30, 0])))).toContain('what is signed is missing');
    expect(problemOf(await kubeletRequest('a', { key: 'secp256k1' }))).toContain('wanted RSA, ECDSA or Ed25519');
  });
});
