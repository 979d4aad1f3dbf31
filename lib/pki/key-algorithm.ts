// The kinds of keys that Kubernetes components can use (Go's crypto/x509), told from a key.
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import type { KeyAlgorithm } from './facts.ts';

const curves: Readonly<Record<string, 'P-256' | 'P-384' | 'P-521'>> = {
  prime256v1: 'P-256',
  secp384r1: 'P-384',
  secp521r1: 'P-521',
};

/** Of a public or a private key. Throws MaterialInvalid for a kind of key that Go does not know. */
export function keyAlgorithmOf(key: KeyObject): KeyAlgorithm {
  const { modulusLength, namedCurve = '' } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'rsa' && modulusLength !== undefined) return { name: 'RSA', bits: modulusLength };
  if (key.asymmetricKeyType === 'ed25519') return { name: 'Ed25519' };
  const curve = curves[namedCurve];
  if (key.asymmetricKeyType === 'ec' && curve !== undefined) return { name: 'ECDSA', curve };
  const kind = [key.asymmetricKeyType ?? key.type, namedCurve].join(' ').trim();
  throw new RecoveryError('MaterialInvalid', `Cannot use key: kind "${kind}", wanted RSA, ECDSA or Ed25519`);
}
