// The last look at our own output, in every store before anything is sent or written: what is there may be bad, but it
// is never replaced by something that does not parse or does not belong together.
import { RecoveryError } from '../errors.ts';
import type { Location } from '../inventory/model.ts';
import { parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { pairMatches } from '../pki/key.ts';
import { authorityKey, caBundleKey, certificateKey, locationText, privateKeyKey } from './store.ts';
import type { Material } from './store.ts';

/** Throws MaterialInvalid, naming the location, unless every entry of `next` is usable. */
export function verifyMaterial(location: Location, { entries }: Material): void {
  const what = locationText(location);
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('MaterialInvalid', `Cannot write ${what}: ${problem}; what is there stays`);
  if (Object.keys(entries).length === 0) throw refuse('there is no entry to write');
  const { [certificateKey]: certificate, [privateKeyKey]: key, [caBundleKey]: bundle, [authorityKey]: ca } = entries;
  // Half a pair beside the other half that is already there would not match it. An external CA has no other half.
  const isAlone = location.kind === 'pemPair' && certificate !== undefined && isAuthority(certificate, what);
  if ((certificate === undefined) !== (key === undefined) && !isAlone)
    throw refuse('certificate and key are written together only');
  if (certificate !== undefined && key !== undefined) {
    // other blocks in a file of this host are others', and no reader minds them
    const others = location.kind === 'secret' ? 'refused' : 'skipped';
    const [first] = parseCertificates(certificate, `${what} ${certificateKey}`, others);
    if (first === undefined || !pairMatches(first, key, `${what} ${privateKeyKey}`)) {
      throw refuse('the private key does not belong to the certificate');
    }
  }
  if (bundle !== undefined) parseCertificates(bundle, `${what} ${caBundleKey}`);
  // As client-go reads it: what is torn beside a whole one counts for nothing.
  if (ca !== undefined && location.kind === 'kubeconfig' && wholeCertificates(ca).length === 0) {
    throw refuse(`"${authorityKey}" holds no CA certificate`);
  }
}

const isAuthority = (pem: Uint8Array, what: string): boolean =>
  parseCertificates(pem, what).every(({ facts }) => facts.isCa);
