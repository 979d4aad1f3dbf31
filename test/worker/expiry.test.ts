import { describe, expect, it } from 'vitest';
import type { Entries } from '../../lib/store/store.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { expiredAt, judgeIssuedBytes } from '../../lib/worker/expiry.ts';
import { nodePair, type NodePairOptions } from './node-pair.ts';

const location = { kind: 'combinedPem', file: '/pki/kubelet-client-current.pem' } as const;
const later = new Date('2026-03-01T00:00:00Z');
const entries = async (options?: NodePairOptions): Promise<Entries> => {
  const { certificate, key } = await nodePair(options);
  return { 'tls.crt': Buffer.from(certificate.pem), 'tls.key': Buffer.from(key.pem) };
};

describe('expiredAt()', () => {
  it('finds nothing to do until the last second of the certificate', async () => {
    const { certificate } = await nodePair();
    const { notAfter } = certificate.facts;
    expect(expiredAt(await entries(), location, new Date(notAfter.getTime() - 1))).toBeUndefined();
    expect(expiredAt(await entries(), location, notAfter)).toMatchObject({ node: 'tiger' });
  });

  it('does not ask whose a valid certificate is, nor for its key', async () => {
    const { certificate } = await nodePair({ commonName: 'somebody' });
    const alone = { 'tls.crt': Buffer.from(certificate.pem) };
    expect(expiredAt(alone, location, certificate.facts.notBefore)).toBeUndefined();
  });

  it('takes the first of several certificates for the leaf', async () => {
    const { 'tls.crt': one = Buffer.of(), 'tls.key': key = Buffer.of() } = await entries();
    const { certificate: other } = await nodePair({ commonName: 'CA' });
    const both = { 'tls.crt': Buffer.concat([one, Buffer.from(other.pem)]), 'tls.key': key };
    expect(expiredAt(both, location, later)?.leaf.pem).toBe(Buffer.from(one).toString());
  });

  it.each<readonly [string, () => Promise<Entries | undefined>, RegExp]>([
    [
      'no file',
      () => Promise.resolve(undefined),
      /: there is none: its file is absent, empty or holds something else; run "kube-cert-recovery worker NODE"/,
    ],
    [
      'no certificate',
      async () => ({ 'tls.key': (await entries())['tls.key'] ?? Buffer.of() }),
      /: there is none: its file is absent/,
    ],
    ['a damaged one', async () => ({ ...(await entries()), 'tls.crt': Buffer.from('x') }), /: it cannot be read;/],
    [
      'an empty key',
      async () => ({ ...(await entries()), 'tls.key': Buffer.of() }),
      /no key that can be used beside it/,
    ],
    [
      'the key of another',
      async () => ({
        ...(await entries()),
        'tls.key': Buffer.from((await generateKey({ name: 'ECDSA', curve: 'P-256' })).pem),
      }),
      /the key beside it belongs to another one/,
    ],
    ['that of a user', () => entries({ commonName: 'system:admin' }), /it is that of "CN=system:admin,O=system:nodes"/],
    ['that of no node', () => entries({ commonName: 'system:node:' }), /wanted one of a node/],
    ['another group', () => entries({ organization: 'system:masters' }), /wanted one of a node/],
  ])('refuses %s when it has expired, with no word of the key', async (_name, make, message) => {
    const given = await make();
    let said = '';
    try {
      expiredAt(given, location, later);
    } catch (err) {
      said = (err as Error).message;
    }
    expect(said).toMatch(/^Cannot renew the kubelet's certificate in \S+ "\/pki\/kubelet-client-current.pem": /);
    expect(said).toMatch(message);
    expect(said).not.toContain('PRIVATE');
  });
});

describe('judgeIssuedBytes()', () => {
  const now = new Date('2026-03-02T00:00:00Z');
  const dates = { notBefore: new Date('2026-03-01T00:00:00Z'), notAfter: new Date('2027-03-01T00:00:00Z') };
  const asked = async () => {
    const pair = await nodePair();
    return { node: 'tiger', leaf: pair.certificate, key: pair.key.key };
  };
  it('takes the same name for the same key', async () => {
    const { certificate } = await nodePair(dates);
    expect(judgeIssuedBytes(Buffer.from(certificate.pem), await asked(), now)).toMatchObject({
      made: { pem: certificate.pem },
      problem: undefined,
    });
  });

  it.each<readonly [string, NodePairOptions, RegExp]>([
    ['another key', { ...dates, keyOf: 'other' }, /^it is for another key$/],
    ['another name', { ...dates, commonName: 'system:node:lion' }, /^it is for "CN=system:node:lion,/],
    ['another group', { ...dates, organization: 'system:masters' }, /wanted "CN=system:node:tiger,O=system:nodes"$/],
    ['a server', { ...dates, usage: 'serving' }, /^it is for no client$/],
    ['what has expired', {}, /^it has expired at 2026-02-01/],
  ])('refuses %s', async (_name, options, message) => {
    const { certificate } = await nodePair(options);
    expect(judgeIssuedBytes(Buffer.from(certificate.pem), await asked(), now).problem).toMatch(message);
  });

  it('refuses what is no certificate', async () => {
    expect(judgeIssuedBytes(Buffer.from('x'), await asked(), now)).toEqual({ problem: 'it cannot be read' });
  });
});
