// Proofs against a real TLS server that chooses its certificate by name, as kube-apiserver does.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer as createPlainServer, type AddressInfo, type Server } from 'node:net';
import { createSecureContext, createServer } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { proveServed, type ServedOptions } from '../../lib/proof/served.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
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

test('proveServed() says whether the chain verifies, when it is told what to trust', async () => {
  const trust = readFileSync(ca.cert, 'utf8');
  const expected = fingerprint(byDefault);
  expect((await prove({ expected, serverName: 'kubernetes' })).verified).toBeUndefined();
  expect(await prove({ expected, trust: readFileSync(byName.cert, 'utf8') })).toMatchObject({ verified: false });
  const served = await prove({ serverName: 'localhost-recovery', expected: fingerprint(byName), trust });
  expect(served).toMatchObject({
    state: 'proven',
    verified: false,
    message: expect.stringContaining('CERT_HAS_EXPIRED'),
  });
});

test('proveServed() trusts a CA that is not self-signed, as Go does', async () => {
  const sub = await createAuthority(join(made.path, 'sub'), { commonName: 'sub', signer: ca });
  const leaf = await createLeaf(join(made.path, 'leaf'), sub, {
    commonName: 'leaf',
    dnsNames: ['kubernetes'],
    usages: ['serverAuth'],
  });
  const own = await listen(createServer(content(leaf)));
  const trust = readFileSync(sub.cert, 'utf8');
  expect(await prove({ port: own, expected: fingerprint(leaf), trust })).toMatchObject({ verified: true });
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
  expect((await pending).message).toContain('the process stops');
});
