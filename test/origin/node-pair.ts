// Certificates of nodes for one key, made by our own code: their dates and names are what is judged.
import { type Certificate } from '../../lib/pki/certificate.ts';
import { generateKey, type PrivateKey } from '../../lib/pki/key.ts';
import { signLeaf, signSigner } from '../../lib/pki/sign.ts';

export interface NodePairOptions {
  readonly commonName?: string;
  readonly organization?: string;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  readonly usage?: 'client' | 'serving';
  /** Default: one key for all. */
  readonly keyOf?: 'all' | 'other';
}

const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const keys = { all: generateKey(algorithm), other: generateKey(algorithm), ca: generateKey(algorithm) };
const [from, to] = [new Date('2026-01-01T00:00:00Z'), new Date('2036-01-01T00:00:00Z')];

export async function nodeAuthority(): Promise<{ certificate: Certificate; key: PrivateKey }> {
  const key = await keys.ca;
  const dates = { notBefore: from, notAfter: to, now: from };
  return { certificate: await signSigner({ key: key.key, commonName: 'kubernetes', ...dates }), key };
}

/** Default: that of node tiger, for January 2026. */
export async function nodePair(options: NodePairOptions = {}): Promise<{ certificate: Certificate; key: PrivateKey }> {
  const { notBefore = from, notAfter = new Date('2026-02-01T00:00:00Z'), usage = 'client', keyOf = 'all' } = options;
  const authority = await nodeAuthority();
  const key = await keys[keyOf];
  const certificate = await signLeaf({
    issuer: { certificate: authority.certificate, key: authority.key.key },
    key: key.key,
    commonName: options.commonName ?? 'system:node:tiger',
    organizations: [options.organization ?? 'system:nodes'],
    hostnames: usage === 'serving' ? ['tiger'] : [],
    usage,
    notBefore,
    notAfter,
    now: notBefore,
  });
  return { certificate, key };
}
