// Proofs against a real TLS server that chooses its certificate by name, as kube-apiserver does.
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer as createPlainServer, type AddressInfo, type Server } from 'node:net';
import { createSecureContext, createServer } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { proveServedHere } from '../../lib/proof/prove.ts';
import type { ProofResult } from '../../lib/proof/result.ts';
import { proveServed, type ServedOptions } from '../../lib/proof/served.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { type AuthorityOptions, createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { TemporaryDirectory } from '../fileobserver/observation.ts';

const made = new TemporaryDirectory();
let ca: Pair;
let byDefault: Pair;
let byName: Pair;
const servers: Server[] = [];
const signal = new AbortController().signal;

const fingerprint = ({ cert }: Pair): string =>
  new X509Certificate(readFileSync(cert)).fingerprint256.replaceAll(':', '').toLowerCase();
const content = ({ cert, key }: Pair) => ({ cert: readFileSync(cert), key: readFileSync(key) });

async function listen(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1' }, resolve));
  return (server.address() as AddressInfo).port;
}

let port: number;
beforeAll(async () => {
  ca = await createAuthority(join(made.path, 'ca'), { commonName: 'ca' });
  byDefault = await createLeaf(join(made.path, 'default'), ca, { commonName: 'default', dnsNames: ['kubernetes'] });
  byName = await createLeaf(join(made.path, 'name'), ca, {
    commonName: 'localhost-recovery',
    dnsNames: ['localhost-recovery'],
    notBefore: new Date('2020-01-01T00:00:00Z'),
    notAfter: new Date('2021-01-01T00:00:00Z'),
  });
  const server = createServer({
    ...content(byDefault),
    SNICallback: (name, choose) =>
      choose(null, createSecureContext(content(name === 'localhost-recovery' ? byName : byDefault))),
  });
  port = await listen(server);
});
afterAll(async () => {
  for (const server of servers) server.close();
  await made[Symbol.asyncDispose]();
});

const prove = (options: Partial<ServedOptions>) =>
  proveServed({
    host: '127.0.0.1',
    port,
    serverName: 'kubernetes',
    expected: '',
    clock: systemClock,
    signal,
    ...options,
  });

test('proveServed() gives proof when the name is answered with the expected certificate', async () => {
  const served = await prove({ expected: fingerprint(byDefault) });
  expect(served).toMatchObject({ state: 'proven', servedFingerprint: fingerprint(byDefault) });
  expect(served.servedNotAfter?.getTime()).toBeGreaterThan(Date.now());
});

test('proveServed() asks for the name by SNI, and reports an expired certificate instead of failing', async () => {
  const served = await prove({ serverName: 'localhost-recovery', expected: fingerprint(byName) });
  expect(served).toMatchObject({ state: 'proven', servedNotAfter: new Date('2021-01-01T00:00:00Z') });
  expect(served.message).toContain('expired 2021-01-01');
});

test('proveServed() gives no proof when another certificate is served', async () => {
  const served = await prove({ serverName: 'localhost-recovery', expected: fingerprint(byDefault) });
  expect(served).toMatchObject({ state: 'unproven', servedFingerprint: fingerprint(byName) });
});

test('proveServed() sends no name for an IP address and gets the default certificate', async () => {
  expect((await prove({ serverName: '127.0.0.1', expected: fingerprint(byDefault) })).state).toBe('proven');
});

const trusting = ({ cert }: Pair, ...names: readonly string[]) => ({
  bundles: [parseCertificates(readFileSync(cert), 'ca')],
  names,
});

test('proveServed() gives no proof of what its readers refuse, and says why', async () => {
  const expected = fingerprint(byName);
  expect((await prove({ serverName: 'localhost-recovery', expected })).verified).toBeUndefined();
  const served = await prove({ serverName: 'localhost-recovery', expected, trust: trusting(ca) });
  expect(served).toMatchObject({ state: 'unproven', verified: false, servedFingerprint: expected });
  expect(served.message).toMatch(/is served for .*, and its readers refuse it: .* expired at 2021-01-01/);
  expect(await prove({ trust: trusting(byName) })).toMatchObject({ verified: false });
});

