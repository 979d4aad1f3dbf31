import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:tls';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { RunState } from '../../lib/host/state.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import type { Component } from '../../lib/restart/decide.ts';
import {
  isDue,
  loadPending,
  proveAll,
  proveUse,
  type ProvingOptions,
  waitForApi,
} from '../../lib/restart/pending-proofs.ts';
import { createLeaf, createAuthority, type Pair } from '../support/certificates/certificates.ts';
import { freePorts } from '../support/cluster/ports.ts';

let directory: string;
let serving: Pair;
let kubelet: Pair;
let server: Server;
let lines: string[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'prove-'));
  const ca = await createAuthority(join(directory, 'ca'), { commonName: 'kubernetes' });
  serving = await createLeaf(join(directory, 'serving'), ca, { commonName: 'kube-apiserver' });
  kubelet = await createLeaf(join(directory, 'kubelet'), ca, {
    commonName: 'system:node:node1',
    organization: 'system:nodes',
  });
  server = createServer({ cert: readFileSync(serving.cert), key: readFileSync(serving.key) });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server?.close();
  await rm(directory, { recursive: true, force: true });
});

/** Its time goes by in sleeps alone, so that a minute costs nothing. */
function quickClock(): Clock {
  let now = systemClock.now().getTime();
  return {
    now: () => new Date(now),
    uptimeSeconds: () => undefined,
    sleep: async (ms, signal) => {
      if (ms > 1000) return systemClock.sleep(ms, signal); // the limit of a handshake is real
      now += ms;
    },
  };
}

const artefact = (name: string, more: object): ResolvedArtefact =>
  ({ name, kind: 'target', hostnames: [], ...more }) as unknown as ResolvedArtefact;

function options(more: Partial<ProvingOptions> = {}): ProvingOptions {
  lines = [];
  const { port } = server.address() as AddressInfo;
  const resolved: Resolved = {
    name: 'kubeadm',
    artefacts: [
      artefact('apiserver', {
        location: { kind: 'pemPair', certFile: serving.cert, keyFile: serving.key },
        readers: [
          { component: 'kube-apiserver', needs: 'nothing', proof: { kind: 'served', serverName: 'kubernetes' } },
        ],
      }),
      artefact('kubelet.conf', {
        location: { kind: 'kubeconfig', file: '/kubelet.conf', endpoint: 'local' },
        readers: [{ component: 'kubelet', needs: 'restart', proof: { kind: 'none' } }],
      }),
    ],
  };
  return {
    resolved,
    components: [component],
    store: {
      read: async () => ({ version: '1', entries: { 'tls.crt': readFileSync(kubelet.cert) }, annotations: {} }),
    },
    apiServer: { host: '127.0.0.1', port },
    connect: async () => Promise.reject(new RecoveryError('KubeUnavailable', 'nobody is there')),
    hostName: 'host1',
    clock: quickClock(),
    log: createLog({ write: (line) => lines.push(line) }),
    signal: AbortSignal.timeout(30_000),
    ...more,
  };
}

const component: Component = {
  name: 'kubelet',
  file: '/kubelet.conf',
  artefacts: ['kubelet.conf'],
  locations: [],
  isService: false,
};

const since = systemClock.now();
const apiServer = { name: 'kube-apiserver', since };
const messages = async (...of: Parameters<typeof proveUse>): Promise<readonly string[]> =>
  (await proveUse(...of)).map(({ message }) => message);

describe('proveUse()', () => {
  it('is content when what is on disk is served', async () => {
    expect(await messages([apiServer], options())).toEqual([]);
    expect(lines.join('')).toContain('"event":"proof.succeeded"');
  });

  it('says after a minute what is not served', async () => {
    const [port = 0] = await freePorts(1);
    const given = options({ apiServer: { host: '127.0.0.1', port } });
    const began = given.clock.now().getTime();
    expect(await messages([apiServer], given)).toEqual([expect.stringMatching(/^kube-apiserver: No TLS answer for/)]);
    expect(given.clock.now().getTime() - began).toBeGreaterThanOrEqual(60_000);
    expect(lines.join('')).toContain('"event":"proof.missing"');
  });

  it('waits for nothing of a component that elects no leader, and so renews no Lease', async () => {
    const scheduler = artefact('scheduler.conf', {
      location: { kind: 'kubeconfig', file: '/scheduler.conf', endpoint: 'local' },
      commonName: 'system:kube-scheduler',
      readers: [{ component: 'kube-scheduler', needs: 'restart', proof: { kind: 'none' } }],
    });
    const { resolved } = options();
    const given = options({
      resolved: { ...resolved, artefacts: [...resolved.artefacts, scheduler] },
      components: [component, { ...component, name: 'kube-scheduler', file: '/scheduler.conf' }],
    });
    const began = given.clock.now().getTime();
    expect(await messages([{ name: 'kube-scheduler', since }], given)).toEqual([]);
    expect(given.clock.now().getTime() - began).toBeLessThan(60_000);
  });

  it('is not content with an identity that nobody accepts', async () => {
    expect(await messages([{ name: 'kubelet', since }], options())).toEqual(['kubelet: nobody is there']);
  });
});

