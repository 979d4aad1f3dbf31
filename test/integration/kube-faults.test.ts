// A named object is followed under every fault of the proxy: what happened to it during the fault is reported in the
// end, and "absent" only when it is.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listWatch, type WatchStatus } from '../../lib/kube/list-watch.ts';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { Breakers } from '../../lib/kube/circuit-breaker.ts';
import type { ConfigMap, KubeConnection } from '../../lib/kube/kube.ts';
import { namedListPath } from '../../lib/kube/objects.ts';
import { createLog } from '../../lib/log.ts';
import { startControlPlane } from '../support/cluster/control-plane.ts';
import type { ControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { startFaultProxy } from '../support/faults/fault-proxy.ts';
import type { Fault, FaultProxy } from '../support/faults/fault-proxy.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

const configMaps = '/api/v1/namespaces/default/configmaps';
const serverName = 'localhost-recovery';

let cp: ControlPlane;
let directory: string;

beforeAll(async () => {
  cp = await startControlPlane();
  directory = await mkdtemp(join(tmpdir(), 'kube-faults-'));
});
afterAll(async () => {
  await cp[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

const statuses = [401, 403, 409, 410, 429, 500, 503];
const faults: readonly [string, Fault][] = [
  ['refused', { kind: 'refused' }],
  ['no route to host', { kind: 'noRoute' }],
  ['reset', { kind: 'reset' }],
  ['EOF', { kind: 'eof' }],
  ['stall', { kind: 'stall' }],
  ['GOAWAY', { kind: 'goAway' }],
  ['GOAWAY with an error', { kind: 'goAway', code: 2 }],
  ['unexpected EOF of the connection', { kind: 'unexpectedEof' }],
  ['unexpected EOF of the stream', { kind: 'unexpectedEof', of: 'stream' }],
  ['a lost answer', { kind: 'loseAnswer' }],
  ['a line that is no JSON', { kind: 'garbage' }],
  ['watches ended by the server', { kind: 'endWatch' }],
  ['410 as an event', { kind: 'expiredEvent' }],
  ['slow', { kind: 'slow', delayMs: 150 }],
  ...statuses.map((status): [string, Fault] => [`${status}`, { kind: 'status', status, endWatches: true }]),
  ['429 with Retry-After', { kind: 'status', status: 429, retryAfter: 1, times: 2, endWatches: true }],
];

/** A list and watch of one ConfigMap through a proxy of its own, and what it said. */
class Subject implements AsyncDisposable {
  readonly name: string;
  readonly proxy: FaultProxy;
  readonly connection: KubeConnection;
  /** The value of each present state, "absent" for the others. */
  readonly states: string[] = [];
  readonly phases: WatchStatus[] = [];
  readonly #stop = new AbortController();
  #done: Promise<void> = Promise.resolve();

  constructor(name: string, proxy: FaultProxy, connection: KubeConnection) {
    this.name = name;
    this.proxy = proxy;
    this.connection = connection;
  }

  start(): void {
    const add = (object: ConfigMap | undefined): void =>
      void this.states.push(object === undefined ? 'absent' : (object.data?.['value'] ?? ''));
    this.#done = listWatch<ConfigMap>({
      connection: this.connection,
      path: namedListPath({ kind: 'configMap', namespace: 'default', name: this.name }),
      onList: ([object]) => add(object),
      onEvent: (type, object) => add(type === 'DELETED' ? undefined : object),
      onStatus: (status) => this.phases.push(status),
      clock: systemClock,
      log: createLog({ write: () => undefined }),
      signal: this.#stop.signal,
    });
  }

  async set(value: string): Promise<void> {
    const body = { metadata: { name: this.name }, data: { value } };
    const { status } = await cp.admin(`${configMaps}/${this.name}`, { method: 'PATCH', body });
    if (status === 404) await cp.admin(configMaps, { method: 'POST', body });
  }

  async remove(): Promise<void> {
    await cp.admin(`${configMaps}/${this.name}`, { method: 'DELETE' });
  }

  seen(state: string): Promise<void> {
    return eventually(() => expect(this.states.at(-1)).toBe(state), { everyMs: 10 });
  }

  /** How many of them reached the proxy. */
  requests(verb: 'list' | 'watch'): number {
    return this.proxy.seen.filter(({ path }) => path.includes('watch=true') === (verb === 'watch')).length;
  }

  /** Until the watch has met the fault, or has learned of the change in spite of it. */
  async metFault(change: string, from: number): Promise<void> {
    await eventually(
      () => {
        const met = this.phases.slice(from).some(({ phase }) => phase === 'waiting' || phase === 'listing');
        expect(met || this.states.at(-1) === change).toBe(true);
      },
      { everyMs: 10 },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#done;
    await this.connection.close();
    await this.proxy.close();
  }
}

let subjects = 0;
/** `pingMs`: so that a connection which has died is noticed at once. */
async function subject(pingMs = 100): Promise<Subject> {
  const name = `object-${(subjects += 1)}`;
  const proxy = await startFaultProxy({ target: { port: cp.port, caFile: cp.recoveryCa, serverName } });
  const kubeconfigFile = await writeKubeconfig(join(directory, name), {
    server: proxy.url,
    certificateAuthority: proxy.ca,
    tlsServerName: serverName,
    token: cp.adminToken,
  });
  const limits = { pingMs, connectTimeoutMs: 500 };
  const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test', ...limits });
  return new Subject(name, proxy, connection);
}

describe('listWatch() of a named object', () => {
  it.each(faults)('reports an update, a deletion and a creation that happened during: %s', async (_, fault) => {
    await using watched = await subject();
    await watched.set('one');
    watched.start();
    await watched.seen('one');
    for (const change of ['two', 'absent', 'three']) {
      const from = watched.phases.length;
      await watched.proxy.inject(fault);
      if (change === 'absent') await watched.remove();
      else await watched.set(change);
      await watched.metFault(change, from);
      await watched.proxy.clear();
      await watched.seen(change);
    }
    const distinct = watched.states.filter((state, index) => state !== watched.states[index - 1]);
    expect(distinct).toEqual(['one', 'two', 'absent', 'three']);
  });

  it.each(faults)('starts during: %s', async (_, fault) => {
    await using watched = await subject();
    await watched.set('one');
    await watched.proxy.inject(fault);
    watched.start();
    await watched.metFault('one', 1);
    await watched.set('two');
    await watched.proxy.clear();
    await watched.seen('two');
    expect(watched.states).not.toContain('absent');
  });

  it('asks an API server that is starting every 100 ms to 1 s, and says why it waits', async () => {
    await using watched = await subject();
    await watched.proxy.inject({ kind: 'status', status: 403 });
    watched.start();
    await eventually(() => expect(watched.proxy.seen.length).toBeGreaterThan(6));
    const waits = watched.phases.filter((status) => status.phase === 'waiting');
    expect(waits[0]).toMatchObject({
      lastProgress: undefined,
      message: expect.stringMatching(/403 Forbidden/),
    });
    expect(watched.states).toEqual([]);
    await watched.proxy.clear();
    await watched.seen('absent');
    expect(watched.phases.at(-1)?.lastProgress).toBeInstanceOf(Date);
  });

  it('goes on from the last version, without a list, when the server ends a watch', async () => {
    // A busy machine loses no connection meanwhile.
    await using watched = await subject(10_000);
    await watched.set('one');
    watched.start();
    await watched.seen('one');
    await watched.set('two');
    await watched.seen('two');
    await watched.proxy.inject({ kind: 'endWatch', times: 1 });
    await eventually(() => expect(watched.requests('watch')).toBe(2));
    await watched.set('three');
    await watched.seen('three');
    expect(watched.requests('list')).toBe(1);
    expect(watched.states).toEqual(['one', 'two', 'three']);
  });

  it.each<[string, Fault]>([
    ['410 as an event', { kind: 'expiredEvent', times: 1 }],
    ['410 as an answer', { kind: 'status', status: 410, times: 1, endWatches: true }],
    ['a lost connection', { kind: 'reset' }],
    ['a stream cut off', { kind: 'unexpectedEof', of: 'stream', times: 1 }],
  ])('lists again after: %s', async (_, fault) => {
    await using watched = await subject();
    await watched.set('one');
    watched.start();
    await eventually(() => expect(watched.requests('watch')).toBe(1));
    await watched.proxy.inject(fault);
    await watched.set('two');
    await eventually(() => expect(watched.phases.filter(({ phase }) => phase === 'listing').length).toBeGreaterThan(1));
    await watched.proxy.clear();
    await watched.seen('two');
    await eventually(() => expect(watched.requests('list')).toBeGreaterThan(1));
  });

  it('finds the object again after the API server lost its power', async () => {
    await using watched = await subject();
    await watched.set('one');
    watched.start();
    await watched.seen('one');
    await cp.kill();
    await cp.start();
    await watched.set('two');
    await watched.seen('two');
    expect(watched.states).not.toContain('absent');
  });
});

describe('an API server that', () => {
  /** Two connections of one process, as two modes have them, with fourteen watches. */
  async function watched(count: number): Promise<{ proxy: FaultProxy; watchers: Subject[] }> {
    const target = { port: cp.port, caFile: cp.recoveryCa, serverName };
    const proxy = await startFaultProxy({ target });
    const kubeconfigFile = await writeKubeconfig(join(directory, `shared-${randomUUID()}`), {
      server: proxy.url,
      certificateAuthority: proxy.ca,
      tlsServerName: serverName,
      token: cp.adminToken,
    });
    const breakers = new Breakers(systemClock);
    const open = (): Promise<KubeConnection> =>
      openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test', breakers });
    const connections = await Promise.all([open(), open()]);
    const watchers = Array.from({ length: count }, (_, index) => {
      const connection = connections[index % 2] as KubeConnection;
      return new Subject(`shared-${index}-${randomUUID()}`, proxy, connection);
    });
    for (const watcher of watchers) watcher.start();
    await Promise.all(watchers.map((watcher) => watcher.seen('absent')));
    return { proxy, watchers };
  }
  const end = (watchers: readonly Subject[]): Promise<unknown> =>
    Promise.all(watchers.map((watcher) => watcher[Symbol.asyncDispose]()));

  it('is away is tried five times a second by all together, and all notice that it is back', async () => {
    const { proxy, watchers } = await watched(14);
    const from = proxy.connections.accepted;
    const began = performance.now();
    await proxy.inject({ kind: 'reset' });
    await delay(3000);
    for (const watcher of watchers) await watcher.set('new');
    const attempts = proxy.connections.accepted - from;
    const seconds = (performance.now() - began) / 1000;
    await proxy.clear();
    await Promise.all(watchers.map((watcher) => watcher.seen('new')));
    // Beside one in 200 ms what was under way when it went: each connection has a line for watches and one for requests.
    expect(attempts).toBeGreaterThan(1);
    expect(attempts).toBeLessThanOrEqual(5 * seconds + 6);
    await end(watchers);
  });

  it('asks for patience gets it, from all', async () => {
    const { proxy, watchers } = await watched(14);
    const from = proxy.seen.length;
    await proxy.inject({ kind: 'status', status: 429, retryAfter: 2, endWatches: true });
    const began = performance.now();
    await delay(5000);
    const asked = proxy.seen.length - from;
    const seconds = (performance.now() - began) / 1000;
    await proxy.clear();
    for (const watcher of watchers) await watcher.set('new');
    await Promise.all(watchers.map((watcher) => watcher.seen('new')));
    // All watches begin again when they are ended; after that one asks each two seconds.
    expect(asked).toBeLessThanOrEqual(28 + seconds);
    await end(watchers);
  });
});
