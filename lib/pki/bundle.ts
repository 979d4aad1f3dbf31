// CA bundles as text. The same set of certificates always gives the same bytes, whoever merges them and in whatever
// order they were found: sorted by their DER, as OpenShift's library-go does, so that no two writers undo each other.
import { RecoveryError } from '../errors.ts';
import type { Certificate } from './certificate.ts';

export interface BundleParts {
  /** The live signers: they must be in the outcome, so an expired one is an error. */
  readonly first?: readonly Certificate[];
  /** Whatever else is trusted until it expires. */
  readonly rest: readonly Certificate[];
  readonly now: Date;
}

/** One PEM text of all certificates that have not expired, each once, without comments. Throws SignFailed. */
export function mergeBundle({ first = [], rest, now }: BundleParts): string {
  const dead = first.find(({ facts }) => facts.notAfter <= now);
  if (dead !== undefined) {
    const { subject, notAfter } = dead.facts;
    throw new RecoveryError(
      'SignFailed',
      `Cannot merge bundle with signer "${subject}": expired at ${notAfter.toISOString()}, wanted a valid one`,
    );
  }
  const live = rest.filter(({ facts }) => facts.notAfter > now);
  const different = new Map([...first, ...live].map((certificate) => [certificate.facts.fingerprint, certificate]));
  return encodeBundle([...different.values()].toSorted((a, b) => Buffer.compare(a.x509.raw, b.x509.raw)));
}

/** PEM of the certificates in the given order, a newline after each. */
export function encodeBundle(certificates: readonly Certificate[]): string {
  return certificates.map(({ pem }) => pem).join('');
}
