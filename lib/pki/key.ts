// Private keys: read from PEM, compared with certificates, made. A PrivateKey shows its algorithm and nothing else when
// it is printed, logged or turned into JSON; its PEM is made on request only.
import {
  createECDH,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  X509Certificate,
} from 'node:crypto';
import { inspect, promisify } from 'node:util';
import { errorText, RecoveryError } from '../errors.ts';
import type { Certificate } from './certificate.ts';
import { readDer } from './der.ts';
import type { KeyAlgorithm } from './facts.ts';
import { keyAlgorithmOf } from './key-algorithm.ts';
import { readPem, type PemBlock } from './pem.ts';

export { keyAlgorithmOf };

const generate = promisify(generateKeyPair);

const formats: Readonly<Record<string, 'pkcs1' | 'sec1' | 'pkcs8'>> = {
  'RSA PRIVATE KEY': 'pkcs1',
  'EC PRIVATE KEY': 'sec1',
  'PRIVATE KEY': 'pkcs8',
};

export class PrivateKey {
  readonly algorithm: KeyAlgorithm;
  readonly #key: KeyObject;

  constructor(key: KeyObject) {
    this.#key = key;
    this.algorithm = keyAlgorithmOf(key);
  }

  get key(): KeyObject {
    return this.#key;
  }

  /** "RSA PRIVATE KEY" (PKCS#1) or "EC PRIVATE KEY" (SEC 1), as Kubernetes writes them; Ed25519 has only PKCS#8. */
  get pem(): string {
    const type = ({ RSA: 'pkcs1', ECDSA: 'sec1', Ed25519: 'pkcs8' } as const)[this.algorithm.name];
    return String(this.#key.export({ type, format: 'pem' }));
  }

  toJSON(): object {
    return { algorithm: this.algorithm };
  }

  [inspect.custom](): string {
    return `PrivateKey (${algorithmText(this.algorithm)})`;
  }
}

export function algorithmText(algorithm: KeyAlgorithm): string {
  if (algorithm.name === 'RSA') return `RSA-${algorithm.bits}`;
  return algorithm.name === 'ECDSA' ? `ECDSA-${algorithm.curve}` : algorithm.name;
}

/**
 * The private key in `pem`: the only one there; blocks of other kinds (EC PARAMETERS, certificates) may stand beside
 * it. Its parts must belong together, as Go checks when it loads a key. `what` names it in messages: `Secret "a/b"`.
 * Throws MaterialInvalid.
 */
export function parsePrivateKey(pem: Uint8Array, what: string): KeyObject {
  const subject = `private key of ${what}`;
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError('MaterialInvalid', `Cannot read ${subject}: ${problem}`);
  const [block, second] = readPem(pem, subject).filter(({ label }) => label.endsWith('PRIVATE KEY'));
  if (block === undefined) throw refuse('there is none, wanted one PEM block "PRIVATE KEY"');
  if (second !== undefined) throw refuse(`a second one at line ${second.line}, wanted one`);
  const key = keyOf(block, refuse);
  keyAlgorithmOf(key);
  if (!isConsistent(key)) throw refuse('its parts do not belong together (damaged)');
  return key;
}

function keyOf({ label, der, line }: PemBlock, refuse: (problem: string) => RecoveryError): KeyObject {
  const type = formats[label];
  if (type === undefined) throw refuse(`block "${label}" (line ${line}) cannot be used, wanted an unencrypted key`);
  try {
    readDer(der); // refuses bytes that follow the key, which OpenSSL ignores
    return createPrivateKey({ key: der, format: 'der', type });
  } catch (err) {
    throw refuse(`the block at line ${line} is not a key (${errorText(err)})`);
  }
}

const numberOf = (base64url: string | undefined): bigint =>
  BigInt(`0x0${Buffer.from(base64url ?? '', 'base64url').toString('hex')}`);

/** OpenSSL takes a key's parts as they are; Go computes the public half from the private one, or refuses the key. */
function isConsistent(key: KeyObject): boolean {
  const jwk = key.export({ format: 'jwk' });
  if (jwk.kty === 'RSA') {
    const [n, e, d, p, q, dp, dq, qi] = (['n', 'e', 'd', 'p', 'q', 'dp', 'dq', 'qi'] as const).map((name) =>
      numberOf(jwk[name]),
    ) as [bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint];
    if (p <= 1n || q <= 1n || p * q !== n) return false;
    const exponents = (d * e) % (p - 1n) === 1n && (d * e) % (q - 1n) === 1n;
    return exponents && dp === d % (p - 1n) && dq === d % (q - 1n) && (qi * q) % p === 1n;
  }
  if (jwk.kty === 'EC') {
    const pair = createECDH(key.asymmetricKeyDetails?.namedCurve ?? '');
    pair.setPrivateKey(Buffer.from(jwk.d ?? '', 'base64url'));
    const point = pair.getPublicKey();
    const half = (point.length - 1) / 2;
    return (
      numberOf(jwk.x) === numberOf(point.subarray(1, 1 + half).toString('base64url')) &&
      numberOf(jwk.y) === numberOf(point.subarray(1 + half).toString('base64url'))
    );
  }
  return true; // Ed25519 holds the private half only
}

/** Whether the certificate was made for this key. */
export function keyMatches(certificate: Certificate, key: KeyObject): boolean {
  return certificate.x509.checkPrivateKey(key);
}

/**
 * Whether `pem`, a file of public keys as --service-account-key-file takes it (public keys, certificates), holds the
 * public half of `key`. Throws MaterialInvalid.
 */
export function publicKeyMatches(pem: Uint8Array, key: KeyObject, what: string): boolean {
  const subject = `public keys of ${what}`;
  const wanted = createPublicKey(key);
  const keys = readPem(pem, subject).map(({ label, der, line }) => {
    try {
      if (label === 'PUBLIC KEY') return createPublicKey({ key: der, format: 'der', type: 'spki' });
      if (label === 'RSA PUBLIC KEY') return createPublicKey({ key: der, format: 'der', type: 'pkcs1' });
      if (label === 'CERTIFICATE') return new X509Certificate(der).publicKey;
    } catch (err) {
      const problem = `the block at line ${line} is not a key (${errorText(err)})`;
      throw new RecoveryError('MaterialInvalid', `Cannot read ${subject}: ${problem}`);
    }
    const problem = `block "${label}" (line ${line}), wanted "PUBLIC KEY"`;
    throw new RecoveryError('MaterialInvalid', `Cannot read ${subject}: ${problem}`);
  });
  return keys.some((candidate) => candidate.equals(wanted));
}

/** A new key, made on a thread of its own: the event loop goes on. Throws SignFailed. */
export async function generateKey(algorithm: KeyAlgorithm): Promise<PrivateKey> {
  try {
    const { privateKey } = await generatePair(algorithm);
    return new PrivateKey(privateKey);
  } catch (err) {
    throw new RecoveryError('SignFailed', `Cannot make key ${algorithmText(algorithm)}: ${errorText(err)}`);
  }
}

function generatePair(algorithm: KeyAlgorithm): Promise<{ privateKey: KeyObject }> {
  if (algorithm.name === 'RSA') return generate('rsa', { modulusLength: algorithm.bits });
  return algorithm.name === 'ECDSA' ? generate('ec', { namedCurve: algorithm.curve }) : generate('ed25519');
}
