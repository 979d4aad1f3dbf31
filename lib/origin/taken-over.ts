// Material that exists elsewhere and is written as it is there: nothing is signed.
import { RecoveryError } from '../errors.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { External, ResolvedTarget, Signer } from '../inventory/model.ts';
import { type Ingredients, type Issued, materialOf } from '../issue/ingredients.ts';
import { issueCopy } from '../issue/issue.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { leafOfPair, type PairBytes } from '../plan/gather-offers.ts';
import { authorityKey } from '../store/store.ts';

/** Ingredients that the decision about an artefact names. */
export interface OriginIngredients extends Ingredients {
  /** The artefact that has a signer with its key. */
  readonly holder?: string | undefined;
  /** The CAs that a file of CAs holds then. */
  readonly becomes?: readonly Certificate[] | undefined;
  /** The pair that was obtained between two passes. */
  readonly obtained?: PairBytes | undefined;
}

const cannot = (name: string, problem: string): RecoveryError =>
  new RecoveryError('SignFailed', `Cannot make "${name}": ${problem}`);

/** The earlier pair of a kubelet, from another file. Throws SignFailed without one. */
export function putBackPair({ name }: ResolvedTarget, { backups }: OriginIngredients): Issued {
  const { [certificateKey]: certificate, [privateKeyKey]: key } = backups?.get(name)?.entries ?? {};
  if (certificate === undefined || key === undefined) throw cannot(name, 'there is no earlier pair');
  const certificates = parseCertificates(certificate, `earlier pair of "${name}"`, 'skipped');
  return { entries: { [certificateKey]: certificate, [privateKeyKey]: key }, annotations: {}, certificates };
}

/** A pair as it was obtained. Throws SignFailed without one, MaterialInvalid. */
export function obtainedPair({ name }: ResolvedTarget, { obtained }: OriginIngredients): Issued {
  if (obtained === undefined) throw cannot(name, 'its pair was not obtained');
  const { certificate, key } = obtained;
  const certificates = [leafOfPair(obtained, 'the pair of its source')];
  return { entries: { [certificateKey]: certificate, [privateKeyKey]: key }, annotations: {}, certificates };
}

/** A file of CAs of which some have been followed; the other content of a kubeconfig stays. Throws SignFailed. */
export function followedAuthorities({ name, location }: External, { becomes }: OriginIngredients): Issued {
  if (becomes === undefined) throw cannot(name, 'no successor is known');
  const entry = location.kind === 'kubeconfig' ? authorityKey : caBundleKey;
  const content = Buffer.from(becomes.map(({ pem }) => pem).join(''));
  return { entries: { [entry]: content }, annotations: {}, certificates: becomes };
}

/** Certificate and key of a signer as another artefact has them. Throws SignFailed without one. */
export function asSiblingHas({ name, location }: Signer, from: OriginIngredients): Issued {
  const { holder } = from;
  if (holder === undefined) throw cannot(name, 'nobody has it');
  return issueCopy({ of: holder, location }, materialOf(holder, from).entries, 'signer');
}
