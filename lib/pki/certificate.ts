// Certificates from PEM text, strictly: every block is a whole certificate and nothing else, or none is returned.
//
// This room has its own DER reader and node:crypto beside @peculiar/x509, which only writes (encode.ts): to load the package
// costs about 10 MB and 50 ms, which a process that reads and never signs does not pay; and what is read here must be what
// Go accepts, to the bit, where other parsers take more.
import type { NameConstraints } from './name-constraints.ts';
import { hash, X509Certificate } from 'node:crypto';
import { errorText } from '../errors.ts';
import { type CertificateFields, readCertificateFields } from './certificate-fields.ts';
import { usageOids } from './extensions.ts';
import { certifiedAlgorithmOf, type KeyAlgorithm } from './key.ts';
import { mostBlocks, readPem, unlessInvalid, unreadable } from './pem.ts';
import { Recent } from './recent.ts';

/**
 * A new certificate begins five minutes early, as Kubernetes' own signers date them (pkg/controller/certificates/signer,
 * kubeadmconstants.CertificateBackdate): the clocks of machines that were off for months differ by minutes.
 */
export const backDatedMs = 5 * 60_000;

/** When a certificate in the API was made: its NotBefore without the back-dating. One of others may be as much older. */
export const madeAt = ({ notBefore }: Pick<CertificateFacts, 'notBefore'>): Date =>
  new Date(notBefore.getTime() + backDatedMs);

/**
 * The clocks of two machines differ by seconds, not by hours. What begins so much later by this one may be valid elsewhere,
 * and what has ended so short a time ago, too.
 */
export const clockSkewMs = 5 * 60_000;

/** Whether it has ended by the clock of every machine. */
export const hasEnded = ({ notAfter }: Pick<CertificateFacts, 'notAfter'>, now: Date): boolean =>
  now.getTime() - notAfter.getTime() >= clockSkewMs;

export interface CertificateFacts {
  /** SHA-256 of the DER, lower-case hex. */
  readonly fingerprint: string;
  /** As in RFC 2253, last RDN first: `CN=kubernetes-admin,O=system:masters`. */
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
  /** Extended key usages: `clientAuth`, `serverAuth`, others as OID; undefined where the certificate does not restrict them. */
  readonly usages?: readonly string[];
  /** Undefined: a kind that is never made here. */
  readonly key?: KeyAlgorithm;
  /** Fingerprints of the CA certificates of this inventory whose key made this certificate's signature, or
   * that of an intermediate CA which its own file brings along. */
  readonly signedBy: readonly string[];
  /** Older Go loads it and newer Go does not: since which release, and why (extensions.ts). It is no damage. */
  readonly newerGo?: string;
  /** Why every verifier refuses it as a leaf, whoever has signed it (verify.ts); a sentence without its end. */
  readonly refused?: string;
  /** Of a CA: which names it may sign certificates for. */
  readonly nameConstraints?: NameConstraints;
  /** Of a CA: its own signature is wrong (damage.ts). It vouches for nothing. */
  readonly isDamaged?: true;
}

export interface Certificate {
  readonly x509: X509Certificate;
  /** Newly encoded: lines of 64 characters, no comments, a newline at the end. */
  readonly pem: string;
  /** Without `signedBy`, which only a caller that has the other certificates can fill. */
  readonly facts: CertificateFacts;
  readonly fields: CertificateFields;
}

/** To the byte. */
export const isSame = (a: Certificate, b: Certificate): boolean => a.facts.fingerprint === b.facts.fingerprint;

const usageNames = new Map<string, string>(Object.entries(usageOids).map(([name, oid]) => [oid, name]));
const anyUsage = '2.5.29.37.0';

/**
 * All certificates of `pem`, at least one. `what` names it in messages: `Secret "a/b"`. Blocks of other kinds are
 * refused, or skipped as Go's readers do. Throws MaterialInvalid.
 */
export function parseCertificates(
  pem: Uint8Array,
  what: string,
  others: 'refused' | 'skipped' = 'refused',
): Certificate[] {
  const subject = `certificates of ${what}`;
  const refuse = unreadable(subject);
  const certificates = readPem(pem, subject).flatMap(({ label, der, line }) => {
    if (label !== 'CERTIFICATE' && others === 'skipped') return [];
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
 * What was read lately, by the hash of its bytes: a CA is in many bundles, all are looked at again and again, and the
 * syncer publishes what regen has just made. Nobody changes a Certificate. A preset keeps some thirty, and those before
 * them are in its bundles; a trust bundle beside them has the 150 CAs of an operating system. When one more is read than is
 * kept, a bundle that is read in its order finds none of its own: there is room for several.
 */
const known = new Recent<Certificate>(1000);
/** One with thousands of names is not kept. */
const mostBytes = 16_384;

function parseDer(der: Buffer): Certificate {
  const fingerprint = hash('sha256', der);
  const certificate = known.get(fingerprint) ?? readCertificate(der);
  if (der.length <= mostBytes) known.set(fingerprint, certificate);
  return certificate;
}

function readCertificate(der: Buffer): Certificate {
  // Bytes of its own: the fields are parts of them, and those that PEM was read into hold keys of others as well.
  const own = Buffer.alloc(der.length);
  der.copy(own);
  // Before OpenSSL, which takes what Go refuses: bytes that follow the certificate, a 30 February.
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

/** What a text begins with, where that is a whole certificate; never one that stands behind something torn. */
export function leadingCertificate(pem: Uint8Array): Certificate | undefined {
  const text = Buffer.from(pem).toString('latin1').replaceAll('\r', '');
  // Wherever a BEGIN line is damaged, there are dashes.
  firstBlock.lastIndex = Math.max(text.indexOf('-----'), 0);
  const [block] = firstBlock.exec(text) ?? [];
  return block === undefined ? undefined : wholeCertificates(Buffer.from(block))[0];
}

const wholeBlock = /^-----BEGIN CERTIFICATE-----$[^-]+^-----END CERTIFICATE-----$/gm;

/**
 * The certificates of a damaged text that are whole, for a bundle that is rewritten and must not lose the good with the
 * torn. What is healthy is read with parseCertificates.
 */
export function wholeCertificates(pem: Uint8Array): Certificate[] {
  const text = Buffer.from(pem).toString('latin1').replaceAll('\r', '');
  return [...text.matchAll(wholeBlock)]
    .slice(0, mostBlocks)
    .flatMap(([block]) => unlessInvalid(() => parseCertificates(Buffer.from(block), 'block')) ?? []);
}
