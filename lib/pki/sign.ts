// Makes certificates: CAs and leaves in the form that Go's and OpenShift's tools give them. A certificate is capped at
// its signer's notAfter, never made with a signer that is expired, not yet valid, no CA or whose key is another one,
// and read back and verified before it is returned. All dates are given by the caller.
import type { KeyObject } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { type Certificate, parseCertificates } from './certificate.ts';
import { encode, type Issuer, type WantedCertificate } from './encode.ts';
import { usageOids } from './extensions.ts';
import { keyMatches } from './key.ts';
import { canonicalHostnames, type DistinguishedName, distinguishedName, hostnameDer, orderedNames } from './names.ts';
import { isSignedByKey, verifyChain } from './verify.ts';

interface Request {
  /** Key of the new certificate. The public half goes into it; a self-signed one is signed with the private one. */
  readonly key: KeyObject;
  /** Signer; without it the certificate is self-signed. */
  readonly issuer?: Issuer | undefined;
  /** Back-dated by the caller. */
  readonly notBefore: Date;
  /** Wanted notAfter: the signer's, if that is earlier. */
  readonly notAfter: Date;
  /** Time at which the signer must be valid. */
  readonly now: Date;
}

export interface LeafRequest extends Request {
  readonly issuer: Issuer;
  /** Default for a serving certificate: the first host name in sorted order. */
  readonly commonName?: string | undefined;
  readonly organizations: readonly string[];
  /** DNS names and IP addresses; a serving or peer certificate has at least one. */
  readonly hostnames: readonly string[];
  readonly usage: 'client' | 'serving' | 'peer';
}

/** Fields that a new leaf takes over from another, as `kubeadm certs renew` does; nothing else. */
export type LeafTemplate = Pick<DistinguishedName, 'commonName' | 'organizations'> &
  Pick<WantedCertificate, 'extendedKeyUsage' | 'alternativeNames'>;

export function templateOf({ fields }: Certificate): LeafTemplate {
  const { subject, extendedKeyUsage, alternativeNames } = fields;
  const { commonName, organizations } = subject;
  return { commonName, organizations, extendedKeyUsage, alternativeNames };
}

const usages = {
  client: [usageOids.clientAuth],
  serving: [usageOids.serverAuth],
  peer: [usageOids.clientAuth, usageOids.serverAuth],
} as const;

/** Returns a CA certificate. Throws SignFailed. */
export function signSigner(request: Request & { readonly commonName: string }): Promise<Certificate> {
  return sign(request, { subject: distinguishedName(request.commonName), alternativeNames: [], isCa: true });
}

/** Throws SignFailed. */
export async function signLeaf(request: LeafRequest): Promise<Certificate> {
  const hostnames = canonicalHostnames(request.hostnames);
  const commonName = request.commonName ?? hostnames[0] ?? '';
  if (request.usage !== 'client' && hostnames.length === 0) {
    throw refusal(commonName, 'it has no host name, wanted at least one');
  }
  const odd = hostnames.find((name) => !/^[!-~]+$/.test(name));
  if (odd !== undefined) throw refusal(commonName, `host name "${odd}" is not ASCII, wanted its xn-- form`);
  return sign(request, {
    subject: distinguishedName(commonName, ...request.organizations.map((one) => [one])),
    alternativeNames: hostnames.map(hostnameDer),
    isCa: false,
    extendedKeyUsage: usages[request.usage],
  });
}

/** Returns a leaf as Go would make it from a template; self-signed without an issuer. Throws SignFailed. */
export async function signTemplate(request: Request & { readonly template: LeafTemplate }): Promise<Certificate> {
  const { commonName, organizations, extendedKeyUsage, alternativeNames } = request.template;
  return sign(request, {
    subject: distinguishedName(commonName, organizations),
    alternativeNames: orderedNames(alternativeNames),
    isCa: false,
    extendedKeyUsage,
    isPlain: true,
  });
}

function refusal(commonName: string, problem: string): RecoveryError {
  return new RecoveryError('SignFailed', `Cannot sign certificate "${commonName}": ${problem}`);
}

/** Certificates have no fractions of a second. */
function wholeSeconds(ms: number): Date {
  return new Date(Math.floor(ms / 1000) * 1000);
}

