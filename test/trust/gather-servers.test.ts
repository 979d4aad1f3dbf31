import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import type { Clock } from '../../lib/clock.ts';
import { meetAll } from '../../lib/trust/gather-servers.ts';

let server: Server | undefined;
afterEach(() => void server?.close());

it('meets some servers at a time, and gives up those that would come after a minute', async () => {
  let [connected, atOnce, seconds] = [0, 0, 0];
  const waiting: (() => void)[] = [];
  server = createServer((socket) => {
    connected += 1;
    socket.on('error', () => undefined);
    // All of one round have come, and none is answered: the time of each is over.
    if (connected % 20 === 0) for (const end of waiting.splice(0)) end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const clock: Clock = {
    now: () => new Date(0),
    uptimeSeconds: () => seconds,
    sleep: (ms) =>
      new Promise((done) => {
        atOnce = Math.max(atOnce, waiting.push(done));
        if (waiting.length === 20) seconds += (2 * ms) / 1000; // a round takes 6 s
      }),
  };
  const names = Array.from({ length: 240 }, (_, at) => `server ${at}`);
  const servers = names.map((name) => ({ id: 'R3' as const, name, hostname: 'a', host: '127.0.0.1', port }));
  const met = await meetAll(servers, { clock, signal: new AbortController().signal });
  expect([...met.keys()]).toEqual(names);
  expect(met.get('server 199')?.unread).toBe('is not verified: no answer (none within 3000 ms)');
  expect(met.get('server 200')?.unread).toBe('is not verified: others were too slow');
  expect([connected, atOnce]).toEqual([200, 20]);
});
