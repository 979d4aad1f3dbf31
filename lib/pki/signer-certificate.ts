// The certificate of a signer among the certificates stored with its key. A former CA, the next one or the CA above may
// precede or follow it. They are trust, and their order means nothing. Pure.
import { type Certificate, isSameAuthority, leadingCertificate, parseCertificates } from './certificate.ts';
import { keyMatches, usableKey } from './key.ts';
import { unlessInvalid } from './pem.ts';
import { isSuccessor, lastToEnd } from './successor.ts';
import { signatureMatches } from './verify.ts';

/**
 * Returns the certificates with the signer's own first: the CA certificate that the key belongs to, after a renewal
 * with the same key the renewed one. Without a usable key, or where it belongs to none of them, the order is unchanged.
 */
export function ownFirst(all: readonly Certificate[], keyPem: Uint8Array | undefined): readonly Certificate[] {
  if (all.length < 2 || keyPem === undefined) return all;
  const key = usableKey(keyPem, 'signer');
  const fitting = key === undefined ? [] : all.filter((one) => one.facts.isCa && keyMatches(one, key));
  const [first] = fitting;
  if (first === undefined) return all;
  const own = lastToEnd([first, ...fitting.filter((one) => isSuccessor(one, first))]);
  return own === undefined ? all : [own, ...all.filter((one) => one !== own)];
}

/** The signer's own certificate in a file, which may be damaged behind it; undefined where it cannot be determined. */
export function ownCertificate(pem: Uint8Array, keyPem: Uint8Array | undefined): Certificate | undefined {
  const all = unlessInvalid(() => parseCertificates(pem, 'signer', 'skipped'));
  return all === undefined ? leadingCertificate(pem) : ownFirst(all, keyPem)[0];
}

/**
 * Certificates that a server sends along with leaves of the signer: CAs above it, and its own name and key as another
 * CA has signed them. Former and next CAs are not in the chain.
 */
export function chainOf(own: Certificate, others: readonly Certificate[]): readonly Certificate[] {
  const chain: Certificate[] = [];
  for (;;) {
    const next = others.find(
      (one) =>
        !chain.includes(one) &&
        (isSameAuthority(one, own) || [own, ...chain].some((below) => signatureMatches(below, one))),
    );
    if (next === undefined) return chain;
    chain.push(next);
  }
}
