// The client certificate of a kubelet without the key of the CA: when it is requested, and what is said where nothing can
// be proven with it.
import { describe, expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { gather } from '../../lib/plan/gather.ts';
import { type Sources, understandOffers } from '../../lib/plan/gather-offers.ts';
import { plan } from '../../lib/plan/plan.ts';
import { issuedProblem } from '../../lib/plan/request-rules.ts';
import type { Entries, Store } from '../../lib/store/store.ts';
import { nodePair, type NodePairOptions } from '../origin/node-pair.ts';

const file = '/pki/kubelet-client-current.pem';
const later = new Date('2026-03-01T00:00:00Z');
const resolved = resolve(loadPreset('kubeadm-worker'), { files: { clientFile: file, clientCaFile: '/pki/ca.crt' } });
const entries = async (options?: NodePairOptions): Promise<Entries> => {
  const { certificate, key } = await nodePair(options);
  return { 'tls.crt': Buffer.from(certificate.pem), 'tls.key': Buffer.from(key.pem) };
};

/** The decision about a pair at a time, with the answer to its request. */
async function decided(there: Entries | undefined, now: Date, answer?: Entries) {
  const store: Store = {
    read: async ({ kind }) =>
      kind === 'combinedPem' && there !== undefined ? { entries: there, annotations: {}, version: '1' } : undefined,
    write: () => Promise.reject(new Error('not written')),
  };
  const gathered = await gather({ resolved, store, now, signal: AbortSignal.timeout(10_000) });
  const { 'tls.crt': certificate = Buffer.of(), 'tls.key': key = Buffer.of() } = answer ?? {};
  const sources: Sources | undefined =
    answer && new Map([['kubelet-client', { place: 'here', answer: { certificate, key } }]]);
  const offers = understandOffers(sources, { ...gathered, resolved });
  const clock = { builtAt: new Date('2025-01-01'), synchronised: true };
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 0 } as const;
  const { decisions } = plan({ resolved, facts: gathered.facts, policy, clock, now, offers });
  return decisions.find(({ artefact }) => artefact === 'kubelet-client');
}

describe('judgeRequested()', () => {
  it('finds nothing to do until the last second of the certificate', async () => {
    const { certificate } = await nodePair();
    const { notAfter } = certificate.facts;
    expect(await decided(await entries(), new Date(notAfter.getTime() - 1))).toMatchObject({ action: 'keep' });
    const due = { action: 'renew', reason: 'Expired', origin: 'request', obtains: 'request' };
    expect(await decided(await entries(), notAfter)).toMatchObject(due);
  });

  it('does not ask whose a valid certificate is, nor for its key', async () => {
    const { certificate } = await nodePair({ commonName: 'somebody' });
    const alone = { 'tls.crt': Buffer.from(certificate.pem) };
    expect(await decided(alone, certificate.facts.notBefore)).toMatchObject({ action: 'keep', reason: 'Healthy' });
  });

  it('takes the first of several certificates for the leaf', async () => {
    const { 'tls.crt': one = Buffer.of(), 'tls.key': key = Buffer.of() } = await entries();
    const { certificate: other } = await nodePair({ commonName: 'CA' });
    const both = { 'tls.crt': Buffer.concat([one, Buffer.from(other.pem)]), 'tls.key': key };
    expect(await decided(both, later)).toMatchObject({ action: 'renew', obtains: 'request' });
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
      /: certificate or key cannot be read/,
    ],
    [
      'a damaged one',
      async () => ({ ...(await entries()), 'tls.crt': Buffer.from('x') }),
      /: certificate or key cannot be read/,
    ],
    [
      'an empty key',
      async () => ({ ...(await entries()), 'tls.key': Buffer.of() }),
      /: certificate or key cannot be read/,
    ],
    [
      'the key of another',
      async () => ({
        ...(await entries()),
        'tls.key': Buffer.from((await generateKey({ name: 'ECDSA', curve: 'P-256' })).pem),
      }),
      /the key beside it belongs to another one; run "kube-cert-recovery worker tiger"/,
    ],
    [
      'no key',
      async () => ({ 'tls.crt': (await entries())['tls.crt'] ?? Buffer.of() }),
      /no key that can be used beside it/,
    ],
    ['that of a user', () => entries({ commonName: 'system:admin' }), /it is that of "CN=system:admin,O=system:nodes"/],
    ['that of no node', () => entries({ commonName: 'system:node:' }), /wanted one of a node/],
    ['another group', () => entries({ organization: 'system:masters' }), /wanted one of a node/],
  ])('refuses %s when it has expired, with no word of the key', async (_name, make, message) => {
    const decision = await decided(await make(), later);
    expect(decision).toMatchObject({ action: 'blocked', byHand: true });
    expect(decision?.message).toMatch(
      /^Cannot renew the kubelet's certificate in \S+ "\/pki\/kubelet-client-current.pem": /,
    );
    expect(decision?.message).toMatch(message);
    expect(decision?.message).not.toContain('PRIVATE');
  });

  it('takes the issued certificate, which has the key of the expired one', async () => {
    const issued = await entries({ notAfter: new Date('2030-01-01T00:00:00Z') });
    expect(await decided(await entries(), later, issued)).toMatchObject({ action: 'renew', origin: 'request' });
    expect(await decided(await entries(), later, issued)).not.toHaveProperty('obtains');
  });

  it('takes no certificate that was not requested', async () => {
    const other = await entries({ notAfter: new Date('2030-01-01T00:00:00Z'), commonName: 'system:node:lion' });
    expect(await decided(await entries(), later, other)).toMatchObject({
      action: 'blocked',
      message: expect.stringContaining('it is for "CN=system:node:lion,O=system:nodes"') as string,
    });
  });
});

describe('issuedProblem()', () => {
  const now = new Date('2026-03-02T00:00:00Z');
  const dates = { notBefore: new Date('2026-03-01T00:00:00Z'), notAfter: new Date('2027-03-01T00:00:00Z') };
  const problemOf = async (options: NodePairOptions): Promise<string | undefined> =>
    issuedProblem((await nodePair(options)).certificate, (await nodePair()).certificate, now);

  it('takes the same name for the same key', async () => {
    expect(await problemOf(dates)).toBeUndefined();
  });

  it.each<readonly [string, NodePairOptions, RegExp]>([
    ['another key', { ...dates, keyOf: 'other' }, /^it is for another key$/],
    ['another name', { ...dates, commonName: 'system:node:lion' }, /^it is for "CN=system:node:lion,/],
    ['another group', { ...dates, organization: 'system:masters' }, /wanted "CN=system:node:tiger,O=system:nodes"$/],
    ['a server', { ...dates, usage: 'serving' }, /^it is for no client$/],
    ['what has expired', {}, /^it has expired at 2026-02-01/],
  ])('refuses %s', async (_name, options, message) => {
    expect(await problemOf(options)).toMatch(message);
  });
});