async function sign(request: Request, says: Omit<WantedCertificate, 'notBefore' | 'notAfter'>): Promise<Certificate> {
  const { key, issuer, now } = request;
  const end = Math.min(request.notAfter.getTime(), issuer?.certificate.facts.notAfter.getTime() ?? Infinity);
  const wanted = { ...says, notBefore: wholeSeconds(request.notBefore.getTime()), notAfter: wholeSeconds(end) };
  const { commonName } = wanted.subject;
  if (commonName === '') throw refusal('', 'it has no name, wanted a common name');
  const problem = (issuer && issuerProblem(issuer, wanted, now)) ?? datesProblem(wanted, now);
  if (problem !== undefined) throw refusal(commonName, problem);
  let pem: string;
  try {
    pem = await encode(wanted, { key, issuer });
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) throw refusal(commonName, err.message);
    throw refusal(commonName, `it cannot be encoded (${errorText(err)})`);
  }
  return checked(pem, wanted, request);
}

function issuerProblem({ certificate, key }: Issuer, wanted: WantedCertificate, now: Date): string | undefined {
  const { facts, fields } = certificate;
  const signer = `its signer "${facts.subject}"`;
  if (now >= facts.notAfter) return `${signer} expired at ${facts.notAfter.toISOString()}, wanted a valid one`;
  if (now < facts.notBefore) return `${signer} is not valid before ${facts.notBefore.toISOString()}`;
  if (!facts.isCa || fields.keyUsage?.certSign === false) return `${signer} is not a CA that may sign certificates`;
  if (wanted.isCa && fields.basicConstraints?.pathLength === 0) return `${signer} may not sign CAs (path length 0)`;
  if (!keyMatches(certificate, key)) return `the key of ${signer} does not belong to its certificate`;
  return undefined;
}

function datesProblem({ notBefore, notAfter }: WantedCertificate, now: Date): string | undefined {
  // written so that an invalid date is a problem too
  if (notBefore <= now && notAfter > now) return undefined;
  const [from, to, at] = [notBefore, notAfter, now].map(dateText);
  return `it would be valid from ${from} to ${to}, wanted one that is valid at ${at}`;
}

function dateText(date: Date): string {
  return Number.isNaN(date.getTime()) ? 'an invalid date' : date.toISOString();
}

/**
 * Returns the certificate in `pem`, read back with another parser (OpenSSL, node:crypto) than its encoder: it has the
 * requested content and verifies as a Go program would verify it. Throws SignFailed when it differs from the request.
 */
function checked(pem: string, wanted: WantedCertificate, request: Request): Certificate {
  const refuse = (problem: string): RecoveryError => refusal(wanted.subject.commonName, `its check failed, ${problem}`);
  let certificates: Certificate[];
  try {
    certificates = parseCertificates(Buffer.from(pem), 'the new certificate');
  } catch (err) {
    throw refuse(errorText(err));
  }
  const [made, other] = certificates;
  if (made === undefined || other !== undefined) throw refuse('it is not one certificate');
  const problem = problemOf(made, wanted, request);
  if (problem !== undefined) throw refuse(problem);
  return made;
}

function problemOf(made: Certificate, wanted: WantedCertificate, { key, issuer, now }: Request): string | undefined {
  const wrong = wrongFields(made, wanted);
  if (wrong.length > 0) return `not as asked for: ${wrong.join(', ')}`;
  if (!keyMatches(made, key)) return 'its key is another one';
  const verifiable = (['serverAuth', 'clientAuth'] as const).filter((usage) =>
    wanted.extendedKeyUsage?.includes(usageOids[usage]),
  );
  for (const usage of verifiable.length > 0 ? verifiable : [undefined]) {
    const answer = verifyChain({ leaf: made, intermediates: [], roots: [issuer?.certificate ?? made], at: now, usage });
    if (!answer.ok) return answer.reason;
  }
  // a chain stops at a trusted certificate without checking that one's own signature
  return issuer !== undefined || isSignedByKey(made, made) ? undefined : 'its signature is wrong';
}

function wrongFields({ facts, fields }: Certificate, wanted: WantedCertificate): string[] {
  const pairs: Readonly<Record<string, readonly [unknown, unknown]>> = {
    subject: [fields.subject.der, wanted.subject.der],
    'alternative names': [fields.alternativeNames, wanted.alternativeNames],
    'extended key usage': [fields.extendedKeyUsage, wanted.extendedKeyUsage],
    'CA flag': [facts.isCa, wanted.isCa],
    'key usage': [fields.keyUsage, { digitalSignature: true, keyEncipherment: true, certSign: wanted.isCa }],
    notBefore: [facts.notBefore.getTime(), wanted.notBefore.getTime()],
    notAfter: [facts.notAfter.getTime(), wanted.notAfter.getTime()],
  };
  return Object.entries(pairs)
    .filter(([, [is, should]]) => !isDeepStrictEqual(is, should))
    .map(([name]) => name);
}
