import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { isCode } from '../../lib/errors.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import { signatureMatches } from '../../lib/pki/verify.ts';
import { authority, leaf } from './authority.ts';
import { opensslDir, type OpensslDir } from './openssl.ts';

let dir: OpensslDir;
let a: Certificate;
let b: Certificate;

beforeAll(async () => {
  dir = await opensslDir();
  const ca = await authority({ commonName: 'a' });
  a = ca.certificate;
  b = await leaf(ca);
});
afterAll(() => dir[Symbol.asyncDispose]());

function armour(label: string, der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n');
}

/** PEM text from certificates a and b, by name of the row. */
const broken: Readonly<Record<string, { text: () => string; says: RegExp }>> = {
  'empty text': { text: () => '', says: /there is none/ },
  'zero bytes, as a power loss leaves them': { text: () => '\0'.repeat(4096), says: /there is none/ },
  'comments only': { text: () => '# nothing here\n', says: /there is none/ },
  'cut off inside the base64': { text: () => a.pem.slice(0, 200), says: /cut off/ },
  'cut off before the END line': { text: () => a.pem.slice(0, a.pem.indexOf('-----END')), says: /cut off/ },
  'cut off inside the END line': { text: () => a.pem.trimEnd().slice(0, -3), says: /cut off/ },
  'a second block cut off': { text: () => a.pem + b.pem.slice(0, 100), says: /cut off/ },
  'a cut-off block before a whole one': { text: () => `${b.pem.slice(0, 100)}\n${a.pem}`, says: /cut off/ },
  'END without BEGIN': { text: () => a.pem.slice(28), says: /damaged/ },
  'an indented BEGIN line, which Go does not see': { text: () => ` ${a.pem}`, says: /damaged/ },
  'a byte order mark before BEGIN': { text: () => `\u{feff}${a.pem}`, says: /damaged/ },
  'not base64': { text: () => a.pem.replace(/\n(.)/, '\n!'), says: /not base64/ },
  'base64 with bad padding': { text: () => a.pem.replace('\n-----END', '=\n-----END'), says: /not base64/ },
  'an empty block': { text: () => armour('CERTIFICATE', Buffer.alloc(0)), says: /not base64/ },
  'base64 of something else': { text: () => armour('CERTIFICATE', Buffer.from('hello')), says: /not a certificate/ },
  'DER cut off': { text: () => armour('CERTIFICATE', a.x509.raw.subarray(0, -5)), says: /not a certificate/ },
  'bytes after the DER': {
    text: () => armour('CERTIFICATE', Buffer.concat([a.x509.raw, Buffer.from([0])])),
    says: /not a certificate \(bytes after/,
  },
  'a length that is not in its shortest form': {
    text: () => armour('CERTIFICATE', Buffer.concat([Buffer.of(0x30, 0x83, 0), a.x509.raw.subarray(2)])),
    says: /not a certificate \(length is not DER/,
  },
  'a key among certificates': {
    text: () => a.pem + armour('EC PRIVATE KEY', Buffer.from('x')),
    says: /EC PRIVATE KEY/,
  },
  'TRUSTED CERTIFICATE': { text: () => armour('TRUSTED CERTIFICATE', a.x509.raw), says: /TRUSTED CERTIFICATE/ },
  'headers inside a block': {
    text: () => a.pem.replace('CERTIFICATE-----\n', 'CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\n'),
    says: /headers/,
  },
};

describe('parseCertificates() refuses', () => {
  test.each(Object.entries(broken))('%s', (_name, { text, says }) => {
    const parse = (): unknown => parseCertificates(Buffer.from(text()), 'Secret "ns/name" tls.crt');
    expect(parse).toThrow(says);
    expect(parse).toThrow(/^Cannot read certificates of Secret "ns\/name" tls\.crt: /);
    expect(parse).toThrow(expect.toSatisfy((err) => isCode(err, 'MaterialInvalid')));
  });
});

describe('parseCertificates() accepts', () => {
  test.each<[string, () => string]>([
    ['two certificates', () => a.pem + b.pem],
    ['comments before, between and after', () => `# first\n${a.pem}subject: CN = b\n${b.pem}\nthe end`],
    ['CRLF line ends', () => (a.pem + b.pem).replaceAll('\n', '\r\n')],
    ['trailing blanks and no newline at the end', () => (a.pem + b.pem).replaceAll('\n', ' \t\n').trimEnd()],
    ['one long line of base64', () => [a, b].map(({ x509 }) => longLine(x509.raw)).join('')],
  ])('%s', (_name, text) => {
    const parsed = parseCertificates(Buffer.from(text()), 'test');
    expect(parsed.map(({ facts }) => facts.fingerprint)).toEqual([a.facts.fingerprint, b.facts.fingerprint]);
    expect(parsed.map(({ pem }) => pem)).toEqual([a.pem, b.pem]);
  });
});

describe('parseCertificates() skips', () => {
  const headers = 'Comment: of others\n\n';
  const others = (label: string, body: string): string => `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`;

  test.each([
    ['an encrypted key', others('EC PRIVATE KEY', 'Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA')],
    ['a block with a header of several lines', others('X509 CRL', 'Version: 1\n more\n\nAAAA')],
  ])('%s among certificates, as Go and OpenSSL do', (_, block) => {
    const parsed = parseCertificates(Buffer.from(block + a.pem + block + b.pem), 'test', 'skipped');
    expect(parsed.map(({ pem }) => pem)).toEqual([a.pem, b.pem]);
  });

  test('no certificate with headers, which OpenSSL refuses, and no block that is cut off', () => {
    const headed = a.pem.replace('CERTIFICATE-----\n', `CERTIFICATE-----\n${headers}`);
    const parse = (text: string) => () => parseCertificates(Buffer.from(text), 'test', 'skipped');
    expect(parse(headed + b.pem)).toThrow('has headers');
    expect(parse(`-----BEGIN X509 CRL-----\n${headers}AAAA\n${b.pem}`)).toThrow('cut off');
  });
});

describe('parseCertificates() reads', () => {
  const read = (pem: string): Certificate | undefined => parseCertificates(Buffer.from(pem), 'test')[0];

  test('what it has read lately only once, however it is written', () => {
    expect(read(`# once more\n${a.pem.replaceAll('\n', '\r\n')}`)).toBe(read(a.pem));
  });

  test('each into bytes of its own, which hold nothing of what is read beside it', () => {
    for (const { fields } of parseCertificates(Buffer.from(a.pem + b.pem), 'test')) {
      for (const { buffer } of [fields.subject.der, fields.issuer.der, ...fields.alternativeNames]) {
        expect(buffer.byteLength).toBeLessThan(2000);
      }
    }
  });

  test('what it has not seen for long once more: it keeps no more than a control plane and its trust bundles have', () => {
    const first = read(b.pem);
    for (const der of variants(a, 1000)) read(longLine(der));
    const again = read(b.pem);
    expect(again).not.toBe(first);
    expect(again?.facts).toEqual(first?.facts);
    expect(read(b.pem)).toBe(again);
  });

  test('a trust bundle of 150 CAs once, beside all others', () => {
    const bundle = Buffer.from([...variants(a, 150)].map(longLine).join(''));
    const first = parseCertificates(bundle, 'test');
    const again = parseCertificates(bundle, 'test');
    expect(again.every((certificate, at) => certificate === first[at])).toBe(true);
  });
});

/** Certificates that differ in a byte of their signature. */
function* variants({ x509: { raw } }: Certificate, count: number): Generator<Buffer> {
  for (let n = 0; n < count; n += 1) {
    const der = Buffer.from(raw);
    der.writeUInt16BE(n, der.length - 2);
    yield der;
  }
}

function longLine(der: Buffer): string {
  return `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`;
}

/** A self-signed certificate made by openssl. */
async function made(...args: readonly string[]): Promise<Certificate> {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', dir.path('x.key')];
  const text = await dir.openssl('req', '-x509', '-days', '3650', ...key, ...args);
  const [certificate] = parseCertificates(Buffer.from(text), 'openssl');
  if (certificate === undefined) throw new Error('no certificate');
  return certificate;
}

describe('facts of certificates that openssl made', () => {
  test.each<[string, readonly string[], { commonName: string; organizations: string[]; subject: string }]>([
    [
      'separate RDNs',
      ['-subj', '/O=system:masters/O=second/CN=admin'],
      {
        commonName: 'admin',
        organizations: ['system:masters', 'second'],
        subject: 'CN=admin,O=second,O=system:masters',
      },
    ],
    [
      'one RDN of several values (a set: the shorter one first)',
      ['-multivalue-rdn', '-subj', '/O=alpha+O=beta/CN=x'],
      { commonName: 'x', organizations: ['beta', 'alpha'], subject: 'CN=x,O=beta+O=alpha' },
    ],
    [
      'common name and organization in one RDN',
      ['-multivalue-rdn', '-subj', '/O=group+CN=x'],
      { commonName: 'x', organizations: ['group'], subject: 'CN=x+O=group' },
    ],
    [
      'UTF-8',
      ['-utf8', '-subj', '/O=Größe €/CN=名前'],
      { commonName: '名前', organizations: ['Größe €'], subject: 'CN=名前,O=Größe €' },
    ],
    [
      'characters that end a value',
      ['-subj', '/O=a\nCN=evil,b/CN=#x\\+y'],
      { commonName: '#x+y', organizations: ['a\nCN=evil,b'], subject: String.raw`CN=\#x\+y,O=a${'\n'}CN=evil\,b` },
    ],
    [
      'several common names',
      ['-subj', '/CN=one/CN=two'],
      { commonName: 'two', organizations: [], subject: 'CN=two,CN=one' },
    ],
    ['no name at all', ['-subj', '/'], { commonName: '', organizations: [], subject: '' }],
  ])('names: %s', async (_name, args, expected) => {
    expect((await made(...args)).facts).toMatchObject(expected);
  });

  test('alternative names come out in canonical form, sorted, without other kinds', async () => {
    const names = 'DNS:B.example,DNS:a,IP:10.0.0.1,IP:FD00:0:0::1,IP:::ffff:10.0.0.2,email:x@y,URI:http://c,DNS:a';
    const { facts } = await made('-subj', '/CN=x', '-addext', `subjectAltName=${names}`);
    expect(facts.hostnames).toEqual(['10.0.0.1', '10.0.0.2', 'a', 'b.example', 'fd00::1']);
  });

  test.each<[string, readonly string[], readonly string[] | undefined]>([
    ['none', [], undefined],
    ['both', ['-addext', 'extendedKeyUsage=clientAuth,serverAuth'], ['clientAuth', 'serverAuth']],
    ['another', ['-addext', 'extendedKeyUsage=codeSigning'], ['1.3.6.1.5.5.7.3.3']],
    ['any', ['-addext', 'extendedKeyUsage=clientAuth,anyExtendedKeyUsage'], undefined],
  ])('extended key usage: %s', async (_name, args, expected) => {
    expect((await made('-subj', '/CN=x', ...args)).facts.usages).toEqual(expected);
  });

  test('fields: path length, key usage and unknown critical extensions', async () => {
    const extensions = [
      'basicConstraints=critical,CA:TRUE,pathlen:3',
      'keyUsage=critical,digitalSignature,keyCertSign',
      '1.2.3.4=critical,ASN1:NULL',
    ];
    const { facts, fields } = await made('-subj', '/CN=x', ...extensions.flatMap((text) => ['-addext', text]));
    expect(facts.isCa).toBe(true);
    expect(fields.basicConstraints).toEqual({ ca: true, pathLength: 3 });
    expect(fields.keyUsage).toEqual({ digitalSignature: true, keyEncipherment: false, certSign: true });
    expect(fields.unknownCritical).toEqual(['1.2.3.4']);
  });

  test('the fingerprint, serial and dates are those that openssl prints', async () => {
    const certificate = await made('-subj', '/CN=x', '-set_serial', '0x7f00aa');
    const file = await dir.file('print.pem', certificate.pem);
    const print = await dir.openssl('x509', '-in', file, '-noout', '-fingerprint', '-sha256', '-serial', '-enddate');
    const [, fingerprint = ''] = /Fingerprint=(.*)/.exec(print) ?? [];
    const [, end = ''] = /notAfter=(.*)/.exec(print) ?? [];
    expect(certificate.facts.fingerprint).toBe(fingerprint.replaceAll(':', '').toLowerCase());
    expect(certificate.facts.serial).toBe('7f00aa');
    expect(certificate.facts.notAfter).toEqual(new Date(end));
  });
});

describe('parseCertificates() of a bundle with a CA whose key is of a kind that is never made here', () => {
  const selfSigned = async (name: string, ...kind: readonly string[]): Promise<string> => {
    await dir.openssl('genpkey', ...kind, '-out', `${name}.key`);
    return dir.openssl('req', '-x509', '-new', '-key', `${name}.key`, '-subj', `/CN=${name}`, '-days', '10');
  };

  test.each([
    ['p224', '-algorithm', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-224'],
    ['pss', '-algorithm', 'rsa-pss'],
    ['ed448', '-algorithm', 'ed448'],
  ])('%s: it is whole, as for Go', async (name, ...kind) => {
    const pem = await selfSigned(name, ...kind);
    const bundle = parseCertificates(Buffer.from(a.pem + pem), 'test');
    expect(bundle.map(({ facts }) => facts.commonName)).toEqual(['a', name]);
    expect(bundle.map(({ facts }) => facts.key?.name)).toEqual(['ECDSA', undefined]);
  });

  test('a kind that nobody knows here: it is whole, and has signed nothing', async () => {
    const pem = await selfSigned('x', '-algorithm', 'ed25519');
    const [known] = parseCertificates(Buffer.from(pem), 'test');
    const der = Buffer.from(known?.x509.raw ?? '');
    // the algorithm of the key alone: 1.3.101.112 becomes 1.3.101.126 in the SubjectPublicKeyInfo
    der[der.indexOf(Buffer.from(known?.fields.publicKeyInfo ?? '')) + 8] = 126;
    const odd = encodePem({ label: 'CERTIFICATE', der });
    const bundle = parseCertificates(Buffer.from(a.pem + odd), 'test');
    expect(bundle.map(({ facts }) => facts.key?.name)).toEqual(['ECDSA', undefined]);
    const [first, unknown] = bundle as [Certificate, Certificate];
    expect(signatureMatches(first, unknown)).toBe(false);
    expect(signatureMatches(unknown, unknown)).toBe(false);
  });

  test('a curve that Go does not know: it is refused, as Go refuses the bundle', async () => {
    const pem = await selfSigned('k256', '-algorithm', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp256k1');
    expect(() => parseCertificates(Buffer.from(a.pem + pem), 'test')).toThrow(/kind "ec secp256k1"/);
  });
});

describe('dates', () => {
  const dated = (from: string, to: string): string => {
    const was = Buffer.from('260531120000Z');
    const der = Buffer.from(a.x509.raw);
    const at = der.indexOf(was);
    der.write(from, at, 'latin1');
    der.write(to, at + 15, 'latin1');
    return armour('CERTIFICATE', der);
  };

  test('are those of the certificate', () => {
    const [read] = parseCertificates(Buffer.from(dated('500101000000Z', '491231235959Z')), 'test');
    expect(read?.facts.notBefore).toEqual(new Date('1950-01-01T00:00:00Z'));
    expect(read?.facts.notAfter).toEqual(new Date('2049-12-31T23:59:59Z'));
  });

  test.each(['260230000000Z', '261301000000Z', '260101240000Z', '260101006000Z', '26010100000xZ', '260101000000z'])(
    '%s is no date, as for Go: the certificate is refused',
    (date) => {
      const parse = (): unknown => parseCertificates(Buffer.from(dated('260101000000Z', date)), 'test');
      expect(parse).toThrow(/not a certificate \(notAfter is no date that there is\)/);
    },
  );
});
