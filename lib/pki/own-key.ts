// A CA certificate with a later notAfter and nothing else new: the same key, name, extensions and notBefore.
// Certificates signed by the CA verify under both, in both directions, and no leaf, no key identifier and no join hash
// (SPKI, kubeadm's pubkeypin) changes. All dates are derived from the old certificate, so that every machine that has
// the key makes the same certificate without consulting other machines: with RSA the same bytes (RFC 8017, 8.2, is
// deterministic), with ECDSA certificates that differ in their signature alone and serve as well as each other.
import { createHash, type KeyObject, sign as signBytes } from 'node:crypto';
import { errorText, RecoveryError } from '../errors.ts';
import { type Certificate, type CertificateFacts, parseCertificates } from './certificate.ts';
import { childrenOf, derTime, readDer, tags, writeDer } from './der.ts';
import { context } from './extensions.ts';
import { keyAlgorithmOf, keyMatches } from './key.ts';
import { encodePem } from './pem.ts';
import { successionProblem } from './successor.ts';
import { extensionValues, type DerField, partsOf } from './tbs-certificate.ts';
import { signatureMatches, verifyChain } from './verify.ts';

const dayMs = 24 * 3_600_000;

/** kubeadm's life of a CA. A CA keeps its notBefore, so without a limit each renewal would double its life. */
const longestMs = 3650 * dayMs;

type Dates = Pick<CertificateFacts, 'notBefore' | 'notAfter'>;

/** Milliseconds that a renewal adds to notAfter: the former life, ten years at most. */
const stepOf = ({ notBefore, notAfter }: Dates): number =>
  Math.max(1000, Math.min(notAfter.getTime() - notBefore.getTime(), longestMs));

/**
 * notAfter of the renewed certificate: later by its former life (ten years at most), as many times as needed to leave a
 * tenth of that from now on. Machines whose clocks differ come to the same date, unless a clock is within that
 * difference of a step.
 */
export function renewedNotAfter(old: Dates, now: Date): Date {
  const step = stepOf(old);
  const missing = now.getTime() + step / 10 - old.notAfter.getTime();
  return new Date(old.notAfter.getTime() + Math.max(1, Math.ceil(missing / step)) * step);
}

/**
 * Whether a certificate names its issuer by issuer and serial number in its authority key identifier (RFC 5280,
 * 4.2.1.1): OpenSSL refuses it under a CA with another serial.
 */
export function namesSerialOf(leaf: Certificate, authority: Certificate): boolean {
  const named = extensionValues(leaf).get(authorityKeyIdentifier);
  if (named === undefined || !leaf.fields.issuer.der.equals(authority.fields.subject.der)) return false;
  try {
    const serial = childrenOf(readDer(named)).find(({ tag }) => tag === context(2))?.content;
    return serial?.equals(partsOf(authority.x509.raw).serial.content) === true;
  } catch {
    return false; // no reader in Kubernetes uses more than the key identifier
  }
}

const authorityKeyIdentifier = '2.5.29.35';

interface OwnKeyRenewal {
  readonly old: Certificate;
  readonly key: KeyObject;
  /** All other certificates at hand: those signed by the CA must stay valid, and may name its serial. */
  readonly others: readonly Certificate[];
  readonly now: Date;
}

/**
 * Returns the CA certificate with its own key and a later notAfter. Its serial stays where a certificate that it has
 * signed names it; else it is another one, derived from the old certificate: some clients refuse two certificates with
 * one issuer and serial (NSS, SEC_ERROR_REUSED_ISSUER_AND_SERIAL). Throws SignFailed where the certificate is not
 * signed by its own key, the key is another one, or the result would not be a successor of the old in every point.
 */
