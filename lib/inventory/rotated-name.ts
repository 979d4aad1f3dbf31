// The common names of CAs that rotation makes: with the time as their suffix, like library-go
// (pkg/operator/certrotation/signer.go). Two CAs of one name could not be distinguished by issuer, and a CA with any other
// name, for example kubeadm's, came with an adoption or from an administrator. Pure.
import type { Signer } from './model.ts';

/**
 * Returns `<namespace>_<secret>`; on disk the artefact's name. A declared name has the suffix `_`, like library-go's
 * intermediate CAs (pkg/operator/certrotation/target.go, SignerRotation).
 */
function nameWithoutTime({ name, location, commonName }: Signer): string {
  if (commonName !== undefined) return `${commonName}_`;
  return location.kind === 'secret' ? `${location.namespace}_${location.name}` : name;
}

/** Returns the common name of a CA that is made now. */
export const rotatedName = (signer: Signer, now: Date): string =>
  `${nameWithoutTime(signer)}@${Math.floor(now.getTime() / 1000)}`;

const time = /@\d+$/;

export const isRotatedName = (commonName: string): boolean => time.test(commonName);

/** A name without a time is nobody's own: kubeadm's CAs are called as their artefacts here. */
export const isRotatedNameOf = (signer: Signer, commonName: string): boolean =>
  isRotatedName(commonName) && commonName.replace(time, '') === nameWithoutTime(signer);
