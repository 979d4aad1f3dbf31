// Whether a CA certificate is still as its signer made it. Verifiers never check the signature of a root (nor does Go's
// crypto/x509), so a flipped bit in a file goes unnoticed until a name no longer fits, a parser refuses the file, or a
// renewal copies the damage to a correct file. Pure.
import type { Certificate } from './certificate.ts';
import { isSignedByKey, signatureMatches } from './verify.ts';

/**
 * Signature algorithms that can be checked here (SHA-1 and SHA-2 with RSA or ECDSA, RSA-PSS, Ed25519); certificates
 * with any other count as undamaged.
 */
const checkable: ReadonlySet<string> = new Set([
  ...[5, 10, 11, 12, 13, 14].map((arc) => `1.2.840.113549.1.1.${arc}`),
  '1.2.840.10045.4.1',
  ...[1, 2, 3, 4].map((arc) => `1.2.840.10045.4.3.${arc}`),
  '1.3.101.112',
]);

/** A CA has few keys in its life; a writer of a bundle could add hundreds of its name, each to be tried for each. */
const mostSigners = 10;

/** Checked once each: a signature costs some ten microseconds, and bundles are read again and again. */
const verdicts = new WeakMap<Certificate, boolean>();

/**
 * Whether the certificate claims to be self-signed and its key has not signed it. `beside`: the certificates found with
 * it; a CA that changed its key without changing its name (RFC 4210, 4.4) is signed by the key of another.
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
  if (!isWrong) return false;
  const issuer = certificate.fields.issuer.der;
  const signers = beside.filter((other) => other !== certificate && other.fields.subject.der.equals(issuer));
  return !signers.slice(0, mostSigners).some((signer) => signatureMatches(certificate, signer));
}

/**
 * Whether issuer and subject are equal, and the key identifiers too where both are given. The damage may be in any of
 * the four: two names, or two identifiers, that differ in a single byte were equal before it. No CA differs from the CA
 * above it in so little and nothing else.
 */
function isSelfSignedByItsWord({ fields }: Certificate): boolean {
  const { subject, issuer, subjectKeyId, authorityKeyId } = fields;
  if (!differsLittle(subject.der, issuer.der, 1)) return false;
  if (subjectKeyId === undefined || authorityKeyId === undefined) return true;
  return differsLittle(Buffer.from(subjectKeyId, 'hex'), Buffer.from(authorityKeyId, 'hex'), 1);
}

/** Most bytes that damage changes; another certificate of the same CA has another signature. */
const littleBytes = 16;

/** Whether one certificate may be a damaged copy of the other. */
export const resembles = (a: Certificate, b: Certificate): boolean => resemblesDer(a.x509.raw, b.x509.raw);

/** Variant of `resembles` for bytes that may be no certificate any more. */
export const resemblesDer = (a: Buffer, b: Buffer): boolean => differsLittle(a, b, littleBytes);

/** Whether both have the same length and differ in at most `most` bytes. */
export function differsLittle(a: Buffer, b: Buffer, most: number): boolean {
  if (a.length !== b.length) return false;
  let different = 0;
  for (const [at, byte] of a.entries()) if (byte !== b[at]) different += 1;
  return different <= most;
}
