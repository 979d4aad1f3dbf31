// Whether a Go program (every Kubernetes component) accepts a certificate: path validation as Go's crypto/x509 does it,
// with every certificate of a trust file as a root, intermediates and expired ones included: names as bytes,
// signatures, dates of the whole chain, CA flag and key usage, path length, extended key usages, host name, name
// constraints. Pure.
import { isIP } from 'node:net';
import { bounds } from '../bounds.ts';
import { type Certificate, isSame } from './certificate.ts';
import { constraintProblem } from './name-constraints.ts';
import { canonicalHostname, dnsNameCovers } from './names.ts';

export interface ChainQuestion {
  readonly leaf: Certificate;
  /** Certificates that the server or client sends along with the leaf. */
  readonly intermediates: readonly Certificate[];
  readonly roots: readonly Certificate[];
  readonly at: Date;
  readonly usage?: 'clientAuth' | 'serverAuth' | undefined;
  /** DNS name or IP address. */
  readonly hostname?: string | undefined;
  /**
   * A root is a name and a public key: the dates of its own certificate are no part of path validation (RFC 5280, 6.1.1
   * d), though every verifier of Kubernetes checks them. Default: they are checked.
   */
  readonly rootDates?: 'ignored' | undefined;
}

type ChainAnswer = { readonly ok: true } | { readonly ok: false; readonly reason: string };

type Chain = readonly [Certificate, ...Certificate[]];

/** Signature algorithms that Go refuses: MD2, MD5 and SHA-1. */
const insecure: ReadonlySet<string> = new Set([
  '1.2.840.113549.1.1.2',
  '1.2.840.113549.1.1.4',
  '1.2.840.113549.1.1.5',
  '1.2.840.10045.4.1',
]);

export function verifyChain(question: ChainQuestion): ChainAnswer {
  const { leaf, at, hostname } = question;
  const problem =
    dateProblem(leaf, at) ??
    extensionProblem(leaf) ??
    keyProblem(leaf) ??
    policyProblem(leaf, 0) ??
    (hostname === undefined ? undefined : hostnameProblem(leaf, hostname));
  if (problem !== undefined) return { ok: false, reason: problem };
  const reason = searchProblem([leaf], { ...question, checks: { left: bounds.chain.most.signatures } });
  return reason === undefined ? { ok: true } : { ok: false, reason };
}

/**
 * Why every verifier refuses the leaf, whichever CA has signed it and whatever it is used for; undefined: no reason.
 */
export function leafRefusal(leaf: Certificate): string | undefined {
  if (hasInsecureHash(leaf)) return 'it is signed with an insecure hash (MD5 or SHA-1)';
  const [unknown] = leaf.fields.unknownCritical;
  if (unknown !== undefined) return `it has the unknown critical extension ${unknown}`;
  const bits = weakRsaBits(leaf);
  return bits === undefined ? undefined : `it has an RSA key of ${bits} bits, wanted ${leastVerifiedBits} at least`;
}

/**
 * Why verifiers refuse every certificate that the key of this one signs, where it is among their trusted certificates;
 * undefined: no reason. For certificates that are not made yet.
 */
export const rootRefusal = (
  root: Certificate,
  { at, usage }: Pick<ChainQuestion, 'at' | 'usage'>,
): string | undefined =>
  dateProblem(root, at) ??
  extensionProblem(root) ??
  authorityProblem(root, true) ??
  keyProblem(root) ??
  usageProblem([root], usage);

/** Whether `parent` has the name that `child` gives as its issuer and its key made `child`'s signature. */
export function signatureMatches(child: Certificate, parent: Certificate): boolean {
  return child.fields.issuer.der.equals(parent.fields.subject.der) && isSignedByKey(child, parent);
}

/** Whether Go would refuse its signature for the hash alone. */
export const hasInsecureHash = ({ fields }: Certificate): boolean => insecure.has(fields.signatureOid);

/** Whether the key of `parent` made its signature, whatever their names. */
export function isSignedByKey({ x509 }: Certificate, parent: Certificate): boolean {
  try {
    return x509.verify(parent.x509.publicKey);
  } catch {
    return false; // a key of another kind than the signature
  }
}

interface Search extends ChainQuestion {
  readonly checks: { left: number };
}

/** Why no chain that begins with `chain` reaches a root; undefined when one does. */
function searchProblem(chain: Chain, question: Search): string | undefined {
  const last = chain.at(-1) ?? chain[0];
  if (question.roots.some((root) => isSame(root, last))) return usageProblem(chain, question.usage);
  const parents = [...question.roots, ...question.intermediates].filter(
    (parent) => parent.fields.subject.der.equals(last.fields.issuer.der) && !chain.some((link) => isSame(link, parent)),
  );
  let found: string | undefined;
  for (const parent of parents) {
    question.checks.left -= 1;
    if (question.checks.left < 0) return found ?? `${nameOf(last)} has more possible issuers than can be tried`;
    const isRoot = question.roots.includes(parent);
    const isDated = !isRoot || question.rootDates === undefined;
    const problem =
      (isDated ? dateProblem(parent, question.at) : undefined) ??
      extensionProblem(parent) ??
      signingProblem(last, parent, isRoot) ??
      lengthProblem(chain, parent) ??
      keyProblem(parent) ??
      (isRoot ? undefined : policyProblem(parent, chain.length)) ??
      constrainedProblem(chain, parent) ??
      searchProblem([...chain, parent], question);
    if (problem === undefined) return undefined;
    found ??= problem;
  }
  return found ?? `${nameOf(last)} is signed by "${last.facts.issuer}", which is not among the trusted certificates`;
}

