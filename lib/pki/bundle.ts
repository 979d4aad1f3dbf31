// CA bundles as text, in the order in which OpenShift's library-go writes them, so that no two writers undo each other.
// A signer's bundle is sorted by DER: the same set of certificates always gives the same bytes, whichever process
// merges them and in whatever order they were found.
import { RecoveryError } from '../errors.ts';
import { type Certificate, distinct, hasEnded } from './certificate.ts';
import { isDamaged } from './damage.ts';

export interface BundleParts {
  /** The live signers: they must be in the result, so an expired one is an error. */
  readonly first?: readonly Certificate[];
  /** All other certificates, trusted until they expire. */
  readonly rest: readonly Certificate[];
  readonly now: Date;
}

/**
 * Returns all certificates that have not expired on the clock of every machine and are not damaged, each once. Throws
 * SignFailed.
 */
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
 * Returns all certificates that have not expired on the clock of every machine and are not damaged, each once, in the
 * order of first occurrence: for a composed bundle the order of its inputs, as in library-go's
 * pkg/operator/resourcesynccontroller (CombineCABundleConfigMaps).
 */
export function joinBundles({ certificates, now }: { certificates: readonly Certificate[]; now: Date }): Certificate[] {
  return different(usable(certificates, now), now);
}

const usable = (all: readonly Certificate[], now: Date): readonly Certificate[] =>
  all.filter((certificate) => !hasEnded(certificate.facts, now) && !isDamaged(certificate, all));

/**
 * Returns each once, in the order of first occurrence. Empty where all are expired by this clock and valid by another
 * machine's at most: a bundle holds certificates valid by this clock.
 */
function different(all: readonly Certificate[], now: Date): Certificate[] {
  if (!all.some(({ facts }) => now < facts.notAfter)) return [];
  return distinct(all);
}

/** Returns PEM of the certificates in the given order, a newline after each. */
export function encodeBundle(certificates: readonly Certificate[]): string {
  return certificates.map(({ pem }) => pem).join('');
}
