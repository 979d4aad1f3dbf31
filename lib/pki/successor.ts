// The successor of a CA: the same CA with a later end, which comes in its place wherever it is known. One rule for all who
// take one over: a control-plane machine that finds it, a worker to which it is offered, what is published for everybody.
// Pure: the time is an argument.
import { type Certificate, isSame } from './certificate.ts';
import { extensionValues } from './tbs-certificate.ts';
import { hasInsecureHash, isSignedByKey } from './verify.ts';

/**
 * Whether who trusts `trusted` may trust `offered` in its place although nothing vouches for that but itself: a CA of the same
 * name, key, key identifier and limits, whose signature the key that is trusted already has made. Who has not that key
 * cannot make one, unless the signature is over a hash for which another content can be found. Its end is later; that is
 * all that is asked of the dates, because the trusted one may have expired.
 */
export const isSuccessor = (offered: Certificate, trusted: Certificate): boolean =>
  successorProblem(offered, trusted) === undefined;

/** Why it may not, as the end of a sentence; undefined: it may. */
export function successorProblem(offered: Certificate, trusted: Certificate): string | undefined {
  const { notAfter } = trusted.facts;
  const isLater = offered.facts.notAfter > notAfter;
  return (
    successionProblem(offered, trusted) ?? (isLater ? undefined : `it does not end after ${notAfter.toISOString()}`)
  );
}

/** The key identifier, path length, usages, names and policies that the CA is limited to: none of them may change. */
const limits = ['14', '15', '19', '30', '36', '37', '54'].map((arc) => `2.5.29.${arc}`);

/** As successorProblem, whatever the end of the new one is. */
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

/** The successor among these that is valid now. Every machine chooses the same one of several. */
export const newestSuccessor = (of: Certificate, among: readonly Certificate[], now: Date): Certificate | undefined =>
  lastToEnd(among.filter((one) => isValidAt(one, now) && isSuccessor(one, of)));

/** The one that ends last; of several that end together the one with the lower fingerprint. */
export function lastToEnd(certificates: readonly Certificate[]): Certificate | undefined {
  const [last] = certificates.toSorted(
    (a, b) =>
      b.facts.notAfter.getTime() - a.facts.notAfter.getTime() || (a.facts.fingerprint < b.facts.fingerprint ? -1 : 1),
  );
  return last;
}

/** `held` with each certificate replaced for which there is a replacement, once each; undefined where there is none. */
export function replaced(
  held: readonly Certificate[],
  replacementOf: (certificate: Certificate) => Certificate | undefined,
): readonly Certificate[] | undefined {
  const next = held.map((one) => replacementOf(one) ?? one);
  if (next.every((one, at) => one === held[at])) return undefined;
  return next.filter((one, at) => next.findIndex((other) => isSame(one, other)) === at);
}

/** These with `own` in the place of each whose successor it is. */
export const succeededBy = (held: readonly Certificate[], own: Certificate): readonly Certificate[] | undefined =>
  replaced(held, (one) => (isSuccessor(own, one) ? own : undefined));
