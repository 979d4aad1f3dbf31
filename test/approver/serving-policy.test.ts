// What a policy for serving certificates asks before it believes what a kubelet serves now.
import { expect, it } from 'vitest';
import { ServingPolicy } from '../../lib/approver/serving-policy.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { kubeletSigners } from '../../lib/well-known.ts';
import { createRequest } from '../support/certificates/requests.ts';
import { FakeClock } from '../support/fake-clock.ts';

const built = new Date('2026-06-01T00:00:00Z');

/** Asked for a name that only `served` could vouch for, by a clock that shows this. */
async function judgedAt(now: Date) {
  const node = { metadata: { name: 'node1' }, status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } };
  const connection = { request: () => Promise.resolve(node) } as unknown as KubeConnection;
  const options = {
    connection,
    addresses: [{ kind: 'served', caFile: '/nonexistent' }],
    clock: new FakeClock(now, 100),
    clockFacts: () => Promise.resolve({ builtAt: built, synchronised: false }),
    log: createLog({ write: () => undefined }),
    signal: new AbortController().signal,
  } as unknown as ApproverOptions;
  const pem = await createRequest({
    subject: ['O=system:nodes', 'CN=system:node:node1'],
    extensions: ['subjectAltName=IP:192.0.2.1'],
  });
  return new ServingPolicy(options).judge({
    metadata: { name: 'csr-1' },
    spec: {
      request: Buffer.from(pem).toString('base64'),
      signerName: kubeletSigners['kubelet-serving'],
      usages: ['digital signature', 'server auth'],
      username: 'system:node:node1',
      groups: ['system:nodes', 'system:authenticated'],
    },
  });
}

it('believes no clock that shows a time before the program was built', async () => {
  const verdict = await judgedAt(new Date('2026-05-01T00:00:00Z'));
  expect(verdict).toMatchObject({ action: 'leave', node: 'node1', reason: 'ClockImplausible' });
});

it('asks the kubelet by a clock that can be right', async () => {
  await expect(judgedAt(new Date('2026-06-02T00:00:00Z'))).rejects.toThrow('/nonexistent');
});
