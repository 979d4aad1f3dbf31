// What a certificate says about itself: plain data without bytes and keys, read by everything that decides.

/**
 * A new certificate begins five minutes early, as Kubernetes' own signers date them (pkg/controller/certificates/signer,
 * kubeadmconstants.CertificateBackdate): the clocks of machines that were off for months differ by minutes.
 */
export const backDatedMs = 5 * 60_000;

/** When a certificate in the API was made: its NotBefore without the back-dating. One of others may be as much older. */
export const madeAt = ({ notBefore }: Pick<CertificateFacts, 'notBefore'>): Date =>
  new Date(notBefore.getTime() + backDatedMs);

export type KeyAlgorithm =
  | { readonly name: 'RSA'; readonly bits: number }
  | { readonly name: 'ECDSA'; readonly curve: 'P-256' | 'P-384' | 'P-521' }
  | { readonly name: 'Ed25519' };

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
  /** DNS names and IP addresses of the subject alternative names, in canonical form (hostname.ts), sorted. */
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
  /** Older Go loads it and newer Go does not: since which release, and why (later-refusals.ts). It is no damage. */
  readonly newerGo?: string;
  /** Of a CA: its own signature is wrong (damage.ts). It vouches for nothing. */
  readonly isDamaged?: true;
}
