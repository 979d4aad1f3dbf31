// Servers that break off: in the middle of a connection, as one that was reset at that moment seems to, or of an answer.
import { createSecureServer, type Http2SecureServer, type ServerHttp2Stream } from 'node:http2';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

let directory: string;
let tls: { readonly cert: Buffer; readonly key: Buffer };
let authority: Awaited<ReturnType<typeof createAuthority>>;
let connection: KubeConnection | undefined;
let server: Server | Http2SecureServer;
let sockets: { destroy(): unknown }[];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'exchange-'));
  sockets = [];
  authority = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  const leaf = await createLeaf(join(directory, 'leaf'), authority, {
    commonName: 'kube-apiserver',
    ipAddresses: ['127.0.0.1'],
    usages: ['serverAuth'],
  });
  tls = { cert: readFileSync(leaf.cert), key: readFileSync(leaf.key) };
});
afterEach(async () => {
  await connection?.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
  rmSync(directory, { recursive: true });
});

/** The first event of a watch of this server, or why there is none. */
async function firstEvent(connectTimeoutMs = 60_000): Promise<unknown> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const kubeconfigFile = await writeKubeconfig(join(directory, 'kubeconfig'), {
    server: `https://127.0.0.1:${port}`,
    certificateAuthority: authority.cert,
    token: 'abc',
  });
  connection = await openConnection({
    kubeconfigFile,
    userAgent: 'test',
    clock: systemClock,
    connectTimeoutMs,
    // Else silence would be noticed by unanswered PINGs, and hide what this is about.
    pingMs: 600_000,
  });
  const watch = connection.watch('/api/v1/namespaces/n/secrets?watch=true', {
    silenceMs: 600_000,
    signal: new AbortController().signal,
  });
  return watch[Symbol.asyncIterator]().next();
}

it('a connection on which no SETTINGS come fails after the time for connecting, for a watch too', async () => {
  server = createServer({ ...tls, ALPNProtocols: ['h2'] }, (socket) => {
    sockets.push(socket.on('error', () => undefined));
  });
  await expect(firstEvent(2000)).rejects.toMatchObject({
    code: 'KubeUnavailable',
    message: expect.stringContaining('the server said nothing for 2000 ms after the connection was opened'),
  });
});

it.each([
  ['WatchExpired', 410],
  ['KubeForbidden', 403],
])('a refusal of a watch that is cut off is %s all the same', async (code, status) => {
  const refusing = createSecureServer(tls);
  refusing.on('session', (session) => sockets.push(session));
  refusing.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': status, 'content-type': 'application/json' });
    stream.write('{"kind":"Status","mess', () => stream.session?.socket.destroy());
  });
  server = refusing;
  await expect(firstEvent()).rejects.toMatchObject({ code });
});

it('a refusal of a watch that has no end is not read to it', async () => {
  const refusing = createSecureServer(tls);
  refusing.on('session', (session) => sockets.push(session));
  refusing.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 503, 'content-type': 'application/json' });
    stream.write('x'.repeat(70_000));
  });
  server = refusing;
  await expect(firstEvent()).rejects.toMatchObject({ code: 'KubeUnavailable' });
});

it('an event of a watch that has no end is not read to it', async () => {
  const telling = createSecureServer(tls);
  telling.on('session', (session) => sockets.push(session));
  telling.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/json' });
    stream.write(`{"type":"ADDED","object":{"kind":"${'x'.repeat(1_100_000)}`);
  });
  server = telling;
  await expect(firstEvent()).rejects.toMatchObject({ code: 'KubeUnavailable', details: { tooLarge: true } });
});
