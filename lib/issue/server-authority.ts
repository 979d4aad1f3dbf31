// The CA by which a kubeconfig knows its server, in a renewal of its credentials. Pure.
import { encodeBundle } from '../pki/bundle.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { authorityKey, type Found, type Material } from '../store/store.ts';

/** What is there, or a backup of it. */
export type Held = Material & Pick<Found, 'problem'>;

/** Undefined: none, because what is there names none. */
export function authorityEntry(
  places: readonly (Held | undefined)[],
  live: Certificate,
  now: Date,
): Uint8Array | undefined {
  // What the store goes by: the document that is there, else the backup.
  const followed = places.find((one) => one && (one.problem === undefined || Object.keys(one.entries).length > 0));
  const present = followed?.entries[authorityKey];
  if (present === undefined) {
    return followed === undefined || followed.problem !== undefined ? Buffer.from(live.pem) : undefined;
  }
  const known = wholeCertificates(present);
  if (known.some(({ facts }) => facts.fingerprint === live.facts.fingerprint)) return present;
  return Buffer.from(encodeBundle([live, ...known.filter((ca) => now < ca.facts.notAfter && !isDamaged(ca, known))]));
}