function nameOf({ facts }: Certificate): string {
  return `certificate "${facts.subject}"`;
}

function dateProblem(certificate: Certificate, at: Date): string | undefined {
  const { facts } = certificate;
  if (at < facts.notBefore) return `${nameOf(certificate)} is not valid before ${facts.notBefore.toISOString()}`;
  return at > facts.notAfter ? `${nameOf(certificate)} expired at ${facts.notAfter.toISOString()}` : undefined;
}

function extensionProblem(certificate: Certificate): string | undefined {
  const [unknown] = certificate.fields.unknownCritical;
  return unknown === undefined ? undefined : `${nameOf(certificate)} has the unknown critical extension ${unknown}`;
}

function signingProblem(child: Certificate, parent: Certificate, isRoot: boolean): string | undefined {
  const problem = authorityProblem(parent, isRoot);
  if (problem !== undefined) return problem;
  if (hasInsecureHash(child)) return `${nameOf(child)} is signed with an insecure hash (MD5 or SHA-1)`;
  if (signatureMatches(child, parent)) return undefined;
  return `${nameOf(child)} was not signed by the key of the trusted certificate "${parent.facts.subject}"`;
}

/** Why it may sign no certificate. */
function authorityProblem(parent: Certificate, isRoot: boolean): string | undefined {
  const { version, basicConstraints, keyUsage } = parent.fields;
  // version 1 and 2 have no extensions: Go trusts such a certificate as a root, never as an intermediate
  const mustSayCa = version === 3 || basicConstraints !== undefined || !isRoot;
  if (mustSayCa && basicConstraints?.ca !== true) return `${nameOf(parent)} is not a CA`;
  return keyUsage?.certSign === false ? `${nameOf(parent)} may not sign certificates (key usage)` : undefined;
}

function lengthProblem(chain: Chain, parent: Certificate): string | undefined {
  const longest = parent.fields.basicConstraints?.pathLength ?? Infinity;
  return chain.length - 1 > longest ? `${nameOf(parent)} allows ${longest} intermediate CAs below it` : undefined;
}

/**
 * Policies of a root are ignored by Go (1.24 and later; before, it refused these extensions where they are critical).
 * Where a certificate below it demands a policy, no chain is accepted: stricter than Go, which then compares them along
 * the chain.
 */
function policyProblem(certificate: Certificate, below: number): string | undefined {
  const { requireExplicitPolicy: after } = certificate.fields;
  if (after === undefined || after > below) return undefined;
  return `${nameOf(certificate)} demands certificate policies, which are not compared here`;
}

/** Go refuses to verify with a smaller key (crypto/rsa, 1.24); the handshake is verified with a leaf's key. */
export const leastVerifiedBits = 1024;

function weakRsaBits({ facts: { key } }: Certificate): number | undefined {
  return key?.name === 'RSA' && key.bits < leastVerifiedBits ? key.bits : undefined;
}

function keyProblem(certificate: Certificate): string | undefined {
  const bits = weakRsaBits(certificate);
  if (bits === undefined) return undefined;
  return `${nameOf(certificate)} has an RSA key of ${bits} bits, wanted ${leastVerifiedBits} at least`;
}

function constrainedProblem(chain: Chain, parent: Certificate): string | undefined {
  const { nameConstraints } = parent.fields;
  if (nameConstraints === undefined) return undefined;
  for (const link of chain) {
    const problem = constraintProblem(link.fields.alternativeNames, nameConstraints);
    if (problem !== undefined) return `${nameOf(parent)} has name constraints against ${nameOf(link)}: ${problem}`;
  }
  return undefined;
}

function usageProblem(chain: Chain, usage: ChainQuestion['usage']): string | undefined {
  if (usage === undefined) return undefined;
  const without = chain.find(({ facts }) => facts.usages !== undefined && !facts.usages.includes(usage));
  return without && `${nameOf(without)} may not be used for ${usage}`;
}

function hostnameProblem(leaf: Certificate, hostname: string): string | undefined {
  const asked = canonicalHostname(hostname);
  const { dnsNames, ipAddresses } = leaf.fields;
  const covered = isIP(asked) === 0 ? dnsNames.some((name) => dnsNameCovers(name, asked)) : ipAddresses.includes(asked);
  if (covered) return undefined;
  return `${nameOf(leaf)} is not valid for "${hostname}", only for ${leaf.facts.hostnames.join(', ') || 'no name'}`;
}
