// The successor of a CA: the same CA with a later notAfter, which replaces it wherever it is trusted. One rule for all
// that take over a successor: a control-plane machine that finds it, a worker that receives it, the publication of
// cluster-info. Pure: the time is an argument.
import { type Certificate, distinct } from './certificate.ts';
import { extensionValues } from './tbs-certificate.ts';
import { hasInsecureHash, isSignedByKey } from './verify.ts';

/**
 * Whether a client that trusts `trusted` may trust `offered` in its place although only its own signature vouches for
 * it: a CA of the same name, key, key identifier and limits, signed by the key of `trusted`. Without that key no other
 * party can make one, unless other content with the same hash can be found. Its notAfter is later; no other date is
 * checked, because the trusted CA may have expired.
 */
export const isSuccessor = (offered: Certificate, trusted: Certificate): boolean =>
  successorProblem(offered, trusted) === undefined;

/** Why it may not, in words that complete a sentence; undefined: it may. */
export function successorProblem(offered: Certificate, trusted: Certificate): string | undefined {
  const { notAfter } = trusted.facts;
  const isLater = offered.facts.notAfter > notAfter;
  return (
    successionProblem(offered, trusted) ?? (isLater ? undefined : `it does not end after ${notAfter.toISOString()}`)
  );
}

/** Extensions that limit the CA: key identifier, path length, usages, names and policies; none of them may change. */
const limits = ['14', '15', '19', '30', '36', '37', '54'].map((arc) => `2.5.29.${arc}`);

/** Variant of successorProblem for any notAfter of the new certificate. */
export function successionProblem(made: Certificate, old: Certificate): string | undefined {
  const [a, b] = [made.fields, old.fields];
  if (!made.facts.isCa || a.keyUsage?.certSign === false) return 'it is not a CA that may sign certificates';
  if (!a.subject.der.equals(b.subject.der)) return 'its name is another one';
  if (!a.issuer.der.equals(a.subject.der)) return 'another CA has signed it';
  if (!a.publicKeyInfo.equals(b.publicKeyInfo)) return 'its key is another one';
  if (!isSignedByKey(made, old)) return 'its signature is wrong';
  if (hasInsecureHash(made)) return 'it is signed with an insecure hash (MD5 or SHA-1)';
  const [is, was] = [made, old].map(extensionValues);
  const changed = limits.find((oid) => !(is?.get(oid) ?? none).equals(was?.get(oid) ?? none));
  return changed && `its extension ${changed} is not that of the old certificate`;
}

const none = Buffer.alloc(0);

const isValidAt = ({ facts: { notBefore, notAfter } }: Certificate, now: Date): boolean =>
  notBefore <= now && now < notAfter;

/** Successor of `of` in `among` that is valid now. Every machine chooses the same of several. */
export const newestSuccessor = (of: Certificate, among: readonly Certificate[], now: Date): Certificate | undefined =>
  lastToEnd(among.filter((one) => isValidAt(one, now) && isSuccessor(one, of)));

/** The certificate with the latest notAfter; of several the one with the lower fingerprint. */
export function lastToEnd(certificates: readonly Certificate[]): Certificate | undefined {
  const [last] = certificates.toSorted(
    (a, b) =>
      b.facts.notAfter.getTime() - a.facts.notAfter.getTime() || (a.facts.fingerprint < b.facts.fingerprint ? -1 : 1),
  );
  return last;
}

/** `held` with each certificate replaced that has a replacement, without duplicates; undefined where none has. */
export function replaced(
  held: readonly Certificate[],
  replacementOf: (certificate: Certificate) => Certificate | undefined,
): readonly Certificate[] | undefined {
  const next = held.map((one) => replacementOf(one) ?? one);
  if (next.every((one, at) => one === held[at])) return undefined;
  return distinct(next);
}

/** `held` with `own` in place of each certificate whose successor it is. */
export const succeededBy = (held: readonly Certificate[], own: Certificate): readonly Certificate[] | undefined =>
  replaced(held, (one) => (isSuccessor(own, one) ? own : undefined));
