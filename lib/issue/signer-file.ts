// The file, or the entry, that holds the certificate of a signer with other CAs, and the treatment of these when the
// signer's own is replaced. Pure.
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { type Certificate, hasEnded, isSame, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { encodePem, type PemBlock, unlessInvalid } from '../pki/pem.ts';
import { type BlockChange, editPem } from '../pki/pem-edit.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import type { Material } from '../store/store.ts';
import type { Issued } from './ingredients.ts';

interface Replacement {
  /** Present text. */
  readonly former: Uint8Array;
  /** Whether a block is the signer's own certificate. */
  readonly isOwn: (der: Buffer) => boolean;
  readonly made: Certificate;
  /** Whether another certificate is removed together with the replaced one. */
  readonly goes: (certificate: Certificate) => boolean;
}

/**
 * Returns the text with `made` in the place of the signer's own; everything else stays the same, to the byte. A private
 * key is never carried on: the store refuses the write where it is the only one. Undefined where the text is no whole
 * PEM, or the signer's own is not in it.
 */
export function replaceInFile({ former, isOwn, made, goes }: Replacement): Buffer | undefined {
  let isPlaced = false;
  const changeOf = ({ label, der }: PemBlock): BlockChange => {
    if (label.endsWith('PRIVATE KEY')) return 'removed';
    if (label !== 'CERTIFICATE') return 'kept';
    if (isOwn(der)) {
      const change = isPlaced ? 'removed' : { label, der: made.x509.raw };
      isPlaced = true;
      return change;
    }
    const [other] = wholeCertificates(encodePem({ label, der }));
    return other !== undefined && (isSame(other, made) || goes(other)) ? 'removed' : 'kept';
  };
  const text = unlessInvalid(() => editPem(former, 'the file of a signer', changeOf));
  return isPlaced ? text : undefined;
}

/**
 * Adds a new CA with another key to the valid CAs of its predecessor's file: they are trusted, like the next CA, put
 * there by an administrator. Where none of them is known to be the signer's own, the new CA replaces all of them.
 */
export function amongOthers(issued: Issued, present: Material | undefined, now: Date): Issued {
  const { [certificateKey]: former, [privateKeyKey]: keyPem } = present?.entries ?? {};
  const [made] = issued.certificates;
  if (former === undefined || keyPem === undefined || made === undefined) return issued;
  const all = unlessInvalid(() => parseCertificates(former, 'signer', 'skipped')) ?? [];
  const [own, ...others] = ownFirst(all, keyPem);
  const key = usableKey(keyPem, 'signer');
  if (own === undefined || key === undefined || others.length === 0 || !keyMatches(own, key)) return issued;
  const goes = (one: Certificate): boolean =>
    !one.facts.isCa || hasEnded(one.facts, now) || isDamaged(one, all) || keyMatches(one, key);
  const isOwn = (der: Buffer): boolean => der.equals(own.x509.raw);
  const text = replaceInFile({ former, isOwn, made, goes });
  if (text === undefined) return issued;
  const certificates = [made, ...others.filter((one) => !goes(one))];
  return { ...issued, entries: { ...issued.entries, [certificateKey]: text }, certificates };
}
