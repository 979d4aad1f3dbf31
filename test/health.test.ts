import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../lib/clock.ts';
import { isCode } from '../lib/errors.ts';
import { Health, type HealthServer, keepServingHealth, serveHealth } from '../lib/health.ts';
import { createLog } from '../lib/log.ts';
import { createMetrics } from '../lib/metrics.ts';
import { eventually } from './support/eventually.ts';
import { FakeClock } from './support/fake-clock.ts';

let health: Health;
let stop: AbortController;
let server: HealthServer;

beforeEach(async () => {
  health = new Health();
  stop = new AbortController();
  const metrics = await createMetrics({ clock: systemClock, version: '9', modes: [] });
  server = await serveHealth({
    address: { host: '127.0.0.1', port: 0 },
    health,
    metrics,
    clock: systemClock,
    signal: stop.signal,
  });
});
afterEach(async () => {
  stop.abort();
  await server.closed;
});

async function ask(path: string, init?: RequestInit): Promise<{ status: number; body: string; response: Response }> {
  const response = await fetch(`http://127.0.0.1:${server.port}${path}`, init);
  return { status: response.status, body: await response.text(), response };
}

describe('probes', () => {
  test('all are ok when nothing is wrong', async () => {
    health.set('loop', { ok: true }, 'liveness');
    health.set('api', { ok: true, message: 'answered' });
    for (const path of ['/livez', '/readyz', '/healthz'])
      expect(await ask(path)).toMatchObject({ status: 200, body: 'ok' });
    expect((await ask('/readyz?verbose')).body).toBe(
      '[+]ping ok\n[+]loop ok\n[+]api ok: answered\nreadyz check passed\n',
    );
    expect((await ask('/livez?verbose=true')).body).toBe('[+]ping ok\n[+]loop ok\nlivez check passed\n');
  });

  test('a failing check of readiness fails /readyz only, and /healthz shows it', async () => {
    health.set('loop', { ok: true }, 'liveness');
    health.set('api', { ok: false, message: 'connection refused\n  at 127.0.0.1' });
    expect(await ask('/readyz')).toMatchObject({
      status: 500,
      body: '[+]ping ok\n[+]loop ok\n[-]api failed: connection refused at 127.0.0.1\nreadyz check failed\n',
    });
    expect(await ask('/livez')).toMatchObject({ status: 200, body: 'ok' });
    expect(await ask('/healthz?verbose')).toMatchObject({
      status: 200,
      body: '[+]ping ok\n[+]loop ok\n[-]api failed: connection refused at 127.0.0.1\nhealthz check passed\n',
    });
  });

  test('a failing check of liveness fails all three', async () => {
    health.set('loop', { ok: false, message: 'no pass for 5m' }, 'liveness');
    for (const page of ['livez', 'readyz', 'healthz']) {
      const body = `[+]ping ok\n[-]loop failed: no pass for 5m\n${page} check failed\n`;
      expect(await ask(`/${page}`)).toMatchObject({ status: 500, body });
    }
  });

  test('a check changes, and keeps its kind', async () => {
    health.set('loop', { ok: false }, 'liveness');
    health.set('loop', { ok: true });
    expect((await ask('/livez?verbose')).body).toContain('[+]loop ok\n');
    health.set('loop', { ok: false });
    expect((await ask('/livez')).status).toBe(500);
  });

  test('a check can be a question, asked at each request; one that throws has failed', async () => {
    let asked = 0;
    health.set('counted', () => ({ ok: (asked += 1) > 1 }));
    expect([(await ask('/readyz')).status, (await ask('/readyz')).status]).toEqual([500, 200]);
    health.set('broken', () => {
      throw new Error('boom');
    });
    expect((await ask('/readyz')).body).toContain('[-]broken failed: boom\n');
  });

  test('a message shows characters that a terminal would act on by their code points', async () => {
    health.set('bad', { ok: false, message: 'Node "\u001b[2J\u202e\u2028"' });
    expect((await ask('/readyz')).body).toContain('[-]bad failed: Node "\\u{1b}[2J\\u{202e} "\n');
  });

  test('a message never shows PEM', async () => {
    health.set('bad', {
      ok: false,
      message: 'got -----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY----- here',
    });
    expect((await ask('/readyz')).body).toContain('[-]bad failed: got [PEM removed] here\n');
  });
});

