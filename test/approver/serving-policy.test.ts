// The checks of a policy for serving certificates before it trusts a kubelet's present one, and addresses never dialled.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, createServer, type Server } from 'node:tls';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { ServingPolicy } from '../../lib/approver/serving-policy.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { createLog } from '../../lib/log.ts';
import { kubeletSigners } from '../../lib/well-known.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { createRequest } from '../support/certificates/requests.ts';
import { FakeClock } from '../support/fake-clock.ts';

const built = new Date('2026-06-01T00:00:00Z');

let root: string;
/** Shows the names of an API server. */
let apiServer: Server;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'serving-policy-'));
  const ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
  const leaf = await createLeaf(join(root, 'leaf'), ca, { commonName: 'kube-apiserver', dnsNames: ['kubernetes'] });
  const own = await createLeaf(join(root, 'own'), ca, {
    commonName: 'kube-apiserver',
    dnsNames: ['public.example.com', '*.apps.example.com'],
  });
  const bySni = createSecureContext({ cert: readFileSync(own.cert), key: readFileSync(own.key) });
  apiServer = createServer({
    cert: readFileSync(leaf.cert),
    key: readFileSync(leaf.key),
    SNICallback: (name, done) => done(null, name.endsWith('.example.com') ? bySni : undefined),
  });
  await once(apiServer.listen({ port: 0, host: '127.0.0.1' }), 'listening');
});
afterAll(async () => {
  apiServer.close();
  await rm(root, { recursive: true, force: true });
});

const serverUrl = (): string => `https://127.0.0.1:${(apiServer.address() as AddressInfo).port}`;

/** Paths that were read. */
let reads: string[] = [];
beforeEach(() => void (reads = []));

/** Asked for an address that only `served` could vouch for, by a clock that shows this. */
async function judgedAt(
  now: Date,
  address = '192.0.2.1',
  ofStatus = address,
  server = serverUrl(),
  names: readonly string[] = [],
) {
  const node = nodeWith('node1', ofStatus);
  const addresses = [{ kind: 'served', caFile: '/nonexistent' }];
  return judgedOf({ node, address, names, now, server, addresses, hasServices: true });
}

const nodeWith = (name: string, ...addresses: readonly string[]) => ({
  metadata: { name },
  status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
});

interface Asking {
  readonly node: ReturnType<typeof nodeWith>;
  readonly others?: readonly ReturnType<typeof nodeWith>[];
  readonly address: string;
  readonly names: readonly string[];
  readonly addresses: readonly object[];
  readonly now?: Date;
  readonly server?: string;
  readonly hasServices?: boolean;
}

const sound = new Date('2026-06-02T00:00:00Z');

