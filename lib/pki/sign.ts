// Makes certificates: CAs and leaves in the form that Go's and OpenShift's tools give them. A certificate is capped at
// its signer's end, never made with a signer that is expired, not yet valid, no CA or whose key is another one, and
// read back and verified before it is returned. All dates are given by the caller.
import type { KeyObject } from 'node:crypto';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { orderedNames } from './alternative-names.ts';
import type { Certificate } from './certificate.ts';
import { goDistinguishedName } from './distinguished-name.ts';
import { encode, type Issuer, prepareSigning } from './encode.ts';
import { canonicalHostnames } from './hostname.ts';
import { keyMatches } from './key.ts';
import type { LeafTemplate } from './leaf-template.ts';
import { checked, usageOids, type Wanted } from './signed-check.ts';

export { type Issuer, prepareSigning };

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

/** A leaf as Go would make it from a template; self-signed without an issuer. */
export interface TemplateRequest extends Request {
  readonly template: LeafTemplate;
  readonly issuer?: Issuer;
}

const usages = {
  client: [usageOids.clientAuth],
  serving: [usageOids.serverAuth],
  peer: [usageOids.clientAuth, usageOids.serverAuth],
} as const;

/** A CA certificate. Throws SignFailed. */
export function signSigner(request: SignerRequest): Promise<Certificate> {
  return sign(request, {
    commonName: request.commonName,
    organizations: [],
    hostnames: [],
    isCa: true,
    ...datesOf(request),
  });
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
    commonName,
    organizations: request.organizations,
    hostnames,
    isCa: false,
    extendedKeyUsage: usages[request.usage],
    ...datesOf(request),
  });
}

/** Throws SignFailed. */
export async function signTemplate(request: TemplateRequest): Promise<Certificate> {
  const { commonName, organizations, extendedKeyUsage, alternativeNames } = request.template;
  const subject = goDistinguishedName(commonName, organizations);
  return sign(request, {
    commonName,
    organizations: subject.organizations,
    hostnames: [],
    isCa: false,
    ...(extendedKeyUsage !== undefined && { extendedKeyUsage }),
    exact: { subject: subject.der, alternativeNames: orderedNames(alternativeNames) },
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

async function sign(request: Request & { issuer?: Issuer }, wanted: Wanted): Promise<Certificate> {
  const { key, issuer, now } = request;
  if (wanted.commonName === '') throw refusal('', 'it has no name, wanted a common name');
  const problem = (issuer && issuerProblem(issuer, wanted, now)) ?? datesProblem(wanted, now);
  if (problem !== undefined) throw refusal(wanted.commonName, problem);
  let pem: string;
  try {
    pem = await encode(wanted, { key, issuer });
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) throw refusal(wanted.commonName, err.message);
    throw refusal(wanted.commonName, `it cannot be encoded (${errorText(err)})`);
  }
  return checked(pem, wanted, { key, issuer: issuer?.certificate, now });
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
