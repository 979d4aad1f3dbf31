// CAs and leaves for tests, made by the code under test at a fixed time.
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import type { KeyAlgorithm } from '../../lib/pki/key.ts';
import { generateKey, type PrivateKey } from '../../lib/pki/key.ts';
import { type LeafRequest, signLeaf, signSigner } from '../../lib/pki/sign.ts';

export const now = new Date('2026-06-01T12:00:00Z');
export const p256: KeyAlgorithm = { name: 'ECDSA', curve: 'P-256' };

/** `now` and so many days. */
export function day(count: number): Date {
  return new Date(now.getTime() + count * 86_400_000);
}

export function one(pem: string): Certificate {
  const [certificate] = parseCertificates(Buffer.from(pem), 'test');
  if (certificate === undefined) throw new Error('no certificate');
  return certificate;
}

export interface Authority {
  readonly certificate: Certificate;
  readonly key: PrivateKey['key'];
}

export interface AuthorityOptions {
  readonly commonName?: string;
  readonly algorithm?: KeyAlgorithm;
  readonly issuer?: Authority;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  /** When it is made. */
  readonly at?: Date;
}

export async function authority(options: AuthorityOptions = {}): Promise<Authority> {
  const { commonName = 'test-ca', algorithm = p256, notBefore = day(-1), notAfter = day(365), at = now } = options;
  const { key } = await generateKey(algorithm);
  const issuer = options.issuer && { issuer: options.issuer };
  const certificate = await signSigner({ commonName, key, notBefore, notAfter, now: at, ...issuer });
  return { certificate, key };
}

/** A serving certificate for `localhost` and 127.0.0.1 for 30 days, unless asked otherwise. */
export async function leaf(issuer: Authority, changes: Partial<LeafRequest> = {}): Promise<Certificate> {
  const { key } = await generateKey(p256);
  const request: LeafRequest = {
    issuer,
    key,
    organizations: [],
    hostnames: ['localhost', '127.0.0.1'],
    usage: 'serving',
    notBefore: day(-1),
    notAfter: day(30),
    now,
    ...changes,
  };
  return signLeaf(request);
}
