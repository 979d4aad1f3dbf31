// Whether a CA of this machine has signed a credential, or is among the CAs by which the credential trusts its server.
// Pure.
import { wholeCertificates } from './certificate.ts';
import { signatureMatches } from './verify.ts';

export interface IssuedHere {
  /** Whether a CA of this machine has signed the first certificate; undefined where none is whole. */
  readonly certificate: (pem: Uint8Array) => boolean | undefined;
  /** Whether a certificate in it has the key of a CA of this machine; undefined where none is whole. */
  readonly authority: (pem: Uint8Array) => boolean | undefined;
}

/** `authorities`: PEM of the CAs of this machine. Undefined where none is whole: then nothing is known. */
export function issuedHere(authorities: string | undefined): IssuedHere | undefined {
  const ours = wholeCertificates(authorities);
  if (ours.length === 0) return undefined;
  return {
    certificate(pem) {
      const [leaf] = wholeCertificates(pem);
      return leaf && ours.some((authority) => signatureMatches(leaf, authority));
    },
    authority(pem) {
      const known = wholeCertificates(pem);
      if (known.length === 0) return undefined;
      return known.some(({ fields }) => ours.some((own) => own.fields.publicKeyInfo.equals(fields.publicKeyInfo)));
    },
  };
}
