// The kubelet as a source of its own names: whom it asks, and how often it asks one that does not answer.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer as createPlainServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServedNames } from '../../lib/approver/served-names.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { FakeClock } from '../support/fake-clock.ts';

let root: string;
let ca: Pair;
const servers: Server[] = [];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'served-names-'));
  ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
});
afterAll(async () => {
  for (const server of servers) server.close();
  await rm(root, { recursive: true, force: true });
});

async function listen(server: Server): Promise<number> {
  servers.push(server.listen({ port: 0, host: '127.0.0.1' }));
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** One that ends each connection at once. */
const refusing = (onCall: () => void): Server =>
  createPlainServer((socket) => {
    onCall();
    socket.destroy();
  });

function sourceAt(now: Date): { source: ServedNames; clock: FakeClock } {
  const clock = new FakeClock(now, 100);
  const options = {
    connection: {} as KubeConnection,
    log: createLog({ write: () => undefined }),
    signal: new AbortController().signal,
    clock,
  };
  return { source: new ServedNames('served', { kind: 'served', caFile: ca.cert }, options), clock };
}

const questionAt = (port: number, address = '127.0.0.1', asked = '127.0.0.1') => ({
  node: 'panda',
  object: { status: { addresses: [{ address }], daemonEndpoints: { kubeletEndpoint: { Port: port } } } },
  asked: [{ kind: 'IP', value: asked }] as const,
});

describe('ServedNames', () => {
  it('has the names of the certificate while that is valid', async () => {
    const { cert, key } = await createLeaf(join(root, 'leaf'), ca, {
      commonName: 'system:node:panda',
      organization: 'system:nodes',
      dnsNames: ['panda.internal'],
      ipAddresses: ['127.0.0.1'],
      usages: ['serverAuth'],
      notAfter: new Date(Date.now() + 60_000),
    });
    const port = await listen(createServer({ cert: readFileSync(cert), key: readFileSync(key) }));
    const own = ['127.0.0.1', 'panda.internal'];
    expect(await sourceAt(new Date()).source.answer(questionAt(port))).toEqual({ source: 'served', own });
    const after = sourceAt(new Date(Date.now() + 61_000));
    expect(await after.source.answer(questionAt(port))).toEqual({ source: 'served', own: undefined });
  });

  it('asks nobody at an address that is not in the request, or not in the status', async () => {
    let calls = 0;
    const port = await listen(refusing(() => (calls += 1)));
    const { source } = sourceAt(new Date());
    await source.answer(questionAt(port, '127.0.0.1', '127.0.0.2'));
    await source.answer(questionAt(port, '192.0.2.1', '127.0.0.1'));
    await source.answer(questionAt(port, 'localhost', '127.0.0.1'));
    expect(calls).toBe(0);
  });

  it('waits for four in a pass that do not answer, and asks the others in a later one', async () => {
    const port = await listen(refusing(() => clock.advance(2000)));
    const { source, clock } = sourceAt(new Date());
    const ask = (at: number) => source.answer({ ...questionAt(port), node: `node-${at}` });
    for (let at = 0; at < 4; at += 1) expect(await ask(at)).toMatchObject({ own: undefined });
    await expect(ask(4)).rejects.toThrow('others have answered late or not at all');
    expect(await ask(0)).toMatchObject({ own: undefined }); // known not to answer: nobody waits for it
    source.begin();
    expect(await ask(4)).toMatchObject({ own: undefined });
  });

  it('waits once in a pass for a node that answers late, however many requests it makes', async () => {
    const { cert, key } = await createLeaf(join(root, 'late'), ca, { commonName: 'late', ipAddresses: ['127.0.0.1'] });
    let calls = 0;
    const { source, clock } = sourceAt(new Date());
    const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) });
    server.on('connection', () => {
      calls += 1;
      clock.advance(1900);
    });
    const port = await listen(server);
    for (let at = 0; at < 20; at += 1) expect(await source.answer(questionAt(port))).toMatchObject({ own: undefined });
    expect(calls).toBe(1);
    const others = async (): Promise<number> => {
      let asked = 0;
      for (let at = 0; at < 20; at += 1) {
        await source.answer({ ...questionAt(port), node: `late-${at}` }).then(
          () => (asked += 1),
          () => undefined,
        );
      }
      return asked;
    };
    expect(await others()).toBeLessThan(5);
    source.begin();
    expect(await others()).toBeLessThan(6);
  });

  it('leaves a node that did not answer alone for a while', async () => {
    let calls = 0;
    const port = await listen(refusing(() => (calls += 1)));
    const { source, clock } = sourceAt(new Date());
    for (let at = 0; at < 3; at += 1) await source.answer(questionAt(port));
    expect(calls).toBe(1);
    await source.answer({ ...questionAt(port), node: 'lion' });
    expect(calls).toBe(2);
    clock.advance(20_000);
    source.begin();
    await source.answer(questionAt(port));
    expect(calls).toBe(3);
  });
});
