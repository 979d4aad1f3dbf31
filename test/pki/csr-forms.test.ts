// Forms of a request that Go, OpenSSL or both refuse, or read otherwise: here none is read. Each is signed as it should be.
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseCertificateRequest } from '../../lib/pki/csr.ts';
import { childrenOf, readDer, writeDer } from '../../lib/pki/der.ts';
import { errorText } from '../../lib/errors.ts';
import {
  attribute,
  infoOf,
  names,
  oidDer,
  p256,
  type RequestForm,
  requestOfForm,
  text,
  wish,
} from '../support/certificates/request-forms.ts';

const asn1Null = writeDer(5);
const organization = writeDer(0x31, attribute('2.5.4.10', text('system:nodes')));
function problemOf(form: RequestForm): string {
  try {
    const { provesPossession } = parseCertificateRequest(Buffer.from(requestOfForm(form)), 'it');
    return provesPossession ? 'none' : 'not signed by its key';
  } catch (err) {
    return errorText(err);
  }
}

const rsa = (exponent: number): KeyObject =>
  generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: exponent }).privateKey;
const rsaAlgorithm = [oidDer('1.2.840.113549.1.1.11'), asn1Null];
const [p256Algorithm, p256Point] = childrenOf(readDer(infoOf(p256)));
const compressed = writeDer(
  0x30,
  p256Algorithm?.raw ?? asn1Null,
  writeDer(
    3,
    Buffer.from([0, 2 + ((p256Point?.content.at(-1) ?? 0) & 1)]),
    p256Point?.content.subarray(2, 34) ?? asn1Null,
  ),
);

describe('parseCertificateRequest()', () => {
  it.each<[string, RequestForm]>([
    ['no change', {}],
    ['names of each kind', { attributes: [wish(names(text('a', 0x82), text('a@b', 0x81), text('https://a/', 0x86)))] }],
    ['RSA', { key: rsa(65_537), algorithm: rsaAlgorithm }],
    ['a challenge password', { attributes: [attribute('1.2.840.113549.1.9.7', writeDer(0x31, text('x')))] }],
  ])('reads %s', (_what, form) => {
    expect(problemOf(form)).toBe('none');
  });

  it.each<[string, RequestForm, string]>([
    ['version 2', { version: 1 }, 'its version is not 1'],
    ['no list of attributes', { attributes: 'none' }, 'list of attributes is missing'],
    ['a list of another tag', { subject: writeDer(0x31, organization) }, 'subject is missing'],
    [
      'more after a value of the subject',
      { subject: writeDer(0x30, writeDer(0x31, attribute('2.5.4.3', text('a'), asn1Null))) },
      'not a type and a value',
    ],
    [
      'a subject that is no UTF-8',
      { subject: writeDer(0x30, writeDer(0x31, attribute('2.5.4.3', writeDer(0x0c, Buffer.of(0xff))))) },
      'no text of its type',
    ],
    [
      'half a surrogate in a BMPString',
      { subject: writeDer(0x30, writeDer(0x31, attribute('2.5.4.3', writeDer(0x1e, Buffer.of(0xd8, 0))))) },
      'no text of its type',
    ],
    ['a NUL in a DNS name', { attributes: [wish(names(text('a\0.b', 0x82)))] }, 'characters that names do not have'],
    [
      'a DNS name that is not ASCII',
      { attributes: [wish(names(text('ä', 0x82)))] },
      'characters that names do not have',
    ],
    ['an address of five bytes', { attributes: [wish(names(text('12345', 0x87)))] }, 'IP address of another length'],
    ['names that are no list', { attributes: [wish(attribute('2.5.29.17', text('a', 4)))] }, 'cut off'],
    [
      'more after an extension',
      { attributes: [wish(attribute('2.5.29.17', text('0', 4), asn1Null))] },
      'broken extension',
    ],
    [
      'an attribute of no values',
      { attributes: [attribute('1.2.840.113549.1.9.7', writeDer(0x31))] },
      'broken attribute',
    ],
    [
      "Microsoft's list of extensions",
      { attributes: [attribute('1.3.6.1.4.1.311.2.1.14', writeDer(0x31, writeDer(0x30)))] },
      'which OpenSSL reads and Go does not',
    ],
    [
      'a length beyond the end, in what nobody looks at',
      { attributes: [attribute('1.2.3', writeDer(0x31, writeDer(0x30, Buffer.of(4, 9))))] },
      'cut off',
    ],
    ['NULL with a content', { attributes: [attribute('1.2.3', writeDer(0x31, text('a', 5)))] }, 'NULL with a content'],
    ['a point that is compressed', { publicKey: compressed }, 'point is not uncompressed'],
    ['a large RSA exponent', { key: rsa(4_294_967_291), algorithm: rsaAlgorithm }, 'RSA exponent is too large'],
    [
      'more after the algorithm',
      { algorithm: [oidDer('1.2.840.10045.4.3.2'), asn1Null, asn1Null] },
      'broken signature',
    ],
    [
      'parameters of Ed25519',
      { key: generateKeyPairSync('ed25519').privateKey, algorithm: [oidDer('1.3.101.112'), asn1Null] },
      'not signed by its key',
    ],
    ['a blank line', { pem: (pem) => pem.replace('-----\n', '-----\n\n') }, 'a blank line inside'],
  ])('does not read %s', (_what, form, problem) => {
    expect(problemOf(form)).toContain(problem);
  });
});
