// Makes certificate signing requests (PKCS #10) for an existing key: with the subject's own bytes, without attributes
// or extensions, as a kubelet does (k8s.io/client-go/util/certificate/csr). The encoded request is read back with
// another parser than its encoder's.
import type { KeyObject } from 'node:crypto';
import { errorText, RecoveryError } from '../errors.ts';
import { parseCertificateRequest } from './csr.ts';
import { encodeRequest } from './encode.ts';
import type { DistinguishedName } from './names.ts';

/** Returns PEM. Throws SignFailed. */
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