describe('proveAll()', () => {
  let lockDir: string;
  beforeEach(async () => {
    lockDir = await mkdtemp(join(directory, 'lock-'));
  });
  const told: string[] = [];
  const notes = (boot = 'this') => ({
    state: new RunState(lockDir, { boot }),
    onFailed: ({ message }: RecoveryError) => void told.push(message),
  });
  const kubelets = { name: 'kubelet', since };
  const at = (ms: number): Clock => {
    const clock = quickClock();
    return { ...clock, now: () => new Date(clock.now().getTime() + ms) };
  };

  it('stays failed in the passes after, without asking each time, until it is proven', async () => {
    const asked = vi.fn(async () => Promise.reject(new RecoveryError('KubeUnavailable', 'nobody is there')));
    const failing = (ms: number) => options({ connect: asked, clock: at(ms) });
    expect(await proveAll([apiServer, kubelets], notes(), failing(0))).toEqual(['kubelet: nobody is there']);
    const before = asked.mock.calls.length;
    expect(before).toBeGreaterThan(1);
    // The next pass of the timer has nothing to renew, and nothing that was restarted.
    expect(await proveAll([], notes(), failing(1000))).toEqual(['kubelet: nobody is there']);
    expect(asked.mock.calls.length).toBe(before);
    expect(await proveAll([], notes(), failing(120_000))).toEqual(['kubelet: nobody is there']);
    expect(asked.mock.calls.length).toBeGreaterThan(before);
    // The API server was proven at once and is not asked for again; a proven kubelet is no failure any more.
    const lease = { spec: { holderIdentity: 'node1', renewTime: new Date(since.getTime() + 600_500).toISOString() } };
    const connection = { request: async () => lease, close: async () => undefined } as unknown as KubeConnection;
    const working = options({ connect: async () => connection, clock: at(601_000) });
    expect(await proveAll([], notes(), working)).toEqual([]);
    expect(lines.join('')).toMatch(/"component":"kubelet".*"event":"proof\.succeeded"/);
    expect(await loadPending(notes().state)).toEqual([]);
    expect(await proveAll([], notes(), failing(9_000_000))).toEqual([]);
    expect(told).toEqual([]);
  });

  it('leaves a note before it asks, which the next pass completes', async () => {
    const ended = options({ connect: () => new Promise<never>(() => undefined) });
    void proveAll([kubelets], notes(), ended);
    await vi.waitFor(async () => expect(await loadPending(notes().state)).toHaveLength(1), { timeout: 30_000 });
    expect(await proveAll([], notes(), options())).toEqual(['kubelet: its use has not been proven yet']);
    expect(await loadPending(notes('another boot').state)).toEqual([]);
  });

  it('does not count a proof that is cut short, and logs none, so that the next pass asks again', async () => {
    const asked = vi.fn(async () => Promise.reject(new RecoveryError('KubeUnavailable', 'nobody is there')));
    await proveAll([kubelets], notes(), options({ connect: asked }));
    const [former] = await loadPending(notes().state);
    const cut = new AbortController();
    const connect = async () => {
      cut.abort();
      throw new RecoveryError('KubeUnavailable', 'no time for it');
    };
    const notYet = 'kubelet: its use has not been proven yet';
    const proving = options({ connect, clock: at(120_000), signal: cut.signal });
    expect(await proveAll([], notes(), proving)).toEqual([notYet]);
    expect(lines).toEqual([]);
    expect(await loadPending(notes().state)).toEqual([{ ...former, message: notYet }]);
    const before = asked.mock.calls.length;
    await proveAll([], notes(), options({ connect: asked, clock: at(120_000) }));
    expect(asked.mock.calls.length).toBeGreaterThan(before);
  });

  it('asks at growing distances, an hour at most, and at once after a clock was set back', () => {
    const askedAt = new Date(0);
    const distance = (attempts: number): number => {
      for (let minutes = 0; ; minutes += 1)
        if (isDue({ askedAt, attempts }, new Date(minutes * 60_000))) return minutes;
    };
    expect([1, 2, 3, 4, 5, 6, 7, 8, 40].map(distance)).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
    expect(isDue({ askedAt: new Date(1000), attempts: 9 }, new Date(0))).toBe(true);
  });
});

it('waitForApi() waits half a minute at most', async () => {
  const [port = 0] = await freePorts(1);
  const given = options({ apiServer: { host: '127.0.0.1', port } });
  const began = given.clock.now().getTime();
  await waitForApi(given);
  expect(given.clock.now().getTime() - began).toBeGreaterThanOrEqual(30_000);
  expect(given.clock.now().getTime() - began).toBeLessThan(40_000);
});
