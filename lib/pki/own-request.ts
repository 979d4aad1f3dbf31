// Makes certificate signing requests (PKCS #10) for a key that is there already: with the subject's own bytes, without
// attributes or extensions, as a kubelet asks (k8s.io/client-go/util/certificate/csr). What was encoded is read back with
// another parser than the one that wrote it.
import type { KeyObject } from 'node:crypto';
import { errorText, RecoveryError } from '../errors.ts';
import { parseCertificateRequest } from './csr.ts';
import { encodeRequest } from './encode.ts';
import type { DistinguishedName } from './names.ts';

/** PEM. Throws SignFailed. */
export async function signRequest(subject: DistinguishedName, key: KeyObject): Promise<string> {
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('SignFailed', `Cannot make a certificate request for "${subject.commonName}": ${problem}`);
  let pem: string;
  try {
    pem = await encodeRequest(subject, key);
  } catch (err) {
    throw refuse(`it cannot be encoded (${errorText(err)})`);
  }
  const made = parseCertificateRequest(Buffer.from(pem), 'this machine');
  if (!made.provesPossession || !made.subject.der.equals(subject.der)) throw refuse('its check failed');
  return pem;
}
