// Keys of the kinds that Kubernetes components can use (Go's crypto/x509): identified, read from PEM, compared with
// certificates, generated. A PrivateKey shows its algorithm and nothing else when it is printed, logged or turned into
// JSON; its PEM is made on request only.
import { bounds } from '../bounds.ts';
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  X509Certificate,
} from 'node:crypto';
import { inspect, promisify } from 'node:util';
import { errorText, RecoveryError } from '../errors.ts';
import { curveNames, readKeyEncoding } from './key-encoding.ts';
import { readPem, type PemBlock, unlessInvalid, unreadable } from './pem.ts';
import { Recent } from '../recent.ts';

export type KeyAlgorithm =
  | { readonly name: 'RSA'; readonly bits: number }
  | { readonly name: 'ECDSA'; readonly curve: 'P-256' | 'P-384' | 'P-521' }
  | { readonly name: 'Ed25519' };

const generate = promisify(generateKeyPair);

/** Labels of unencrypted keys. The bytes decide which of the three encodings it is: labels are often wrong. */
const labels: ReadonlySet<string> = new Set(['RSA PRIVATE KEY', 'EC PRIVATE KEY', 'PRIVATE KEY']);

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
 * Returns the private key in `pem`: the only one there; blocks of other kinds (EC PARAMETERS, certificates) may be next
 * to it. Its parts must belong together, as Go checks when it loads a key. `what` names its source in messages: `Secret
 * "a/b"`. Throws MaterialInvalid.
 */
export function parsePrivateKey(pem: Uint8Array, what: string): KeyObject {
  const subject = `private key of ${what}`;
  const refuse = unreadable(subject);
  const [block, second] = readPem(pem, subject).filter(({ label }) => label.endsWith('PRIVATE KEY'));
  if (block === undefined) throw refuse('there is none, wanted one PEM block "PRIVATE KEY"');
  if (second !== undefined) throw refuse(`a second one at line ${second.line}, wanted one`);
  const key = keyOf(block, refuse);
  keyAlgorithmOf(key);
  return key;
}

/** Variant of parsePrivateKey; undefined where the key is encrypted or damaged. */
export function usableKey(pem: Uint8Array, what: string): KeyObject | undefined {
  return unlessInvalid(() => parsePrivateKey(pem, what));
}

/** Whether it holds a key that only its passphrase opens: PKCS#8, or the older form with headers (RFC 1421). */
export const isEncryptedKey = (pem: Uint8Array): boolean =>
  /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: *4, *ENCRYPTED/m.test(Buffer.from(pem).toString('latin1'));

const mostBytes = bounds.pem.most['bytes in a key'];

function keyOf({ label, der, line }: PemBlock, refuse: (problem: string) => RecoveryError): KeyObject {
  if (!labels.has(label)) throw refuse(`block "${label}" (line ${line}) cannot be used, wanted an unencrypted key`);
  if (der.length > mostBytes) throw refuse(`the block at line ${line} has more than ${mostBytes} bytes: no key has`);
  try {
    const jwk = readKeyEncoding(der, label);
    if (jwk !== undefined) return createPrivateKey({ key: jwk, format: 'jwk' });
    // OpenSSL knows the kind of key, for the message.
    return createPrivateKey({ key: der, format: 'der', type: label === 'EC PRIVATE KEY' ? 'sec1' : 'pkcs8' });
  } catch (err) {
    throw refuse(`the block at line ${line} is not a key (${errorText(err)})`);
  }
}

interface Certified {
  readonly x509: X509Certificate;
}

/** Whether the certificate was made for this key. */
export function keyMatches({ x509 }: Certified, key: KeyObject): boolean {
  return x509.checkPrivateKey(key);
}

/**
 * Hashes of certificate and key text recently found to match: to read a key and compare its parts takes a millisecond,
 * and each pass of regen and of the syncer does it again. No key is kept, and no refusal: its message names the place.
 * A preset has some thirty pairs, and their predecessors.
 */
const sound = new Recent<true>(100);

/** Whether `keyPem` is the private key of this certificate. `what` names it in messages. Throws MaterialInvalid. */
export function pairMatches(certificate: Certified, keyPem: Uint8Array, what: string): boolean {
  const pair = createHash('sha256').update(certificate.x509.raw).update(keyPem).digest('hex');
  if (sound.get(pair) === undefined && !keyMatches(certificate, parsePrivateKey(keyPem, what))) return false;
  sound.set(pair, true);
  return true;
}

/**
 * Whether `pem`, a file of public keys in the format of --service-account-key-file (public keys, certificates, private
 * keys), holds the public half of `key`. Blocks of other kinds may be next to them (client-go util/keyutil:
 * ParsePublicKeysPEM). Throws MaterialInvalid.
 */
export function publicKeyMatches(pem: Uint8Array, key: KeyObject, what: string): boolean {
  const subject = `public keys of ${what}`;
  const refuse = unreadable(subject);
  const wanted = createPublicKey(key);
  const blocks = readPem(pem, subject);
  const keys = blocks.flatMap((block) => {
    const { label, der, line } = block;
    if (labels.has(label)) return createPublicKey(keyOf(block, refuse));
    try {
      if (label === 'PUBLIC KEY') return createPublicKey({ key: der, format: 'der', type: 'spki' });
      if (label === 'RSA PUBLIC KEY') return createPublicKey({ key: der, format: 'der', type: 'pkcs1' });
      if (label === 'CERTIFICATE') return new X509Certificate(der).publicKey;
    } catch (err) {
      throw refuse(`the block at line ${line} is not a key (${errorText(err)})`);
    }
    return [];
  });
  const [first] = blocks;
  if (keys.length === 0)
    throw refuse(
      `${first === undefined ? 'there is none' : `block "${first.label}" (line ${first.line})`}, wanted "PUBLIC KEY"`,
    );
  return keys.some((candidate) => candidate.equals(wanted));
}

/** Generates a key on a thread of its own: the event loop goes on. Throws SignFailed. */
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

/**
 * Algorithm of a public or a private key that is to be used. Throws MaterialInvalid for a kind that is never made here.
 */
export function keyAlgorithmOf(key: KeyObject): KeyAlgorithm {
  const algorithm = knownAlgorithmOf(key);
  if (algorithm !== undefined) return algorithm;
  const kind = [key.asymmetricKeyType ?? key.type, key.asymmetricKeyDetails?.namedCurve ?? ''].join(' ').trim();
  throw new RecoveryError('MaterialInvalid', `Cannot use key: kind "${kind}", wanted RSA, ECDSA or Ed25519`);
}

/**
 * Algorithm of the key in a certificate. Undefined for a kind that Go reads as well and that is never made here (DSA,
 * P-224, RSA-PSS, Ed448, ...): a CA with such a key in a bundle is valid, and in use elsewhere. Throws MaterialInvalid
 * for a curve with which Go refuses the certificate (crypto/x509, "unsupported elliptic curve"), and so the bundle
 * around it.
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
  const curve = curveNames.get(namedCurve);
  return key.asymmetricKeyType === 'ec' && curve !== undefined ? { name: 'ECDSA', curve } : undefined;
}
