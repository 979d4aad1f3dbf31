// Private keys, decoded by Go's rules (crypto/tls, parsePrivateKey; crypto/x509, pkcs1.go, pkcs8.go, sec1.go): PKCS#1,
// PKCS#8 and SEC 1 are tried whatever the label of the block, and only the number of an EC key counts, its public half
// is computed. OpenSSL refuses some keys that every component loads. Throws RangeError.
import { createECDH, type JsonWebKey } from 'node:crypto';
import { DerReader, tags } from './der.ts';

/**
 * Undefined for a kind of key that is never made here. `label`: the encoding that the block claims, whose error is
 * thrown.
 */
export function readKeyEncoding(der: Buffer, label: string): JsonWebKey | undefined {
  const errors: RangeError[] = [];
  for (const read of [readPkcs1, readPkcs8, readSec1]) {
    try {
      return read(der);
    } catch (err) {
      if (!(err instanceof RangeError)) throw err;
      errors.push(err);
    }
  }
  const [pkcs1, pkcs8, sec1] = errors;
  throw { 'RSA PRIVATE KEY': pkcs1, 'EC PRIVATE KEY': sec1 }[label] ?? pkcs8 ?? new RangeError('of no known encoding');
}

function readPkcs1(der: Buffer): JsonWebKey {
  const outer = new DerReader(der);
  const parts = outer.inside(tags.sequence, 'RSA key');
  if (!outer.isEmpty) throw new RangeError('bytes after the end');
  // 1 is a key of more than two primes, which no tool makes
  if (parts.integer('version') > 0n) throw new RangeError('unknown version');
  const names = ['modulus', 'exponent', 'private exponent', 'prime', 'prime'];
  const [n, e, d, p, q] = names.map((what) => positive(parts, what)) as [bigint, bigint, bigint, bigint, bigint];
  if (p <= 1n || q <= 1n || p * q !== n) throw new RangeError(damaged);
  const remainders = [d % (p - 1n), d % (q - 1n), inverse(q, p)] as const;
  // Computable parts may be missing, and count only where all of them are there.
  const given: bigint[] = [];
  while (given.length < remainders.length && parts.next === tags.integer) given.push(positive(parts, 'coefficient'));
  // Any further part must be a value; no tool makes more than two primes.
  if (parts.enter(tags.sequence)) throw new RangeError('it has more than two primes');
  const [dp, dq, qi] = (given.length < remainders.length ? remainders : given) as [bigint, bigint, bigint];
  const areInverse = (d * e) % (p - 1n) === 1n && (d * e) % (q - 1n) === 1n;
  if (!areInverse || dp !== remainders[0] || dq !== remainders[1] || qi !== remainders[2])
    throw new RangeError(damaged);
  return { kty: 'RSA', ...texts({ n, e, d, p, q, dp, dq, qi }) };
}

const damaged = 'its parts do not belong together (damaged)';

function positive(parts: DerReader, what: string): bigint {
  const value = parts.integer(what);
  if (value <= 0n) throw new RangeError(`${what} is not positive`);
  return value;
}

/** Inverse of `a` modulo the prime `m`, by Euclid. */
function inverse(a: bigint, m: bigint): bigint {
  let [r, next, x, nextX] = [m, a % m, 0n, 1n];
  while (next > 0n) {
    const times = r / next;
    [r, next, x, nextX] = [next, r - times * next, nextX, x - times * nextX];
  }
  return ((x % m) + m) % m;
}

const texts = (numbers: Readonly<Record<string, bigint>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, base64url(value)]));

function base64url(value: bigint): string {
  const hex = value.toString(16);
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex').toString('base64url');
}

const kinds = { rsa: '1.2.840.113549.1.1.1', ec: '1.2.840.10045.2.1', ed25519: '1.3.101.112' } as const;

function readPkcs8(der: Buffer): JsonWebKey | undefined {
  const parts = new DerReader(der).inside(tags.sequence, 'PKCS#8 key');
  parts.integer('version');
  const algorithm = parts.inside(tags.sequence, 'algorithm');
  const oid = algorithm.oid('algorithm');
  // Must be whole, although the parameters of RSA have no meaning.
  const parameters = algorithm.isEmpty ? undefined : new DerReader(algorithm.any().raw);
  const key = parts.content(tags.octetString, 'key');
  if (oid === kinds.rsa) return readPkcs1(key);
  if (oid === kinds.ec) return readSec1(key, parameters?.next === tags.oid ? parameters.oid('curve') : undefined);
  if (oid !== kinds.ed25519) return undefined;
  if (parameters !== undefined) throw new RangeError('Ed25519 key with parameters');
  const seed = new DerReader(key).content(tags.octetString, 'Ed25519 key');
  if (seed.length !== 32) throw new RangeError('Ed25519 key of another length');
  return { kty: 'OKP', crv: 'Ed25519', d: seed.toString('base64url'), x: '' }; // OpenSSL computes x
}

/** Curves by object identifier: names for JWK and for OpenSSL, bytes of a number. */
export const curves: Readonly<Record<string, Curve>> = {
  '1.2.840.10045.3.1.7': { crv: 'P-256', openssl: 'prime256v1', size: 32 },
  '1.3.132.0.34': { crv: 'P-384', openssl: 'secp384r1', size: 48 },
  '1.3.132.0.35': { crv: 'P-521', openssl: 'secp521r1', size: 66 },
};

interface Curve {
  readonly crv: 'P-256' | 'P-384' | 'P-521';
  readonly openssl: string;
  readonly size: number;
}

/** JWK names of curves by OpenSSL's names. */
export const curveNames: ReadonlyMap<string, Curve['crv']> = new Map(
  Object.values(curves).map(({ openssl, crv }) => [openssl, crv]),
);

function readSec1(der: Buffer, given?: string): JsonWebKey | undefined {
  const parts = new DerReader(der).inside(tags.sequence, 'EC key');
  if (parts.integer('version') !== 1n) throw new RangeError('unknown version');
  const number = parts.content(tags.octetString, 'EC key');
  const named = parts.enter(0xa0) && parts.next === tags.oid ? parts.oid('curve') : undefined;
  // The public half is read, and its value does not count.
  if (parts.enter(0xa1) && parts.next === tags.bitString) parts.bitString('public half');
  const oid = given ?? named;
  if (oid === undefined) throw new RangeError('it does not name its curve');
  const curve = curves[oid];
  if (curve === undefined) return undefined;
  // Leading zeros are missing, or too many, in keys of old programs.
  const start = number.findIndex((byte) => byte !== 0);
  const significant = start < 0 ? Buffer.alloc(0) : number.subarray(start);
  if (significant.length > curve.size) throw new RangeError('EC key of another length');
  const d = Buffer.concat([Buffer.alloc(curve.size - significant.length), significant]);
  const pair = createECDH(curve.openssl);
  try {
    pair.setPrivateKey(d);
  } catch {
    throw new RangeError('EC key is zero, or beyond the order of its curve');
  }
  const point = pair.getPublicKey();
  const [x, y] = [point.subarray(1, 1 + curve.size), point.subarray(1 + curve.size)];
  const text = (bytes: Buffer): string => bytes.toString('base64url');
  return { kty: 'EC', crv: curve.crv, d: text(d), x: text(x), y: text(y) };
}