async function judgedOf({
  node,
  others = [],
  address,
  names,
  addresses,
  now = sound,
  server = serverUrl(),
  hasServices = false,
}: Asking) {
  const { name: nodeName } = node.metadata;
  const connection = {
    server,
    request: ({ path }: { path: string }) => {
      reads.push(path);
      if (path.endsWith(`/nodes/${nodeName}`)) return Promise.resolve(node);
      if (path.includes('/services/') && !hasServices)
        return Promise.reject(new RecoveryError('KubeNotFound', 'absent'));
      const items = path.includes('/nodes') ? [node, ...others] : [];
      return Promise.resolve({ metadata: { resourceVersion: '1' }, items });
    },
  } as unknown as KubeConnection;
  const options = {
    connection,
    addresses,
    clock: new FakeClock(now, 100),
    clockFacts: () => Promise.resolve({ builtAt: built, synchronised: false }),
    log: createLog({ write: () => undefined }),
    signal: new AbortController().signal,
  } as unknown as ApproverOptions;
  const pem = await createRequest({
    subject: ['O=system:nodes', `CN=system:node:${nodeName}`],
    extensions: [`subjectAltName=${[`IP:${address}`, ...names.map((name) => `DNS:${name}`)].join(',')}`],
  });
  return new ServingPolicy(options).judge({
    metadata: { name: 'csr-1' },
    spec: {
      request: Buffer.from(pem).toString('base64'),
      signerName: kubeletSigners['kubelet-serving'],
      usages: ['digital signature', 'server auth'],
      username: `system:node:${nodeName}`,
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
  const unknown = judgedAt(
    new Date('2026-06-02T00:00:00Z'),
    '192.0.2.1',
    '192.0.2.1',
    'unknown, by kubeconfig "/nowhere"',
  );
  await expect(unknown).rejects.toMatchObject({ code: 'ProofFailed', message: expect.stringContaining('/nowhere') });
});

it.each([
  ['127.0.0.1'],
  ['127.9.9.9'],
  ['::1'],
  ['::ffff:127.0.0.1'],
  ['127.0.0.1', '::ffff:7f00:1'],
  ['::127.0.0.1'],
  ['64:ff9b::7f00:1'],
  ['169.254.169.254'],
  ['::ffff:169.254.169.254'],
  ['fe80::1'],
  ['0.0.0.0'],
  ['::'],
])('asks nobody at %s, whatever a Node says of itself', async (address, ofStatus = address) => {
  // Who is asked at all fails here: there is no CA file.
  const verdict = await judgedAt(new Date('2026-06-02T00:00:00Z'), address, ofStatus);
  expect(verdict).toMatchObject({ action: 'leave', reason: 'NameOfCluster' });
});

it('reads no Service for a request that could name many', async () => {
  const judged = (count: number, nameOf: (at: number) => string) => {
    const names = Array.from({ length: count }, (_, at) => nameOf(at));
    return judgedAt(new Date('2026-06-02T00:00:00Z'), '192.0.2.1', '192.0.2.1', serverUrl(), names);
  };
  const services = () => reads.filter((path) => path.includes('/services/'));
  const verdict = await judged(99, (at) => `db-${at}.prod`);
  expect(verdict).toMatchObject({ action: 'leave', reason: 'NamesForbidden' });
  expect(verdict).toMatchObject({ message: expect.stringContaining('it asks for names of 99 Services') });
  expect(services()).toEqual([]);
  expect(await judged(10, (at) => `db-${at}.prod`)).toMatchObject({ reason: 'NameOfCluster' });
  expect(services()).toHaveLength(10);
});

const ranges = [{ kind: 'cidrs', cidrs: ['198.51.100.0/24'] }];

it.each([
  'public.example.com', // its SNI certificate
  'b.apps.example.com', // a wildcard of it
])('gives no node a name that the API server serves only to its clients', async (name) => {
  const asking = { node: nodeWith(name, '198.51.100.7'), address: '198.51.100.7', addresses: ranges };
  const refused = { action: 'leave', reason: 'NameOfCluster' };
  expect(await judgedOf({ ...asking, names: [name] })).toMatchObject(refused);
  // A node of such a name gets nothing at all.
  expect(await judgedOf({ ...asking, names: [] })).toMatchObject(refused);
  const other = { ...asking, node: nodeWith('b.other.example.org', '198.51.100.7'), names: ['b.other.example.org'] };
  expect(await judgedOf(other)).toMatchObject({ action: 'approve' });
});

it('gives by ranges alone no node its own name where another Node has that name', async () => {
  const asking = { node: nodeWith('a.example.org', '198.51.100.7'), address: '198.51.100.7', addresses: ranges };
  const others = [nodeWith('victim', '198.51.100.8', 'a.example.org')];
  expect(await judgedOf({ ...asking, names: ['a.example.org'] })).toMatchObject({ action: 'approve' });
  expect(await judgedOf({ ...asking, others, names: ['a.example.org'] })).toMatchObject({
    action: 'leave',
    reason: 'AddressOfOtherNode',
  });
});

it('asks the kubelet itself where another node only claims its address', async () => {
  const others = [nodeWith('thief', '192.0.2.2')];
  const addresses = [...ranges, { kind: 'served', caFile: '/nonexistent' }];
  const asking = { node: nodeWith('node1', '192.0.2.2'), others, address: '192.0.2.2', names: [], addresses };
  // Who is asked at all fails here: there is no CA file.
  await expect(judgedOf(asking)).rejects.toThrow('/nonexistent');
});
