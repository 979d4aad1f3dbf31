// Makes certificates: CAs and leaves in the form that Go's and OpenShift's tools give them. A certificate is capped at
// its signer's end, never made with a signer that is expired, not yet valid, no CA or whose key is another one, and
// read back and verified before it is returned. All dates are given by the caller. Home of @peculiar/x509, which is
// loaded on first use: it costs tens of milliseconds and megabytes that a process that never signs does not pay.
import { createPublicKey, type KeyObject, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type * as X509 from '@peculiar/x509';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import type { Certificate } from './certificate.ts';
import type { KeyAlgorithm } from './facts.ts';
import { canonicalHostnames } from './hostname.ts';
import { keyAlgorithmOf, keyMatches } from './key.ts';
import { requireSigned, type Wanted } from './signed-check.ts';

export interface Issuer {
  readonly certificate: Certificate;
  readonly key: KeyObject;
}

interface Request {
  /** Of the certificate that is made. The public half goes into it; a self-signed CA is signed with the private one. */
  readonly key: KeyObject;
  /** Back-dated by whoever asks. */
  readonly notBefore: Date;
  /** The wanted end: the signer's, if that is earlier. */
  readonly notAfter: Date;
  /** The signer must be valid now. */
  readonly now: Date;
}

export interface SignerRequest extends Request {
  readonly commonName: string;
  /** Given for an intermediate CA; without it the certificate is self-signed. */
  readonly issuer?: Issuer;
}

export interface LeafRequest extends Request {
  readonly issuer: Issuer;
  /** Left out for a serving certificate: then the first host name in sorted order. */
  readonly commonName?: string;
  readonly organizations: readonly string[];
  /** DNS names and IP addresses; a serving or peer certificate has at least one. */
  readonly hostnames: readonly string[];
  readonly usage: 'client' | 'serving' | 'peer';
}

const usages = { client: ['clientAuth'], serving: ['serverAuth'], peer: ['clientAuth', 'serverAuth'] } as const;

let loading: Promise<typeof X509> | undefined;

/** Loads what signing needs, so that the first certificate does not wait for it. */
export async function prepareSigning(): Promise<void> {
  await loadX509();
}

function loadX509(): Promise<typeof X509> {
  loading ??= import('reflect-metadata').then(() => import('@peculiar/x509'));
  return loading;
}

/** PEM of a CA certificate. Throws SignFailed. */
export function signSigner(request: SignerRequest): Promise<string> {
  return sign(request, {
    commonName: request.commonName,
    organizations: [],
    hostnames: [],
    isCa: true,
    ...datesOf(request),
  });
}

/** PEM of a leaf certificate, the leaf alone. Throws SignFailed. */
export async function signLeaf(request: LeafRequest): Promise<string> {
  const hostnames = canonicalHostnames(request.hostnames);
  const commonName = request.commonName ?? hostnames[0] ?? '';
  if (request.usage !== 'client' && hostnames.length === 0) {
    throw refusal(commonName, 'it has no host name, wanted at least one');
  }
  const odd = hostnames.find((name) => !/^[!-~]+$/.test(name));
  if (odd !== undefined) throw refusal(commonName, `host name "${odd}" is not ASCII, wanted its xn-- form`);
  return sign(request, {
    commonName,
    organizations: request.organizations,
    hostnames,
    isCa: false,
    usages: usages[request.usage],
    ...datesOf(request),
  });
}

function refusal(commonName: string, problem: string): RecoveryError {
  return new RecoveryError('SignFailed', `Cannot sign certificate "${commonName}": ${problem}`);
}

function datesOf({ notBefore, notAfter, issuer }: Request & { issuer?: Issuer }): { notBefore: Date; notAfter: Date } {
  const end = Math.min(notAfter.getTime(), issuer?.certificate.facts.notAfter.getTime() ?? Infinity);
  return { notBefore: wholeSeconds(notBefore.getTime()), notAfter: wholeSeconds(end) };
}

/** Certificates know no parts of a second. */
function wholeSeconds(ms: number): Date {
  return new Date(Math.floor(ms / 1000) * 1000);
}

async function sign(request: Request & { issuer?: Issuer }, wanted: Wanted): Promise<string> {
  const { key, issuer, now } = request;
  if (wanted.commonName === '') throw refusal('', 'it has no name, wanted a common name');
  const problem = (issuer && issuerProblem(issuer, wanted, now)) ?? datesProblem(wanted, now);
  if (problem !== undefined) throw refusal(wanted.commonName, problem);
  let pem: string;
  try {
    pem = await encode(await loadX509(), wanted, { key, issuer });
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) throw refusal(wanted.commonName, err.message);
    throw refusal(wanted.commonName, `it cannot be encoded (${errorText(err)})`);
  }
  requireSigned(pem, wanted, { key, issuer: issuer?.certificate, now });
  return pem;
}

