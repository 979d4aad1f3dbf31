// What /readyz of a container of ours says, asked of the server that answers there.
import { createServer, type Server } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { askReady } from '../../lib/adopt/container-state.ts';
import { systemClock } from '../../lib/clock.ts';
import { Health, type HealthServer, serveHealth } from '../../lib/health.ts';

const { signal } = new AbortController();
let health: Health;
let server: HealthServer;
let end: AbortController;
beforeEach(async () => {
  end = new AbortController();
  health = new Health();
  server = await serveHealth({
    address: { host: '127.0.0.1', port: 0 },
    health,
    clock: systemClock,
    signal: end.signal,
  });
});
afterEach(async () => {
  end.abort();
  await server.closed;
});

const ask = (): Promise<string | undefined> => askReady(server.port, signal);

test('askReady() has nothing to say of a container that is ready', async () => {
  health.set('syncer', { ok: true, message: 'all there' });
  expect(await ask()).toBeUndefined();
});

test('askReady() says which checks have failed, and why', async () => {
  health.set('syncer', { ok: true });
  health.set('regen', { ok: false, message: 'nothing has been looked at yet' });
  health.set('approver', { ok: false });
  const url = `http://127.0.0.1:${server.port}/readyz`;
  expect(await ask()).toBe(`${url} answers 500: regen failed: nothing has been looked at yet; approver failed`);
});

test('askReady() says that nobody answers', async () => {
  end.abort();
  await server.closed;
  expect(await ask()).toMatch(/readyz does not answer: .*ECONNREFUSED/);
});

test('askReady() does not wait for ever, and ends with the signal', async () => {
  const silent: Server = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const { port } = silent.address() as { port: number };
  const stop = new AbortController();
  const asked = askReady(port, stop.signal);
  silent.once('connection', () => stop.abort());
  expect(await asked).toMatch(/does not answer: /);
  silent.close();
});
