// Restores a damaged or lost certificate of a signer from its copies. Nothing is signed.
import { RecoveryError } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { Signer } from '../inventory/model.ts';
import { encodeBundle } from '../pki/bundle.ts';
import { type Certificate, distinct, hasEnded, isSame, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged, resembles, resemblesDer } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { isSignedByKey } from '../pki/verify.ts';
import { authorityKey, locationText } from '../store/store.ts';
import type { Ingredients, Issued } from './ingredients.ts';
import { annotationsOf } from './metadata.ts';
import { replaceInFile } from './signer-file.ts';

/**
 * Restores the certificate; the key stays. The other blocks of a whole file stay in their place. A torn or missing file
 * gets the certificate first, then its whole blocks and the former CAs in its kubeconfigs. Throws SignFailed without a
 * copy, MaterialInvalid where a present key belongs to another certificate.
 */
export function putBack({ name, location }: Signer, from: Ingredients): Issued {
  const { [certificateKey]: damaged, [privateKeyKey]: keyPem } = from.material.get(name)?.entries ?? {};
  const what = locationText(location);
  const copy = from.signerCopies?.get(name);
  if (copy === undefined) throw new RecoveryError('SignFailed', `Cannot put back ${what}: there is no copy of it`);
  // An encrypted or damaged key is left where it is.
  const key = keyPem === undefined ? undefined : usableKey(keyPem, what);
  if (key !== undefined && !keyMatches(copy, key)) {
    throw new RecoveryError('MaterialInvalid', `Cannot put back ${what}: its key does not belong to the copy`);
  }
  const whole = wholeCertificates(damaged);
  const others = whole.filter((one) => !isDamaged(one, whole) && !resembles(one, copy));
  const isOwn = (der: Buffer): boolean => resemblesDer(der, copy.x509.raw);
  const goes = (one: Certificate): boolean => isDamaged(one, whole);
  const inPlace = damaged && replaceInFile({ former: damaged, isOwn, made: copy, goes });
  const former = inPlace === undefined ? formerAuthorities(name, copy, from) : [];
  const certificates = [copy, ...others, ...former.filter((one) => !others.some((other) => isSame(one, other)))];
  return {
    entries: {
      [certificateKey]: inPlace ?? Buffer.from(encodeBundle(certificates)),
      ...(key !== undefined && keyPem !== undefined && { [privateKeyKey]: keyPem }),
    },
    annotations: annotationsOf(location, copy),
    certificates,
  };
}

/**
 * Returns valid CAs next to the copy in kubeconfigs that are former ones of this signer: a CA that has signed leaves of
 * the signer, or that has its name and is known to all of them. Clients are trusted by this file, too, so a load
 * balancer's CA, put into a kubeconfig by hand, must not enter it.
 */
function formerAuthorities(
  signer: string,
  copy: Certificate,
  { resolved, material, now }: Ingredients,
): readonly Certificate[] {
  const held = (entry: string): readonly (readonly Certificate[])[] =>
    resolved.artefacts.flatMap((one) => {
      const pem = one.kind === 'target' && one.issuer === signer ? material.get(one.name)?.entries[entry] : undefined;
      return pem === undefined ? [] : [wholeCertificates(pem)];
    });
  const leaves = held(certificateKey).flatMap(([leaf]) => leaf ?? []);
  const holders = held(authorityKey).filter((all) => all.some((one) => isSame(one, copy)));
  const isFormer = (one: Certificate): boolean =>
    leaves.some((leaf) => isSignedByKey(leaf, one)) ||
    (one.facts.subject === copy.facts.subject && holders.every((all) => all.some((other) => isSame(one, other))));
  const candidates = holders.flatMap((all) =>
    all.filter((one) => one.facts.isCa && !hasEnded(one.facts, now) && !isDamaged(one, all) && !isSame(one, copy)),
  );
  return distinct(candidates).filter(isFormer);
}
