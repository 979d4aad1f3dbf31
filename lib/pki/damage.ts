// Whether a CA certificate is still what its signer made. Who trusts a certificate never checks the signature of a root
// (Go's crypto/x509 neither), so a flipped bit in a file goes unnoticed until a name no longer fits, a parser refuses
// the rest, or a renewal copies it to where it was right. Pure.
import type { Certificate } from './certificate.ts';
import { isSignedByKey, signatureMatches } from './verify.ts';

/** Signatures that can be checked here (SHA-1 and SHA-2 with RSA or ECDSA, RSA-PSS, Ed25519); of others nothing is said. */
const checkable: ReadonlySet<string> = new Set([
  ...[5, 10, 11, 12, 13, 14].map((arc) => `1.2.840.113549.1.1.${arc}`),
  '1.2.840.10045.4.1',
  ...[1, 2, 3, 4].map((arc) => `1.2.840.10045.4.3.${arc}`),
  '1.3.101.112',
]);

/** One look each: a signature costs some ten microseconds, and bundles are looked at again and again. */
const verdicts = new WeakMap<Certificate, boolean>();

/**
 * Whether it says that its own key has signed it, and that key has not. `beside`: the certificates that it was found with; a
 * CA that changed its key without changing its name (RFC 4210, 4.4) is signed by one of these.
 */
export function isDamaged(certificate: Certificate, beside: readonly Certificate[] = []): boolean {
  let isWrong = verdicts.get(certificate);
  if (isWrong === undefined) {
    isWrong =
      isSelfSignedByItsWord(certificate) &&
      checkable.has(certificate.fields.signatureOid) &&
      !isSignedByKey(certificate, certificate);
    verdicts.set(certificate, isWrong);
  }
  return isWrong && !beside.some((other) => other !== certificate && signatureMatches(certificate, other));
}

/**
 * Issuer and subject are one, and so are the key identifiers where both are given. The damage may be in one of the four:
 * two names, or two identifiers, that differ in a single byte were the same. No CA is told from the one above it by that
 * little and by nothing else.
 */
function isSelfSignedByItsWord({ fields }: Certificate): boolean {
  const { subject, issuer, subjectKeyId, authorityKeyId } = fields;
  if (!differsLittle(subject.der, issuer.der, 1)) return false;
  if (subjectKeyId === undefined || authorityKeyId === undefined) return true;
  return differsLittle(Buffer.from(subjectKeyId, 'hex'), Buffer.from(authorityKeyId, 'hex'), 1);
}

/** So few bytes are damage; another certificate of the same CA has another signature. */
const littleBytes = 16;

/** Whether one of them may be what damage has made of the other. */
export const resembles = (a: Certificate, b: Certificate): boolean => resemblesDer(a.x509.raw, b.x509.raw);

/** The same of bytes that may be no certificate any more. */
export const resemblesDer = (a: Buffer, b: Buffer): boolean => differsLittle(a, b, littleBytes);

/** As long as each other, and different in at most so many bytes. */
export function differsLittle(a: Buffer, b: Buffer, most: number): boolean {
  if (a.length !== b.length) return false;
  let different = 0;
  for (const [at, byte] of a.entries()) if (byte !== b[at]) different += 1;
  return different <= most;
}
