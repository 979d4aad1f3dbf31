// The kinds of keys that Kubernetes components can use (Go's crypto/x509), told from a key.
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import type { KeyAlgorithm } from './facts.ts';

const curves: Readonly<Record<string, 'P-256' | 'P-384' | 'P-521'>> = {
  prime256v1: 'P-256',
  secp384r1: 'P-384',
  secp521r1: 'P-521',
};

/** Of a public or a private key that is to be used. Throws MaterialInvalid for a kind that is never made here. */
export function keyAlgorithmOf(key: KeyObject): KeyAlgorithm {
  const algorithm = knownAlgorithmOf(key);
  if (algorithm !== undefined) return algorithm;
  const kind = [key.asymmetricKeyType ?? key.type, key.asymmetricKeyDetails?.namedCurve ?? ''].join(' ').trim();
  throw new RecoveryError('MaterialInvalid', `Cannot use key: kind "${kind}", wanted RSA, ECDSA or Ed25519`);
}

/**
 * Of the key in a certificate. Undefined for a kind that Go reads as well and that is never made here (DSA, P-224,
 * RSA-PSS, Ed448, ...): a CA with such a key in a bundle is whole, and somebody's. Throws MaterialInvalid for a curve
 * with which Go refuses the certificate (crypto/x509, "unsupported elliptic curve"), and so the bundle around it.
 */
export function certifiedAlgorithmOf(key: KeyObject): KeyAlgorithm | undefined {
  const isReadByGo = key.asymmetricKeyType !== 'ec' || key.asymmetricKeyDetails?.namedCurve === p224;
  return isReadByGo ? knownAlgorithmOf(key) : keyAlgorithmOf(key);
}

const p224 = 'secp224r1';

function knownAlgorithmOf(key: KeyObject): KeyAlgorithm | undefined {
  const { modulusLength, namedCurve = '' } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'rsa' && modulusLength !== undefined) return { name: 'RSA', bits: modulusLength };
  if (key.asymmetricKeyType === 'ed25519') return { name: 'Ed25519' };
  const curve = curves[namedCurve];
  return key.asymmetricKeyType === 'ec' && curve !== undefined ? { name: 'ECDSA', curve } : undefined;
}
