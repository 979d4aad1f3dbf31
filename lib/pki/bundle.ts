// CA bundles as text, in the order in which OpenShift's library-go writes them, so that no two writers undo each other. A
// signer's bundle is sorted by DER: the same set of certificates always gives the same bytes, whichever process merges them and in
// whatever order they were found.
import { RecoveryError } from '../errors.ts';
import { type Certificate, hasEnded } from './certificate.ts';
import { isDamaged } from './damage.ts';

export interface BundleParts {
  /** The live signers: they must be in the outcome, so an expired one is an error. */
  readonly first?: readonly Certificate[];
  /** Whatever else is trusted until it expires. */
  readonly rest: readonly Certificate[];
  readonly now: Date;
}

/** All certificates that have not ended by the clock of every machine and are not damaged, each once. Throws SignFailed. */
export function mergeBundle({ first = [], rest, now }: BundleParts): Certificate[] {
  const dead = first.find(({ facts }) => facts.notAfter <= now);
  if (dead !== undefined) {
    const { subject, notAfter } = dead.facts;
    throw new RecoveryError(
      'SignFailed',
      `Cannot merge bundle with signer "${subject}": expired at ${notAfter.toISOString()}, wanted a valid one`,
    );
  }
  return different([...first, ...usable(rest, now)], now).toSorted((a, b) => Buffer.compare(a.x509.raw, b.x509.raw));
}

/**
 * All certificates that have not ended by the clock of every machine and are not damaged, each once, in the order of their first
 * coming: of a composed bundle that of its inputs, as library-go's pkg/operator/resourcesynccontroller (CombineCABundleConfigMaps) has it.
 */
export function joinBundles({ certificates, now }: { certificates: readonly Certificate[]; now: Date }): Certificate[] {
  return different(usable(certificates, now), now);
}

const usable = (all: readonly Certificate[], now: Date): readonly Certificate[] =>
  all.filter((certificate) => !hasEnded(certificate.facts, now) && !isDamaged(certificate, all));

/**
 * Each once, in the order of their first coming. None where only such are left as another clock may take for valid: a
 * bundle is made of what is valid by this one.
 */
function different(all: readonly Certificate[], now: Date): Certificate[] {
  if (!all.some(({ facts }) => now < facts.notAfter)) return [];
  return [...new Map(all.map((certificate) => [certificate.facts.fingerprint, certificate])).values()];
}

/** PEM of the certificates in the given order, a newline after each. */
export function encodeBundle(certificates: readonly Certificate[]): string {
  return certificates.map(({ pem }) => pem).join('');
}
