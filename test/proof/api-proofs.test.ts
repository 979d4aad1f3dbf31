import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { ApiService } from '../../lib/kube/received.ts';
import { isSignedBy, judgeProxied, judgeRenewal, type JudgeRenewal, judgeSigned } from '../../lib/proof/api-proofs.ts';
import { combineProofs, type ProofResult } from '../../lib/proof/result.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { TemporaryDirectory } from '../fileobserver/observation.ts';

const now = new Date('2026-11-21T08:00:30Z');
const publishedAt = new Date('2026-11-21T08:00:00Z');

const lease = (holderIdentity: string, renewTime?: string): JudgeRenewal['lease'] => ({
  spec: { holderIdentity, ...(renewTime === undefined ? {} : { renewTime }) },
});

const renewals: Record<string, [given: Partial<JudgeRenewal>, state: ProofResult['state']]> = {
  'renewed after the files came': [{ lease: lease('n1_a', '2026-11-21T08:00:00.000001Z') }, 'unproven'],
  'renewed a millisecond after the files came': [{ lease: lease('n1_a', '2026-11-21T08:00:00.001000Z') }, 'proven'],
  'renewed before the files came': [{ lease: lease('n1_a', '2026-11-21T07:59:59.999999Z') }, 'unproven'],
  'renewed far in the future': [{ lease: lease('n1_a', '2036-11-21T08:00:00.000000Z') }, 'unproven'],
  'released: no holder': [{ lease: lease('', '2026-11-21T08:00:20.000000Z') }, 'unproven'],
  'never renewed': [{ lease: lease('n1_a') }, 'unproven'],
  'no spec': [{ lease: {} }, 'unproven'],
  'held on this node': [{ lease: lease('n1_a', '2026-11-21T08:00:20.000000Z'), hostName: 'n1' }, 'proven'],
  'held on another node': [{ lease: lease('n10_a', '2026-11-21T08:00:20.000000Z'), hostName: 'n1' }, 'notApplicable'],
};

test.each(Object.entries(renewals))('judgeRenewal(): %s', (_title, [given, state]) => {
  expect(judgeRenewal({ lease: {}, publishedAt, now, ...given })).toMatchObject({ state });
});

const service = (name: string, status?: 'True' | 'False', local = false): ApiService => ({
  metadata: { name },
  spec: local ? { service: null as never } : { service: { name: 'x' } },
  ...(status && { status: { conditions: [{ type: 'Available', status, reason: 'FailedDiscoveryCheck' }] } }),
});

const proxied: Record<string, [ApiService[], ProofResult['state'], message: string]> = {
  'no APIService': [[], 'notApplicable', 'No aggregated API'],
  'only those of kube-apiserver itself': [[service('v1.', 'True', true)], 'notApplicable', 'No aggregated API'],
  'one available': [
    [service('v1.', 'True', true), service('v1.a', 'False'), service('v1.b', 'True')],
    'proven',
    'v1.b',
  ],
  'none available': [[service('v1.a', 'False')], 'unproven', '"v1.a" (FailedDiscoveryCheck)'],
  'not looked at yet': [[service('v1.a')], 'unproven', '"v1.a" (not checked yet)'],
};

test.each(Object.entries(proxied))('judgeProxied(): %s', (_title, [services, state, message]) => {
  expect(judgeProxied(services)).toEqual({ state, message: expect.stringContaining(message) });
});

test('isSignedBy() believes the signature of the present signer only', async () => {
  await using root = new TemporaryDirectory();
  const [present, former] = await Promise.all([
    // The same name, as successive signers have: only the key tells them apart.
    createAuthority(join(root.path, 'present'), { commonName: 'csr-signer' }),
    createAuthority(join(root.path, 'former'), { commonName: 'csr-signer' }),
  ]);
  const leaf = async (by: Pair, name: string): Promise<string> => {
    const { cert } = await createLeaf(join(root.path, name), by, { commonName: 'system:node:a' });
    return (await readFile(cert)).toString('base64');
  };
  const signer = await readFile(present.cert, 'utf8');
  const old = { metadata: { name: 'old' }, status: { certificate: await leaf(former, 'a') } };
  const fresh = { metadata: { name: 'fresh' }, status: { certificate: await leaf(present, 'b') } };
  const pending = { metadata: { name: 'pending' }, status: {} };
  const foreign = { metadata: { name: 'foreign' }, status: { certificate: 'bm9uc2Vuc2U=' } };
  for (const request of [pending, foreign, old]) expect(isSignedBy(signer)(request), request.metadata.name).toBe(false);
  expect(isSignedBy(signer)(fresh)).toBe(true);
  expect(isSignedBy('nonsense')(fresh)).toBe(false);
});

test('judgeSigned() names the request', () => {
  expect(judgeSigned('fresh')).toMatchObject({ state: 'proven', message: expect.stringContaining('"fresh"') });
  expect(judgeSigned(undefined)).toMatchObject({ state: 'unproven' });
});

const result = (state: ProofResult['state'], message: string): ProofResult => ({ state, message });

test.each([
  [[], 'notApplicable', 'No reader is declared'],
  [[result('notApplicable', 'a')], 'notApplicable', 'a'],
  [[result('notApplicable', 'a'), result('proven', 'b')], 'proven', 'b'],
  [[result('proven', 'a'), result('unproven', 'b'), result('unproven', 'c')], 'unproven', 'b; c'],
] as const)('combineProofs() of %j is %s', (results, state, message) => {
  expect(combineProofs(results)).toEqual({ state, message });
});
