// A signer's certificate as its copies have it, in the place of one that is damaged. Nothing is signed: the key stays what it
// is, and whatever else in the file is whole stays behind the certificate, as it was.
import { RecoveryError } from '../errors.ts';
import type { Signer } from '../inventory/model.ts';
import { encodeBundle } from '../pki/bundle.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { isDamaged, resembles } from '../pki/damage.ts';
import { keyMatches, usableKey } from '../pki/key.ts';
import { certificateKey, locationText, type Material, privateKeyKey } from '../store/store.ts';
import { annotationsOf } from './annotations.ts';
import type { Issued } from './issue.ts';

/** Throws MaterialInvalid where a key that is there belongs to another certificate. */
export function putBack({ location }: Signer, copy: Certificate, present: Material | undefined): Issued {
  const { [certificateKey]: damaged, [privateKeyKey]: keyPem } = present?.entries ?? {};
  const what = locationText(location);
  // An encrypted key, or one that is damaged itself, is left where it is.
  const key = keyPem === undefined ? undefined : usableKey(keyPem, what);
  if (key !== undefined && !keyMatches(copy, key)) {
    throw new RecoveryError('MaterialInvalid', `Cannot put back ${what}: its key does not belong to the copy`);
  }
  const whole = damaged === undefined ? [] : wholeCertificates(damaged);
  const certificates = [copy, ...whole.filter((one) => !isDamaged(one, whole) && !resembles(one, copy))];
  return {
    entries: {
      [certificateKey]: Buffer.from(encodeBundle(certificates)),
      ...(key !== undefined && keyPem !== undefined && { [privateKeyKey]: keyPem }),
    },
    annotations: annotationsOf(location, copy),
    certificates,
  };
}