test('proveServed() trusts a CA that is not self-signed, as Go does, and asks for the names', async () => {
  const sub = await createAuthority(join(made.path, 'sub'), { commonName: 'sub', signer: ca });
  const leaf = await serving('leaf', sub);
  const own = await listen(createServer(content(leaf)));
  const expected = fingerprint(leaf);
  const trusted = await prove({ port: own, expected, trust: trusting(sub, 'kubernetes') });
  expect(trusted).toMatchObject({ state: 'proven', verified: true });
  const other = await prove({ port: own, expected, trust: trusting(sub, 'kubernetes', '10.0.0.1') });
  expect(other).toMatchObject({ state: 'unproven', verified: false });
  expect(other.message).toContain('is not valid for "10.0.0.1"');
});

const serving = (name: string, signer: Pair): Promise<Pair> =>
  createLeaf(join(made.path, name), signer, {
    commonName: name,
    dnsNames: ['kubernetes'],
    usages: ['serverAuth'],
  });

/** The right certificate behind an intermediate CA, and how it is proven by the inventory. */
async function behind(name: string, options: Partial<AuthorityOptions>): Promise<ProofResult | undefined> {
  const sub = await createAuthority(join(made.path, name), { commonName: name, signer: ca, ...options });
  const leaf = await serving(`${name}-leaf`, sub);
  const cert = join(made.path, `${name}-chain.crt`);
  writeFileSync(cert, Buffer.concat([readFileSync(leaf.cert), readFileSync(sub.cert)]));
  const own = await listen(createServer({ ...content({ cert, key: leaf.key }), ciphers: 'DEFAULT@SECLEVEL=0' }));
  const pair = (file: Pair) => ({ kind: 'pemPair', certFile: file.cert, keyFile: file.key });
  const artefacts = [
    { name: 'ca', kind: 'signer', location: pair(ca), readers: [] },
    {
      name: 'apiserver',
      kind: 'target',
      issuer: 'ca',
      hostnames: ['kubernetes'],
      location: pair({ cert, key: leaf.key }),
      readers: [{ component: 'kube-apiserver', proof: { kind: 'served', serverName: 'kubernetes' } }],
    },
  ] as unknown as readonly ResolvedArtefact[];
  return proveServedHere(0, {
    resolved: { name: 'test', artefacts },
    store: createDiskStore(),
    connect: () => expect.unreachable(),
    apiServer: { host: '127.0.0.1', port: own },
    clock: systemClock,
    signal,
    hostName: 'node1',
  });
}

test.each<[string, Partial<AuthorityOptions>, RegExp]>([
  [
    'expired',
    { notBefore: new Date('2020-01-01T00:00:00Z'), notAfter: new Date('2021-01-01T00:00:00Z') },
    /expired at/,
  ],
  ['signed-with-sha1', { digest: 'sha1' }, /insecure hash/],
  ['constrained', { extensions: ['nameConstraints = critical,permitted;DNS:example.com'] }, /name constraints/],
])(
  'proveServedHere() gives no proof of the right certificate behind an intermediate that is %s',
  async (name, options, why) => {
    const proof = await behind(name, options);
    expect(proof?.message).toMatch(why);
    expect(proof?.state).toBe('unproven');
  },
);

test('proveServedHere() gives proof of one behind an intermediate that its readers take', async () => {
  expect(await behind('plain', {})).toMatchObject({ state: 'proven' });
});

test('proveServed() gives no proof of a port that nobody listens on', async () => {
  const closed = createPlainServer();
  const free = await listen(closed);
  await new Promise((resolve) => closed.close(resolve));
  expect(await prove({ port: free })).toMatchObject({
    state: 'unproven',
    message: expect.stringContaining('ECONNREFUSED'),
  });
});

test('proveServed() gives no proof of a server that closes, or says nothing in time', async () => {
  const closing = await listen(createPlainServer((socket) => socket.end()));
  expect((await prove({ port: closing })).state).toBe('unproven');
  const silent = await listen(createPlainServer((socket) => socket.unref()));
  const served = await prove({ port: silent, timeoutMs: 30 });
  expect(served).toMatchObject({ state: 'unproven', message: expect.stringContaining('none within 30 ms') });
});

test('proveServed() ends when the signal aborts', async () => {
  const silent = await listen(createPlainServer((socket) => socket.unref()));
  const stop = new AbortController();
  const pending = prove({ port: silent, timeoutMs: 3_600_000, signal: stop.signal });
  stop.abort();
  expect((await pending).message).toContain('given up before one came');
});
