// Renewals without a new key: a CA with its own key, and a kubeconfig whose CA changes and whose credentials stay.
import { RecoveryError } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { ResolvedTarget, Signer } from '../inventory/model.ts';
import { encodeBundle } from '../pki/bundle.ts';
import { type Certificate, isSame, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { renewWithOwnKey } from '../pki/own-key.ts';
import { isSuccessor } from '../pki/successor.ts';
import { locationText, requireEntry } from '../store/store.ts';
import { type Authority, type Ingredients, type Issued, materialOf, readAuthority } from './ingredients.ts';
import { annotationsOf } from './metadata.ts';
import { replaceInFile } from './signer-file.ts';

/** Replaces a CA with the successor that lies here. Throws SignFailed, MaterialInvalid. */
export const succeeded = (artefact: Signer, from: Ingredients): Issued =>
  replaced(artefact, from, () => from.signerCopies?.get(artefact.name));

/** Signs a CA again with its own key. Throws SignFailed, MaterialInvalid. */
export const signedWithOwnKey = (artefact: Signer, from: Ingredients): Issued =>
  replaced(artefact, from, ({ certificate: old, key }) => {
    const others = [...from.material.values()]
      .flatMap((held) => Object.values(held.entries).flatMap(wholeCertificates))
      .filter((one) => !isSame(one, old));
    return renewWithOwnKey({ old, key, others, now: from.now });
  });

/** The key's bytes, and the other blocks in the file of the certificate, stay. */
function replaced(
  { name, location }: Signer,
  from: Ingredients,
  successorOf: (authority: Authority) => Certificate | undefined,
): Issued {
  const { entries } = materialOf(name, from);
  const authority = readAuthority(location, entries);
  const { certificate: old, chain } = authority;
  const made = successorOf(authority);
  if (made === undefined || !isSuccessor(made, old)) {
    throw new RecoveryError(
      'SignFailed',
      `Cannot renew ${locationText(location)}: what lies here is no successor of it`,
    );
  }
  const goes = (one: Certificate): boolean => isSuccessor(made, one);
  const certificates = [made, ...chain.filter((one) => !goes(one) && !isSame(one, made))];
  const isOwn = (der: Buffer): boolean => der.equals(old.x509.raw);
  const former = requireEntry(entries, certificateKey, location);
  return {
    entries: {
      [certificateKey]: replaceInFile({ former, isOwn, made, goes }) ?? Buffer.from(encodeBundle(certificates)),
      [privateKeyKey]: requireEntry(entries, privateKeyKey, location),
    },
    annotations: annotationsOf(location, made),
    certificates,
  };
}

/** Returns the pair unchanged. Throws SignFailed where it is not there, MaterialInvalid. */
export function sameLeaf({ name, location }: ResolvedTarget, from: Ingredients): Issued {
  const { [certificateKey]: certificate, [privateKeyKey]: key } = materialOf(name, from).entries;
  const what = locationText(location);
  if (certificate === undefined || key === undefined) {
    throw new RecoveryError('SignFailed', `Cannot keep the credentials of ${what}: they are not there`);
  }
  const certificates = parseCertificates(certificate, what, 'skipped');
  return { entries: { [certificateKey]: certificate, [privateKeyKey]: key }, annotations: {}, certificates };
}
