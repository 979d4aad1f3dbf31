// Settings of CAs in files of this host, whose key may be on other machines too.
import * as z from 'zod';
import { durationAboveZero } from '../inventory/values.ts';
import { parseFingerprint } from '../pki/fingerprint.ts';

const fingerprintWanted = 'the SHA-256 fingerprint of a CA certificate, such as "SHA256:" and 64 hexadecimal digits';

export const authoritySettings = {
  caRenewal: z
    .enum(['SameKey', 'Report'])
    .default('SameKey')
    .describe(
      'A CA in files that has expired (with renewBefore: is due) and whose key is here: SameKey (default), it is renewed with that key; Report, only reported',
    ),
  // Kept as text: flags and file are merged unparsed, and parsed afterwards.
  acceptCa: z
    .array(
      z.string({ error: fingerprintWanted }).refine((text) => parseFingerprint(text) !== undefined, {
        error: fingerprintWanted,
      }),
    )
    .default([])
    .describe(
      'Fingerprints (SHA256:...) of CAs in files that may sign although all that lies here was signed by another one, as after a CA was replaced on purpose',
    ),
  caOverlap: durationAboveZero
    .optional()
    .describe(
      'How long the CAs of its source are in a file before one that was named for removal leaves it. Default: 24h',
    ),
};

/** Undefined where none was accepted. */
export function acceptedAuthoritiesOf(acceptCa: readonly string[]): ReadonlySet<string> | undefined {
  const prints = acceptCa.flatMap((text) => parseFingerprint(text) ?? []);
  return prints.length === 0 ? undefined : new Set(prints);
}
