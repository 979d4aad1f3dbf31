// The certificate of a signer among those that lie with its key. Others may stand before and behind it: a former CA, the next
// one, the CA above. They are trust, and which of them comes first says nothing. Pure.
import { type Certificate, leadingCertificate, parseCertificates } from './certificate.ts';
import { keyMatches, usableKey } from './key.ts';
import { unlessInvalid } from './pem.ts';
import { isSuccessor, lastToEnd } from './successor.ts';
import { signatureMatches } from './verify.ts';

/**
 * These with the signer's own in front: the CA certificate that the key belongs to, and of one that was renewed with its key
 * the renewed one. Without a key that can be used, or where it belongs to none of them, they stay as they stand.
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

/** The signer's own of a file, which may be damaged behind it; undefined where nothing shows which it is. */
export function ownCertificate(pem: Uint8Array, keyPem: Uint8Array | undefined): Certificate | undefined {
  const all = unlessInvalid(() => parseCertificates(pem, 'signer', 'skipped'));
  return all === undefined ? leadingCertificate(pem) : ownFirst(all, keyPem)[0];
}

/**
 * Those of the others that a server sends along with what the signer has signed: CAs above it, and its own name and key as
 * another CA has signed them. Former and next CAs are none of that.
 */
export function chainOf(own: Certificate, others: readonly Certificate[]): readonly Certificate[] {
  const chain: Certificate[] = [];
  const isSameCa = ({ fields }: Certificate): boolean =>
    fields.subject.der.equals(own.fields.subject.der) && fields.publicKeyInfo.equals(own.fields.publicKeyInfo);
  for (;;) {
    const next = others.find(
      (one) => !chain.includes(one) && (isSameCa(one) || [own, ...chain].some((below) => signatureMatches(below, one))),
    );
    if (next === undefined) return chain;
    chain.push(next);
  }
}
