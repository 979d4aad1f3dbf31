// Material that exists elsewhere and is written as it is there: nothing is signed.
import { RecoveryError } from '../errors.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { External, ResolvedTarget, Signer } from '../inventory/model.ts';
import { type Ingredients, type Issued, materialOf } from '../issue/ingredients.ts';
import { issueCopy } from '../issue/issue.ts';
import { withCas } from '../pki/bundle-edit.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import type { CasByName } from '../plan/facts.ts';
import { leafOfPair, type PairBytes } from '../plan/gather-offers.ts';
import { authorityKey } from '../store/store.ts';

/** Ingredients that the decision about an artefact names. */
export interface OriginIngredients extends Ingredients {
  /** The artefact that has a signer with its key. */
  readonly holder?: string | undefined;
  /** The CAs that a file of CAs holds then, or each of those in a directory. */
  readonly becomes?: readonly Certificate[] | CasByName | undefined;
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

/** Files of CAs of which some have been followed; their other content stays. Throws SignFailed. */
export function followedAuthorities({ name, location }: External, { becomes, material }: OriginIngredients): Issued {
  if (becomes === undefined) throw cannot(name, 'no successor is known');
  const entry = location.kind === 'kubeconfig' ? authorityKey : caBundleKey;
  const each = 'length' in becomes ? [[entry, becomes] as const] : [...becomes];
  const former = material.get(name)?.entries ?? {};
  const entries = each.map(([key, cas]) => [key, withCas(former[key] ?? Buffer.alloc(0), cas)] as const);
  return { entries: Object.fromEntries(entries), annotations: {}, certificates: each.flatMap(([, cas]) => cas) };
}

/** Certificate and key of a signer as another artefact has them. Throws SignFailed without one. */
export function asSiblingHas({ name, location }: Signer, from: OriginIngredients): Issued {
  const { holder } = from;
  if (holder === undefined) throw cannot(name, 'nobody has it');
  return issueCopy({ of: holder, location }, materialOf(holder, from).entries, 'signer');
}
