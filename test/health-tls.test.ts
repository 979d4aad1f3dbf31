// Metrics for other machines: refused without a certificate of the CA, over real TLS; and in plain text for this machine alone.
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { get } from 'node:https';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../lib/clock.ts';
import { Health, keepServingHealth, serveHealth } from '../lib/health.ts';
import { createLog } from '../lib/log.ts';
import { createMetrics } from '../lib/metrics.ts';
import { createAuthority, createLeaf, type Pair } from './support/certificates/certificates.ts';
import { FakeClock } from './support/fake-clock.ts';

let directory: string;
let stop: AbortController;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'health-'));
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await rm(directory, { recursive: true, force: true });
});

const path = (name: string): string => join(directory, name);
const metrics = () => createMetrics({ clock: systemClock, version: '9', modes: [] });

const ask = (port: number, ca: Pair, client?: Pair): Promise<string> =>
  new Promise((resolve, reject) => {
    const own = client && { cert: readFileSync(client.cert), key: readFileSync(client.key) };
    const request = get({ port, path: '/metrics', ca: readFileSync(ca.cert), agent: false, ...own }, (response) =>
      resolve(text(response)),
    );
    request.on('error', reject);
  });

describe('serveHealth() over TLS', () => {
  it('answers clients of its CA, no others, and takes a new certificate within a minute', async () => {
    const [ca, other] = await Promise.all(
      ['ca', 'other'].map((commonName) => createAuthority(path(commonName), { commonName })),
    );
    const serving = { commonName: 'metrics', dnsNames: ['localhost'], usages: ['serverAuth'] } as const;
    const server = await createLeaf(path('server'), ca as Pair, serving);
    const client = await createLeaf(path('client'), ca as Pair, { commonName: 'prometheus' });
    const stranger = await createLeaf(path('stranger'), other as Pair, { commonName: 'prometheus' });
    const clock = new FakeClock(new Date());
    const tls = { certFile: server.cert, keyFile: server.key, clientCaFile: (ca as Pair).cert };
    const address = { host: '127.0.0.1', port: 0 };
    const options = { address, health: new Health(), metrics: await metrics(), tls, clock, signal: stop.signal };
    const { port, closed } = await serveHealth(options);
    expect(await ask(port, ca as Pair, client)).toContain('kube_cert_recovery_build_info{version="9"} 1');
    // TLS 1.3 lets a client finish its handshake before it is refused.
    await expect(ask(port, ca as Pair, stranger)).rejects.toThrow();
    await expect(ask(port, ca as Pair)).rejects.toThrow();
    await expect(fetch(`http://127.0.0.1:${port}/metrics`)).rejects.toThrow();
    await createLeaf(path('server'), other as Pair, serving);
    clock.advance(60_000);
    await expect.poll(() => ask(port, other as Pair, client).catch(() => '')).toContain('build_info');
    await expect(ask(port, ca as Pair, client)).rejects.toThrow();
    stop.abort();
    await closed;
  });

  it('keeps its certificate while only one of its two files is replaced, and takes both later', async () => {
    const ca = await createAuthority(path('ca'), { commonName: 'ca' });
    const other = await createAuthority(path('other'), { commonName: 'other' });
    const serving = { commonName: 'metrics', dnsNames: ['localhost'], usages: ['serverAuth'] } as const;
    const server = await createLeaf(path('server'), ca, serving);
    const next = await createLeaf(path('next'), other, serving);
    const client = await createLeaf(path('client'), ca, { commonName: 'prometheus' });
    const clock = new FakeClock(new Date());
    const tls = { certFile: server.cert, keyFile: server.key, clientCaFile: ca.cert };
    const address = { host: '127.0.0.1', port: 0 };
    const options = { address, health: new Health(), metrics: await metrics(), tls, clock, signal: stop.signal };
    const { port, closed } = await serveHealth(options);
    const passMinute = async (): Promise<void> => {
      await clock.waiting();
      clock.advance(60_000);
      await clock.waiting();
    };
    await copyFile(next.cert, server.cert);
    await passMinute();
    expect(await ask(port, ca, client)).toContain('build_info');
    await copyFile(next.key, server.key);
    await passMinute();
    expect(await ask(port, other, client)).toContain('build_info');
    stop.abort();
    await closed;
  });

  it.each([
    ['is emptied', () => ''],
    ['holds no certificate', () => 'CAs of clients\n'],
    ['is cut off', (whole: string) => whole.slice(0, 200)],
    ['is cut off in its last CA', (whole: string) => `${whole}${whole.slice(0, 200)}`],
    ['has a CA that is not whole', (whole: string) => `${whole}${whole.replace(/\n.{64}\n/, '\n')}`],
  ])('lets its clients in while the file of their CAs %s, and does not begin with it', async (_, change) => {
    const ca = await createAuthority(path('ca'), { commonName: 'ca' });
    const serving = { commonName: 'metrics', dnsNames: ['localhost'], usages: ['serverAuth'] } as const;
    const server = await createLeaf(path('server'), ca, serving);
    const client = await createLeaf(path('client'), ca, { commonName: 'prometheus' });
    const tls = { certFile: server.cert, keyFile: server.key, clientCaFile: path('clients-ca.crt') };
    const whole = readFileSync(ca.cert, 'utf8');
    await writeFile(tls.clientCaFile, whole);
    const clock = new FakeClock(new Date());
    const address = { host: '127.0.0.1', port: 0 };
    const lines: Record<string, unknown>[] = [];
    const log = createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
    const options = { address, health: new Health(), metrics: await metrics(), tls, clock, log, signal: stop.signal };
    const { port } = await serveHealth(options);
    await writeFile(tls.clientCaFile, change(whole));
    for (const logged of [0, 1, 1]) {
      await clock.waiting();
      clock.advance(60_000);
      await clock.waiting();
      expect(lines).toHaveLength(logged);
    }
    expect(lines[0]).toMatchObject({ event: 'health.failed', code: 'MaterialInvalid', attempt: 2 });
    expect(await ask(port, ca, client)).toContain('build_info');
    await expect(serveHealth(options)).rejects.toMatchObject({ code: 'MaterialInvalid' });
  });

  it('begins once its files are whole, and nothing waits for that', async () => {
    const ca = await createAuthority(path('ca'), { commonName: 'ca' });
    const [server, other] = await Promise.all(
      ['server', 'other'].map((commonName) => createLeaf(path(commonName), ca, { commonName })),
    );
    const tls = { certFile: path('cert'), keyFile: (server as Pair).key, clientCaFile: ca.cert };
    const lines: Record<string, unknown>[] = [];
    const log = createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
    const clock = new FakeClock();
    const address = { host: '127.0.0.1', port: 0 };
    const kept = await keepServingHealth({ address, health: new Health(), tls, clock, log, signal: stop.signal });
    expect(lines).toMatchObject([{ event: 'health.failed', code: 'MaterialInvalid', attempt: 1 }]);
    await copyFile((other as Pair).cert, tls.certFile);
    await clock.waiting();
    clock.advance(1000);
    await clock.waiting();
    expect(lines[1]).toMatchObject({ event: 'health.failed', code: 'MaterialInvalid', attempt: 2 });
    await copyFile((server as Pair).cert, tls.certFile);
    clock.advance(2000);
    await expect.poll(() => lines[2]).toMatchObject({ event: 'health.served', attempt: 3 });
    stop.abort();
    await kept.closed;
  });
});

it('serveHealth() in plain text shows metrics to this machine alone, and probes to all', async () => {
  const [own] = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.filter((one) => !one.internal && one.family === 'IPv4'),
  );
  expect(own, 'an address of this machine that is not loopback').toBeDefined();
  const address = { host: '', port: 0 };
  const options = { address, health: new Health(), metrics: await metrics(), clock: systemClock, signal: stop.signal };
  const { port } = await serveHealth(options);
  const statusOf = async (host = '', page = 'metrics') => (await fetch(`http://${host}:${port}/${page}`)).status;
  expect(await statusOf('127.0.0.1')).toBe(200);
  expect(await statusOf(own?.address)).toBe(403);
  expect(await statusOf(own?.address, 'livez')).toBe(200);
});
