// Certificate and key as a pair. Reading a private key and comparing its parts takes a millisecond, and the same pairs
// are looked at again and again: by each look of regen, before it publishes, by the syncer.
import { createHash } from 'node:crypto';
import type { Certificate } from './certificate.ts';
import { keyMatches, parsePrivateKey } from './key.ts';
import { Recent } from './recent.ts';

/**
 * Hashes of certificate and key text that were found to belong together lately. No key is kept, and no refusal: its
 * message names the place. A preset has some thirty, and those before them.
 */
const sound = new Recent<true>(100);

/** Whether `keyPem` is the private key of `certificate`. `what` names it in messages. Throws MaterialInvalid. */
export function pairMatches(certificate: Certificate, keyPem: Uint8Array, what: string): boolean {
  const pair = createHash('sha256').update(certificate.facts.fingerprint).update(keyPem).digest('hex');
  if (sound.get(pair) === undefined && !keyMatches(certificate, parsePrivateKey(keyPem, what))) return false;
  sound.set(pair, true);
  return true;
}
