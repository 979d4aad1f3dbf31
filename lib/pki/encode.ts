// The bytes of a certificate, as Go's and OpenShift's tools would make them, and of a request for one; whether it may
// be made is sign.ts. Home of @peculiar/x509, which is loaded on first use: it costs tens of milliseconds and megabytes
// that a process that never signs does not pay.
import { createPublicKey, type KeyObject, randomBytes } from 'node:crypto';
import type * as X509 from '@peculiar/x509';
import type { Certificate } from './certificate.ts';
import { tags, writeDer } from './der.ts';
import { subjectAltName } from './extensions.ts';
import { type KeyAlgorithm, keyAlgorithmOf } from './key.ts';
import type { DistinguishedName } from './names.ts';

/** Content of a new certificate. */
export interface WantedCertificate {
  readonly subject: DistinguishedName;
  /** DER of each. */
  readonly alternativeNames: readonly Buffer[];
  readonly isCa: boolean;
  /** Object identifiers; without them the certificate is not restricted. */
  readonly extendedKeyUsage?: readonly string[] | undefined;
  /** Leaf as Go's x509.CreateCertificate makes it by default: no key identifier, a serial of 8 bytes. */
  readonly isPlain?: true;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

export interface Issuer {
  readonly certificate: Certificate;
  readonly key: KeyObject;
}

let loading: Promise<typeof X509> | undefined;

/** Loads the signing package, so that the first certificate does not wait for it. */
export async function prepareSigning(): Promise<void> {
  await loadX509();
}

function loadX509(): Promise<typeof X509> {
  loading ??= import('reflect-metadata')
    .then(() => import('@peculiar/x509'))
    .catch((err: unknown) => {
      loading = undefined; // perhaps too many open files: the next signature tries again
      throw err;
    });
  return loading;
}

interface Keys {
  /** Key of the new certificate; it signs where there is no issuer. */
  readonly key: KeyObject;
  readonly issuer: Issuer | undefined;
}

/** Returns PEM. Throws the encoder's errors. */
export async function encode(wanted: WantedCertificate, { key, issuer }: Keys): Promise<string> {
  const x509 = await loadX509();
  const algorithm = signingAlgorithm(keyAlgorithmOf(issuer?.key ?? key));
  const publicKey = new x509.PublicKey(createPublicKey(key).export({ type: 'spki', format: 'der' }));
  // the bytes, not the text: text is encoded again, perhaps in another string type, and Go compares bytes
  const [subject, above] = [wanted.subject, issuer?.certificate.fields.subject ?? wanted.subject];
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: randomSerial(wanted.isPlain === true ? 8 : 16),
    subject: new x509.Name(subject.der),
    issuer: new x509.Name(above.der),
    notBefore: wanted.notBefore,
    notAfter: wanted.notAfter,
    publicKey,
    signingAlgorithm: algorithm,
    signingKey: (issuer?.key ?? key).toCryptoKey(algorithm, false, ['sign']),
    extensions: await extensionsOf(x509, wanted, { publicKey, issuer }),
  });
  return `${certificate.toString('pem').trimEnd()}\n`;
}

/** Returns a request without attributes, signed by its own key. PEM. Throws the encoder's errors. */
export async function encodeRequest(subject: DistinguishedName, key: KeyObject): Promise<string> {
  const x509 = await loadX509();
  const algorithm = signingAlgorithm(keyAlgorithmOf(key));
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: new x509.Name(subject.der),
    keys: {
      privateKey: key.toCryptoKey(algorithm, false, ['sign']),
      publicKey: createPublicKey(key).toCryptoKey(algorithm, true, ['verify']),
    },
    signingAlgorithm: algorithm,
  });
  return `${request.toString('pem').trimEnd()}\n`;
}

async function extensionsOf(
  x509: typeof X509,
  { isCa, extendedKeyUsage, alternativeNames, isPlain }: WantedCertificate,
  { publicKey, issuer }: { publicKey: X509.PublicKey; issuer: Issuer | undefined },
): Promise<X509.Extension[]> {
  const { digitalSignature, keyEncipherment, keyCertSign } = x509.KeyUsageFlags;
  const leafUsage: X509.KeyUsageFlags = digitalSignature | keyEncipherment;
  const caUsage: X509.KeyUsageFlags = leafUsage | keyCertSign;
  const subjectKeyId = isPlain === true ? undefined : await x509.SubjectKeyIdentifierExtension.create(publicKey);
  // the signer's own identifier: other tools compute it differently (Go from 1.25 on with SHA-256)
  const authorityKeyId = issuer === undefined ? subjectKeyId?.keyId : issuer.certificate.fields.subjectKeyId;
  const names = writeDer(tags.sequence, ...alternativeNames);
  return [
    new x509.KeyUsagesExtension(isCa ? caUsage : leafUsage, true),
    ...(extendedKeyUsage === undefined ? [] : [new x509.ExtendedKeyUsageExtension([...extendedKeyUsage])]),
    new x509.BasicConstraintsExtension(isCa, undefined, true),
    ...(subjectKeyId === undefined ? [] : [subjectKeyId]),
    ...(authorityKeyId === undefined ? [] : [new x509.AuthorityKeyIdentifierExtension(authorityKeyId)]),
    ...(alternativeNames.length === 0 ? [] : [new x509.Extension(subjectAltName, false, names)]),
  ];
}

type SigningAlgorithm = { readonly name: string; readonly hash?: string; readonly namedCurve?: string };

/** Signature algorithm with the hash that matches the strength of the key. */
function signingAlgorithm(algorithm: KeyAlgorithm): SigningAlgorithm {
  if (algorithm.name === 'RSA') return { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  if (algorithm.name === 'Ed25519') return { name: 'Ed25519' };
  const hash = { 'P-256': 'SHA-256', 'P-384': 'SHA-384', 'P-521': 'SHA-512' }[algorithm.curve];
  return { name: 'ECDSA', hash, namedCurve: algorithm.curve };
}

/** Returns a serial of `length` bytes, positive, without leading zeros (RFC 5280, 4.1.2.2). */
function randomSerial(length: number): string {
  const bytes = randomBytes(length);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
