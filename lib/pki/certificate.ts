// Certificates from PEM text, strictly: every block is a whole certificate and nothing else, or none is returned.
//
// This folder has its own DER reader and node:crypto next to @peculiar/x509, which only writes (encode.ts): loading the
// package costs about 10 MB and 50 ms, which a process that reads and never signs does not pay; and reading must accept
// exactly what Go accepts, to the bit, where other parsers accept more.
import type { NameConstraints } from './name-constraints.ts';
import { hash, X509Certificate } from 'node:crypto';
import { errorText } from '../errors.ts';
import { type CertificateFields, readCertificateFields } from './certificate-fields.ts';
import { usageOids } from './extensions.ts';
import { certifiedAlgorithmOf, type KeyAlgorithm } from './key.ts';
import { mostBlocks, readPem, unlessInvalid, unreadable } from './pem.ts';
import { Recent } from '../recent.ts';

/**
 * Back-dating of new certificates, as Kubernetes' own signers do it (pkg/controller/certificates/signer,
 * kubeadmconstants.CertificateBackdate): the clocks of machines that were off for months differ by minutes.
 */
export const backDatedMs = 5 * 60_000;

/**
 * Time at which a certificate in the API was made: its NotBefore without the back-dating. A certificate of another
 * signer may be as much older.
 */
export const madeAt = ({ notBefore }: Pick<CertificateFacts, 'notBefore'>): Date =>
  new Date(notBefore.getTime() + backDatedMs);

/**
 * Tolerated difference of two machines' clocks, which differ by seconds, not by hours. A certificate that begins this
 * much later by this clock may be valid elsewhere, and a certificate that expired this short a time ago, too.
 */
export const clockSkewMs = 5 * 60_000;

/** Whether it has expired on the clock of every machine. */
export const hasEnded = ({ notAfter }: Pick<CertificateFacts, 'notAfter'>, now: Date): boolean =>
  now.getTime() - notAfter.getTime() >= clockSkewMs;

export interface CertificateFacts {
  /** SHA-256 of the DER, lower-case hex. */
  readonly fingerprint: string;
  /** RFC 2253 text, last RDN first: `CN=kubernetes-admin,O=system:masters`. */
  readonly subject: string;
  readonly issuer: string;
  /** Lower-case hex. */
  readonly serial: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly isCa: boolean;
  /** DNS names and IP addresses of the subject alternative names, in canonical form (names.ts), sorted. */
  readonly hostnames: readonly string[];
  readonly commonName: string;
  readonly organizations: readonly string[];
  /**
   * Extended key usages: `clientAuth`, `serverAuth`, all else as OID; undefined where the certificate does not restrict
   * them.
   */
  readonly usages?: readonly string[];
  /** Undefined: a kind of key that is never made here. */
  readonly key?: KeyAlgorithm;
  /**
   * Fingerprints of the CA certificates of this inventory whose key made this certificate's signature, or the signature
   * of an intermediate CA in its own file.
   */
  readonly signedBy: readonly string[];
  /** Go release that refuses it and why, where older Go loads it (extensions.ts). It is no damage. */
  readonly newerGo?: string;
  /**
   * Why every verifier refuses it as a leaf, whichever CA has signed it (verify.ts); a sentence without a full stop.
   */
  readonly refused?: string;
  /** CAs only: names for which it may sign certificates. */
  readonly nameConstraints?: NameConstraints;
  /** CAs only: its own signature is wrong (damage.ts). It vouches for nothing. */
  readonly isDamaged?: true;
}

export interface Certificate {
  readonly x509: X509Certificate;
  /** PEM, newly encoded: lines of 64 characters, no comments, a newline at the end. */
  readonly pem: string;
  /** Facts except `signedBy`, which only a caller that has the other certificates can fill. */
  readonly facts: CertificateFacts;
  readonly fields: CertificateFields;
}

/** Whether two certificates are equal to the byte. */
export const isSame = (a: Certificate, b: Certificate): boolean => a.facts.fingerprint === b.facts.fingerprint;

/** Each certificate once, in the order of first occurrence. */
export function distinct(certificates: readonly Certificate[]): Certificate[] {
  const seen = new Set<string>();
  return certificates.filter(({ facts }) => seen.size < seen.add(facts.fingerprint).size);
}

/** Whether two CAs have the same name and key: a renewal keeps both, and all certificates it has signed stay valid. */
export const isSameAuthority = ({ fields: one }: Certificate, { fields: other }: Certificate): boolean =>
  one.subject.der.equals(other.subject.der) && one.publicKeyInfo.equals(other.publicKeyInfo);

const usageNames = new Map<string, string>(Object.entries(usageOids).map(([name, oid]) => [oid, name]));
const anyUsage = '2.5.29.37.0';

/**
 * Returns all certificates of `pem`, at least one. `what` names their source in messages: `Secret "a/b"`. Blocks of
 * other kinds are refused, or skipped as Go's readers do, or not even read. Throws MaterialInvalid.
 */