export function renewWithOwnKey({ old, key, others, now }: OwnKeyRenewal): Certificate {
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('SignFailed', `Cannot renew CA "${old.facts.subject}" with its own key: ${problem}`);
  if (!old.facts.isCa || old.fields.keyUsage?.certSign === false)
    throw refuse('it is not a CA that may sign certificates');
  if (!signatureMatches(old, old)) throw refuse('it is not signed by its own key: the CA above it must sign it');
  if (!keyMatches(old, key)) throw refuse('the key does not belong to it');
  const notAfter = renewedNotAfter(old.facts, now);
  let made: Certificate | undefined;
  try {
    const keepsSerial = [old, ...others].some((one) => namesSerialOf(one, old));
    const der = withOtherEnd(old, key, { notAfter, serial: keepsSerial ? undefined : derivedSerial(old) });
    [made] = parseCertificates(Buffer.from(encodePem({ label: 'CERTIFICATE', der })), 'the new certificate');
  } catch (err) {
    throw refuse(errorText(err));
  }
  if (made === undefined || made.facts.notAfter.getTime() !== notAfter.getTime())
    throw refuse('its end is not as asked for');
  const problem = successionProblem(made, old) ?? (keyMatches(made, key) ? undefined : 'its key is another one');
  if (problem !== undefined) throw refuse(`its check failed, ${problem}`);
  const lost = others.find((one) => verifies(one, old) && !verifies(one, made));
  if (lost !== undefined) throw refuse(`its check failed, "${lost.facts.subject}" would not verify under it`);
  return made;
}

/** Verifies at the leaf's notAfter, or the CA's if earlier: the notBefore of both CAs is the same. */
function verifies(leaf: Certificate, root: Certificate): boolean {
  const at = leaf.facts.notAfter < root.facts.notAfter ? leaf.facts.notAfter : root.facts.notAfter;
  return signatureMatches(leaf, root) && verifyChain({ leaf, intermediates: [], roots: [root], at }).ok;
}

interface Changes {
  readonly notAfter: Date;
  /** Undefined: unchanged. */
  readonly serial: Buffer | undefined;
}

function withOtherEnd(old: Certificate, key: KeyObject, { notAfter, serial }: Changes): Buffer {
  const parts = partsOf(old.x509.raw);
  const { algorithm, hash } = signatureLike(old, key, parts.algorithm.raw);
  const raw = (values: readonly DerField[]): Buffer[] => values.map((value) => value.raw);
  const tbs = writeDer(
    tags.sequence,
    ...raw(parts.version),
    serial === undefined ? parts.serial.raw : writeDer(tags.integer, serial),
    algorithm,
    parts.issuer.raw,
    writeDer(tags.sequence, parts.notBefore.raw, derTime(notAfter)),
    ...raw([parts.subject, parts.publicKey, ...parts.rest]),
  );
  const signature = signBytes(hash, tbs, key);
  return writeDer(tags.sequence, tbs, algorithm, writeDer(tags.bitString, Buffer.of(0), signature));
}

/** Twenty bytes of the SHA-256 of the old certificate, positive and without leading zeros (RFC 5280, 4.1.2.2). */
function derivedSerial({ x509 }: Certificate): Buffer {
  const serial = createHash('sha256').update(x509.raw).digest().subarray(0, 20);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  return serial;
}

const rsaOids: Readonly<Record<string, string>> = {
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
};
const ecdsaOids: Readonly<Record<string, string>> = {
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
};
const sha256WithRsa = Buffer.from('300d06092a864886f70d01010b0500', 'hex');
const ecdsaWithSha256 = Buffer.from('300a06082a8648ce3d040302', 'hex');
const ed25519 = Buffer.from('300506032b6570', 'hex');

/**
 * Returns the algorithm of the old signature; SHA-256 in place of MD5, SHA-1 and RSA-PSS, whose signatures are random.
 */
function signatureLike(
  { fields }: Certificate,
  key: KeyObject,
  old: Buffer,
): { algorithm: Buffer; hash: string | null } {
  const { name } = keyAlgorithmOf(key);
  if (name === 'Ed25519') return { algorithm: ed25519, hash: null };
  const kept = (name === 'RSA' ? rsaOids : ecdsaOids)[fields.signatureOid];
  if (kept !== undefined) return { algorithm: old, hash: kept };
  return { algorithm: name === 'RSA' ? sha256WithRsa : ecdsaWithSha256, hash: 'sha256' };
}