describe('serveHealth()', () => {
  test('/metrics shows the metrics', async () => {
    const { status, body, response } = await ask('/metrics');
    expect(status).toBe(200);
    expect(body).toContain('kube_cert_recovery_build_info{version="9"} 1\n');
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  });

  test('without metrics /metrics is not there', async () => {
    const own = new AbortController();
    const plain = await serveHealth({
      address: { host: '127.0.0.1', port: 0 },
      health,
      clock: systemClock,
      signal: own.signal,
    });
    expect((await fetch(`http://127.0.0.1:${plain.port}/metrics`)).status).toBe(404);
    own.abort();
    await plain.closed;
  });

  test.each(['/', '/livez/', '/livezz', '/healthz/x', '/../livez%00', '//livez'])('%s is 404', async (path) => {
    expect((await ask(path)).status).toBe(404);
  });

  test('HEAD has the headers of GET and no body; other methods are refused', async () => {
    const head = await ask('/livez', { method: 'HEAD' });
    expect([head.status, head.body, head.response.headers.get('content-length')]).toEqual([200, '', '2']);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const { status, response } = await ask('/livez', { method });
      expect([status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    }
  });

  /** What is answered to these bytes, sent in these pieces. */
  async function raw(...sent: readonly string[]): Promise<string> {
    const socket = connect({ port: server.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    let text = '';
    socket.on('data', (piece: Buffer) => (text += piece.toString()));
    const ended = once(socket, 'end');
    for (const piece of sent) await new Promise((resolve) => socket.write(piece, resolve));
    await ended;
    socket.destroy();
    return text;
  }
  const probe = 'GET /livez HTTP/1.1\r\nHost: a\r\n';

  test.each([
    ['HTTP/1.0 without a Host', ['GET /livez HTTP/1.0\r\n\r\n'], 200],
    ['HTTP/1.1 without a Host', ['GET /livez HTTP/1.1\r\n\r\n'], 400],
    [
      'a probe of the kubelet',
      [`${probe}User-Agent: kube-probe/1.35\r\nAccept: */*\r\nConnection: close\r\n\r\n`],
      200,
    ],
    ['a header in pieces', ['GET /li', 'vez HTTP/1.1\r', '\nhost:a\r\n', '\r', '\n'], 200],
    ['the largest header', [probe, `a: ${'b'.repeat(8192 - probe.length - 7)}`, '\r\n\r\n'], 200],
    ['one byte more', [probe, `a: ${'b'.repeat(8192 - probe.length - 6)}`, '\r\n\r\n'], 431],
    ['a body', [`POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody`], 405],
    ['what is no HTTP', ['hello\r\n\r\n'], 400],
    ['another version', ['GET /livez HTTP/2.0\r\nHost: a\r\n\r\n'], 400],
  ])('%s', async (_what, sent, status) => {
    const text = await raw(...sent);
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(text).toMatch(/\r\nconnection: close\r\n/);
  });

  test('a scrape that takes gzip is answered as it is', async () => {
    const headers = 'Accept: text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip\r\n';
    const text = await raw(`GET /metrics HTTP/1.1\r\nHost: a\r\n${headers}\r\n`);
    expect(text).toContain('kube_cert_recovery_build_info{version="9"} 1\n');
    expect(text).not.toMatch(/content-encoding/i);
  });

  test('ends with the signal, also when a client keeps its connection open', async () => {
    const idle = await new Promise<Socket>((resolve) => {
      const socket = connect(server.port, '127.0.0.1', () => resolve(socket));
    });
    const ended = new Promise<void>((resolve) => idle.once('close', () => resolve()));
    idle.on('error', () => undefined);
    idle.write('GET /livez HTTP/1.1\r\n');
    stop.abort();
    await Promise.all([server.closed, ended]);
    await expect(ask('/livez')).rejects.toThrow();
  });

  test('a signal that has come before ends it at once', async () => {
    const address = { host: '127.0.0.1', port: 0 };
    await (
      await serveHealth({ address, health, clock: systemClock, signal: AbortSignal.abort() })
    ).closed;
  });

  test('a port in use is AlreadyRunning', async () => {
    const address = { host: '127.0.0.1', port: server.port };
    const err: unknown = await serveHealth({ address, health, clock: systemClock, signal: stop.signal }).catch(
      (reason: unknown) => reason,
    );
    expect(isCode(err, 'AlreadyRunning')).toBe(true);
    expect((err as Error).message).toMatch(
      `Cannot listen on "127.0.0.1:${server.port}": another process listens there (\`ss -ltnp\` names it); stop it, or`,
    );
  });
});

describe('keepServingHealth()', () => {
  const address = () => ({ host: '127.0.0.1', port: server.port });

  test('tries a taken port again, ever more rarely, and serves when it is free', async () => {
    const clock = new FakeClock();
    const lines: Record<string, unknown>[] = [];
    const log = createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
    const own = new AbortController();
    const kept = await keepServingHealth({ address: address(), health, clock, log, signal: own.signal });
    const failures = () => lines.filter(({ event }) => event === 'health.failed');
    expect(failures()).toMatchObject([{ level: 'error', code: 'AlreadyRunning', attempt: 1 }]);
    const waits: number[] = [];
    for (let count = 2; count <= 9; count += 1) {
      await clock.waiting();
      waits.push(clock.nextWake ?? 0);
      clock.advance(clock.nextWake ?? 0);
      await eventually(() => expect(failures()).toHaveLength(count));
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);

    const { port } = server;
    stop.abort();
    await server.closed;
    await clock.waiting();
    clock.advance(60_000);
    await eventually(() => expect(lines.at(-1)).toMatchObject({ event: 'health.served', attempt: 10 }));
    expect(await (await fetch(`http://127.0.0.1:${port}/livez`)).text()).toBe('ok');
    own.abort();
    await kept.closed;
  });

  test('ends with the signal while it waits', async () => {
    const own = new AbortController();
    const log = createLog({ write: () => undefined });
    const kept = await keepServingHealth({
      address: address(),
      health,
      clock: new FakeClock(),
      log,
      signal: own.signal,
    });
    own.abort();
    await kept.closed;
  });

  test('refuses at once what waiting does not mend', async () => {
    const log = createLog({ write: () => undefined });
    const options = { address: { host: 'no such host', port: 1 }, health, clock: new FakeClock(), log };
    await expect(keepServingHealth({ ...options, signal: stop.signal })).rejects.toMatchObject({
      code: 'ConfigInvalid',
    });
  });
});

test('a hundred connections that ask nothing keep nobody else from an answer', async () => {
  const silent = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const socket = connect(server.port, '127.0.0.1');
      socket.on('error', () => {});
      await new Promise((resolve) => socket.once('connect', resolve));
      return socket;
    }),
  );
  try {
    for (let turn = 0; turn < 5; turn += 1) expect(await ask('/livez')).toMatchObject({ status: 200, body: 'ok' });
    await eventually(() => expect(silent.filter(({ destroyed }) => !destroyed).length).toBeLessThanOrEqual(64));
  } finally {
    for (const socket of silent) socket.destroy();
  }
});