export function parseCertificates(
  pem: Uint8Array,
  what: string,
  others: 'refused' | 'skipped' | 'unread' = 'refused',
): Certificate[] {
  const subject = `certificates of ${what}`;
  const refuse = unreadable(subject);
  const certificates = readPem(pem, subject, others === 'refused' ? 'read' : others).flatMap(({ label, der, line }) => {
    if (others === 'unread' ? der.length === 0 : label !== 'CERTIFICATE' && others === 'skipped') return [];
    if (label !== 'CERTIFICATE') throw refuse(`block "${label}" (line ${line}), wanted only "CERTIFICATE"`);
    try {
      return parseDer(der);
    } catch (err) {
      throw refuse(`the block at line ${line} is not a certificate (${errorText(err)})`);
    }
  });
  if (certificates.length === 0) throw refuse('there is none, wanted at least one PEM block "CERTIFICATE"');
  return certificates;
}

/**
 * Cache of recently read certificates by the hash of their DER: a CA is in many bundles, all bundles are read again and
 * again, and the syncer publishes certificates that regen has just made. A Certificate is never modified. A preset has
 * some thirty, and their predecessors in its bundles; a trust bundle next to them has the 150 CAs of an operating
 * system. A cache smaller than a bundle read in its order would never hit: there is room for several bundles.
 */
const known = new Recent<Certificate>(1000);
/** Largest certificate that is cached: one with thousands of names is not. */
const mostBytes = 16_384;

function parseDer(der: Buffer): Certificate {
  const fingerprint = hash('sha256', der);
  const certificate = known.get(fingerprint) ?? readCertificate(der);
  if (der.length <= mostBytes) known.set(fingerprint, certificate);
  return certificate;
}

function readCertificate(der: Buffer): Certificate {
  // A copy: the fields are slices of these bytes, and the buffer that PEM was decoded into holds other keys as well.
  const own = Buffer.alloc(der.length);
  der.copy(own);
  // Go's rules before OpenSSL's, which accepts what Go refuses: bytes after the certificate, a 30 February.
  const fields = readCertificateFields(own);
  const x509 = new X509Certificate(own);
  return { x509, pem: x509.toString(), facts: factsOf(x509, fields), fields };
}

function factsOf(x509: X509Certificate, fields: CertificateFields): CertificateFacts {
  const { subject, issuer, notBefore, notAfter, extendedKeyUsage, refusal } = fields;
  const key = fields.isKeyRead ? certifiedAlgorithmOf(x509.publicKey) : undefined;
  const restricted = extendedKeyUsage !== undefined && !extendedKeyUsage.includes(anyUsage);
  return {
    fingerprint: hash('sha256', x509.raw),
    subject: subject.text,
    issuer: issuer.text,
    serial: x509.serialNumber.toLowerCase(),
    notBefore,
    notAfter,
    isCa: fields.basicConstraints?.ca === true,
    hostnames: [...new Set([...fields.dnsNames, ...fields.ipAddresses])].toSorted(),
    commonName: subject.commonName,
    organizations: subject.organizations,
    ...(restricted && { usages: extendedKeyUsage.map((oid) => usageNames.get(oid) ?? oid) }),
    ...(key !== undefined && { key }),
    ...(refusal !== undefined && { newerGo: `Go ${refusal.since} and newer refuse it: ${refusal.problem}` }),
    ...(fields.nameConstraints !== undefined && { nameConstraints: fields.nameConstraints }),
    signedBy: [],
  };
}

const firstBlock = /-----BEGIN CERTIFICATE-----\n[^-]+\n-----END CERTIFICATE-----$/my;

/** Returns the whole certificate at the beginning of a text; never one behind a torn block. */
export function leadingCertificate(pem: Uint8Array): Certificate | undefined {
  const text = Buffer.from(pem).toString('latin1').replaceAll('\r', '');
  // Where a BEGIN line is damaged, there are dashes all the same.
  firstBlock.lastIndex = Math.max(text.indexOf('-----'), 0);
  const [block] = firstBlock.exec(text) ?? [];
  return wholeCertificates(block)[0];
}

/** Marks may have blanks after them, as Go reads them (encoding/pem). */
const wholeBlock = /^-----BEGIN CERTIFICATE-----[ \t]*$[^-]+^-----END CERTIFICATE-----[ \t]*$/gm;

/**
 * Returns the whole certificates of a damaged text, for a bundle that is rewritten and must not lose whole certificates
 * with the torn ones; none where there is no text. Use parseCertificates for an undamaged text.
 */
export function wholeCertificates(pem: Uint8Array | string | undefined): Certificate[] {
  const text = Buffer.from(pem ?? '')
    .toString('latin1')
    .replaceAll('\r', '');
  return [...text.matchAll(wholeBlock)]
    .slice(0, mostBlocks)
    .flatMap(([block]) => unlessInvalid(() => parseCertificates(Buffer.from(block), 'block')) ?? []);
}
