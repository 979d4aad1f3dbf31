// What the copies of a signer's certificate prove. A file that cannot be read, or whose own signature is wrong, is bad:
// there it is asked which copy was in its place. One that can be read is taken for whole although a copy differs, because
// the damage may be the copy's, until something that neither of them says shows which it is. Pure.
import type { Certificate } from '../pki/certificate.ts';
import { isDamaged, resembles } from '../pki/damage.ts';
import { signatureMatches } from '../pki/verify.ts';

export interface Copy {
  /** As people know it: the name of an artefact, or `its backup`. */
  readonly from: string;
  /** Bundles and kubeconfigs. What a leaf brings along, and a backup, may be as old as the damage. */
  readonly isIndependent: boolean;
  readonly certificate: Certificate;
}

export interface Evidence {
  /** With which the signer's file begins, where it can be read. */
  readonly own: Certificate | undefined;
  /** Whole ones that fit the signer. */
  readonly copies: readonly Copy[];
  /** All CA certificates at hand. */
  readonly authorities: readonly Certificate[];
  /** What names the signer as its issuer. */
  readonly leaves: readonly Certificate[];
  readonly now: Date;
}

/** Why no copy is put back: they are not the same, or have ended and what is here has not, or no leaf knows their name. */
export type Doubt = 'different' | 'ended' | 'unnamed';

export interface Finding {
  /** The one to put back. */
  readonly certificate?: Certificate;
  readonly from: readonly string[];
  readonly doubt?: Doubt;
}

/** Without further proof: what a signer's file begins with cannot be what was there. `beside`: what follows it. */
export const isBad = (own: Certificate, beside: readonly Certificate[]): boolean =>
  isDamaged(own, beside) || !isUsableCa(own);

export const isUsableCa = ({ facts, fields }: Certificate): boolean =>
  facts.isCa && fields.keyUsage?.certSign !== false;

/** The copy that was in the place of a file that is bad. */
export function formerOf(evidence: Evidence): Finding {
  const { own, copies, now } = evidence;
  const alike = own === undefined ? copies : copies.filter(({ certificate }) => resembles(own, certificate));
  const usable =
    own !== undefined && isValid(own, now) ? alike.filter((copy) => isValid(copy.certificate, now)) : alike;
  if (usable.length === 0) return alike.length === 0 ? { from: [] } : { from: placesOf(alike), doubt: 'ended' };
  const named = own === undefined ? usable.filter(({ certificate }) => !isContradicted(certificate, evidence)) : usable;
  if (named.length === 0) return { from: placesOf(usable), doubt: 'unnamed' };
  const proven = named.filter(({ certificate }) => isProven(certificate, evidence));
  const choice = proven.length > 0 ? proven : named;
  const found =
    soleOf(choice) ?? (own === undefined ? soleOf(choice.filter((one) => isValid(one.certificate, now))) : undefined);
  return found === undefined
    ? { from: placesOf(usable), doubt: 'different' }
    : { certificate: found, from: placesOf(choice.filter(({ certificate }) => isSame(certificate, found))) };
}

/**
 * Of a file that can be read: its copies that differ from it in a few bytes, and the one of them that is proven to be
 * what was there. The signature of a CA at hand proves it; or all that the signer has signed, by naming the copy and not
 * the file.
 */
export function betterThanOwn(own: Certificate, evidence: Evidence): Finding {
  if (isProven(own, evidence)) return { from: [] };
  const differing = evidence.copies.filter(
    ({ certificate }) => !isSame(certificate, own) && resembles(certificate, own),
  );
  const proven = differing.filter(({ certificate }) => isProven(certificate, evidence));
  const byLeaves = (): readonly Copy[] => {
    const isHeldElsewhere = evidence.copies.some(({ certificate }) => isSame(certificate, own));
    const isWitnessed = differing.some(({ isIndependent }) => isIndependent);
    return isWitnessed && !isHeldElsewhere && isNamedInsteadOf(own, soleOf(differing), evidence) ? differing : [];
  };
  const choice = proven.length > 0 ? proven : byLeaves();
  const certificate = soleOf(choice);
  if (certificate !== undefined) return { certificate, from: placesOf(choice) };
  // A backup that differs is what was replaced.
  return { from: placesOf(differing.filter(({ from }) => from !== backupName)), doubt: 'different' };
}

export const backupName = 'its backup';

/** Damage and such a signature exclude each other, whoever holds the certificate. */
const isProven = (certificate: Certificate, { authorities }: Evidence): boolean =>
  [certificate, ...authorities].some((authority) => signatureMatches(certificate, authority));

function isNamedInsteadOf(own: Certificate, copy: Certificate | undefined, { leaves }: Evidence): boolean {
  const signed = leaves.filter((leaf) => isSignedByKey(leaf, own));
  return copy !== undefined && signed.length > 0 && signed.every((leaf) => names(leaf, copy) && !names(leaf, own));
}

/** Its key has signed leaves, and none of these knows it by this name. */
function isContradicted(copy: Certificate, { leaves }: Evidence): boolean {
  const signed = leaves.filter((leaf) => isSignedByKey(leaf, copy));
  return signed.length > 0 && !signed.some((leaf) => signatureMatches(leaf, copy));
}

function isSignedByKey(leaf: Certificate, { x509 }: Certificate): boolean {
  try {
    return leaf.x509.verify(x509.publicKey);
  } catch {
    return false; // a key of another kind than the signature
  }
}

function names({ fields: { issuer, authorityKeyId } }: Certificate, { fields }: Certificate): boolean {
  const isSameKeyId =
    authorityKeyId === undefined || fields.subjectKeyId === undefined || authorityKeyId === fields.subjectKeyId;
  return isSameKeyId && issuer.der.equals(fields.subject.der);
}

const isValid = ({ facts: { notBefore, notAfter } }: Certificate, now: Date): boolean =>
  notBefore <= now && now < notAfter;
const isSame = (a: Certificate, b: Certificate): boolean => a.facts.fingerprint === b.facts.fingerprint;
const placesOf = (copies: readonly Copy[]): readonly string[] => [...new Set(copies.map(({ from }) => from))];

/** Where all are one and the same. */
function soleOf(copies: readonly Copy[]): Certificate | undefined {
  const [first, ...others] = copies;
  return others.every(({ certificate }) => first !== undefined && isSame(certificate, first.certificate))
    ? first?.certificate
    : undefined;
}
