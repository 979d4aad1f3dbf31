// What a policy for serving certificates asks before it believes what a kubelet serves now.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ServingPolicy } from '../../lib/approver/serving-policy.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { kubeletSigners } from '../../lib/well-known.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { createRequest } from '../support/certificates/requests.ts';
import { FakeClock } from '../support/fake-clock.ts';

/** An API server, as far as it shows its certificate. */
let server: Server;
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'serving-policy-'));
  const ca = await createAuthority(directory, { commonName: 'ca' });
  const leaf = await createLeaf(join(directory, 'leaf'), ca, {
    commonName: 'served',
    dnsNames: ['kubernetes.default.svc'],
  });
  server = createServer({ cert: readFileSync(leaf.cert), key: readFileSync(leaf.key) });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(async () => {
  server.close();
  await rm(directory, { recursive: true, force: true });
});

const built = new Date('2026-06-01T00:00:00Z');

/** Asked for a name that only `served` could vouch for, by a clock that shows this. */
async function judgedAt(now: Date, apiServer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`) {
  const node = { metadata: { name: 'node1' }, status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } };
  const answer = (path: string): unknown =>
    path.includes('servicecidrs') ? { kind: 'ServiceCIDRList', metadata: { resourceVersion: '1' }, items: [] } : node;
  const request = ({ path }: KubeRequest): Promise<unknown> => Promise.resolve(answer(path));
  const connection = { server: apiServer, request } as unknown as KubeConnection;
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

it('says so where no kubeconfig names the API server yet', async () => {
  const unknown = judgedAt(new Date('2026-06-02T00:00:00Z'), 'unknown, by kubeconfig "/nowhere"');
  await expect(unknown).rejects.toMatchObject({ code: 'ProofFailed', message: expect.stringContaining('/nowhere') });
});