function issuerProblem({ certificate, key }: Issuer, wanted: Wanted, now: Date): string | undefined {
  const { facts, fields } = certificate;
  const signer = `its signer "${facts.subject}"`;
  if (now >= facts.notAfter) return `${signer} expired at ${facts.notAfter.toISOString()}, wanted a valid one`;
  if (now < facts.notBefore) return `${signer} is not valid before ${facts.notBefore.toISOString()}`;
  if (!facts.isCa || fields.keyUsage?.certSign === false) return `${signer} is not a CA that may sign certificates`;
  if (wanted.isCa && fields.basicConstraints?.pathLength === 0) return `${signer} may not sign CAs (path length 0)`;
  if (!keyMatches(certificate, key)) return `the key of ${signer} does not belong to its certificate`;
  return undefined;
}

function datesProblem({ notBefore, notAfter }: Wanted, now: Date): string | undefined {
  // written so that an invalid date is a problem too
  if (notBefore <= now && notAfter > now) return undefined;
  const [from, to, at] = [notBefore, notAfter, now].map(dateText);
  return `it would be valid from ${from} to ${to}, wanted one that is valid at ${at}`;
}

function dateText(date: Date): string {
  return Number.isNaN(date.getTime()) ? 'an invalid date' : date.toISOString();
}

interface Keys {
  readonly key: KeyObject;
  readonly issuer: Issuer | undefined;
}

async function encode(x509: typeof X509, wanted: Wanted, { key, issuer }: Keys): Promise<string> {
  const algorithm = signingAlgorithm(keyAlgorithmOf(issuer?.key ?? key));
  const publicKey = new x509.PublicKey(createPublicKey(key).export({ type: 'spki', format: 'der' }));
  const subject = new x509.Name([...wanted.organizations.map((name) => ({ O: [name] })), { CN: [wanted.commonName] }]);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: randomSerial(),
    subject,
    // the object, not its text: text is encoded anew, perhaps in another string type, and Go compares bytes
    issuer: issuer === undefined ? subject : new x509.X509Certificate(issuer.certificate.x509.raw).subjectName,
    notBefore: wanted.notBefore,
    notAfter: wanted.notAfter,
    publicKey,
    signingAlgorithm: algorithm,
    signingKey: (issuer?.key ?? key).toCryptoKey(algorithm, false, ['sign']),
    extensions: await extensionsOf(x509, wanted, { publicKey, issuer }),
  });
  return `${certificate.toString('pem').trimEnd()}\n`;
}

async function extensionsOf(
  x509: typeof X509,
  wanted: Wanted,
  { publicKey, issuer }: { publicKey: X509.PublicKey; issuer: Issuer | undefined },
): Promise<X509.Extension[]> {
  const { digitalSignature, keyEncipherment, keyCertSign } = x509.KeyUsageFlags;
  const leafUsage: X509.KeyUsageFlags = digitalSignature | keyEncipherment;
  const caUsage: X509.KeyUsageFlags = leafUsage | keyCertSign;
  const subjectKeyId = await x509.SubjectKeyIdentifierExtension.create(publicKey);
  // the signer's own identifier: others compute it in other ways (Go from 1.25 on with SHA-256)
  const authorityKeyId = issuer === undefined ? subjectKeyId.keyId : issuer.certificate.fields.subjectKeyId;
  const names = wanted.hostnames.map((value) => ({
    type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const),
    value,
  }));
  const oids = wanted.usages?.map((usage) => x509.ExtendedKeyUsage[usage]);
  return [
    new x509.KeyUsagesExtension(wanted.isCa ? caUsage : leafUsage, true),
    ...(oids === undefined ? [] : [new x509.ExtendedKeyUsageExtension(oids)]),
    new x509.BasicConstraintsExtension(wanted.isCa, undefined, true),
    subjectKeyId,
    ...(authorityKeyId === undefined ? [] : [new x509.AuthorityKeyIdentifierExtension(authorityKeyId)]),
    ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)]),
  ];
}

type SigningAlgorithm = { readonly name: string; readonly hash?: string; readonly namedCurve?: string };

/** The hash that matches the strength of the key. */
function signingAlgorithm(algorithm: KeyAlgorithm): SigningAlgorithm {
  if (algorithm.name === 'RSA') return { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  if (algorithm.name === 'Ed25519') return { name: 'Ed25519' };
  const hash = { 'P-256': 'SHA-256', 'P-384': 'SHA-384', 'P-521': 'SHA-512' }[algorithm.curve];
  return { name: 'ECDSA', hash, namedCurve: algorithm.curve };
}

/** Sixteen bytes, positive, without leading zeros (RFC 5280, 4.1.2.2). */
function randomSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
