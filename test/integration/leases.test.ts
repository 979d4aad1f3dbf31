// Stale leader-election Leases on a real control plane that loses its power. Each test leaves the components running or not as the
// next one expects: the order is the story.
import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { RunState } from '../../lib/host/state.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { releaseAfterBoot } from '../../lib/regen/boot-leases.ts';
import type { Boot } from '../../lib/regen/judge-lease.ts';
import { createOtherClocks } from '../../lib/regen/other-clocks.ts';
import { releaseStaleLeases, type ReleaseOptions } from '../../lib/regen/stale-leases.ts';
import { createLog } from '../../lib/log.ts';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';

interface Lease {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: { readonly holderIdentity: string; readonly renewTime: string; readonly leaseTransitions?: number };
}

const namespace = 'kube-system';
const [kcm, scheduler] = ['kube-controller-manager', 'kube-scheduler'] as const;
const leasesPath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const longAgo = '2026-01-01T00:00:00.000000Z';

let controlPlane: ControlPlane;
let connection: KubeConnection;
const stop = new AbortController();

beforeAll(async () => {
  // Longer than it takes the other one to start and to lead.
  const flags = { [scheduler]: { 'leader-elect-lease-duration': '30s' } };
  controlPlane = await startControlPlane({ components: ['etcd', 'kube-apiserver', kcm, scheduler], flags });
  connection = await openConnection({
    kubeconfigFile: controlPlane.recoveryKubeconfig,
    clock: systemClock,
    userAgent: 'test',
  });
});
afterAll(async () => {
  stop.abort();
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
});

const lease = async (name: string): Promise<Lease> => {
  const { status, body } = await controlPlane.admin(`${leasesPath}/${name}`);
  expect(status).toBe(200);
  return body as Lease;
};
const held = (name: string, except = ''): Promise<Lease> =>
  eventually(async () => {
    const found = await lease(name);
    expect(found.spec.holderIdentity).not.toBe('');
    expect(found.spec.holderIdentity).not.toBe(except);
    return found;
  });
const release = (names: readonly string[], options: Partial<ReleaseOptions> = {}) =>
  releaseStaleLeases({
    connection,
    leases: names.map((name) => ({ namespace, name })),
    hostName: hostname(),
    clock: systemClock,
    log: createLog({ write: () => {} }),
    signal: stop.signal,
    ...options,
  });
async function create(name: string, holderIdentity: string, renewTime = longAgo): Promise<void> {
  const { status } = await controlPlane.admin(leasesPath, {
    method: 'POST',
    body: { metadata: { name }, spec: { holderIdentity, renewTime, leaseDurationSeconds: 15, leaseTransitions: 3 } },
  });
  expect(status).toBe(201);
}
/** This machine does not lose its power for a test: the boot is said to be shortly after the last sign of life. */
const bootAfter = (last: Lease) => (): Boot => ({
  bootedAt: new Date(Date.parse(last.spec.renewTime) + 3_000),
  clockStepped: false,
});

test('releaseStaleLeases() keeps the leases of components that live', async () => {
  const before = [await held(kcm), await held(scheduler)];
  for (const { spec } of before) expect(spec.holderIdentity.startsWith(`${hostname()}_`)).toBe(true);
  expect(await release([kcm, scheduler])).toMatchObject([
    { name: kcm, outcome: 'kept', reason: 'RenewedSinceBoot' },
    { name: scheduler, outcome: 'kept', reason: 'RenewedSinceBoot' },
  ]);
  expect((await lease(kcm)).spec.holderIdentity).toBe(before[0]?.spec.holderIdentity);
});

test('the clock of a living leader is heard by other machines, and not by its own', async () => {
  await Promise.all([held(kcm), held(scheduler)]);
  const leases = [kcm, scheduler, 'absent'].map((name) => ({ namespace, name }));
  const year = 365 * 86_400_000;
  const ahead: Clock = { ...systemClock, now: () => new Date(systemClock.now().getTime() + year) };
  const ask = (hostName: string, clock = systemClock) =>
    createOtherClocks({ connection, leases, hostName, clock })(stop.signal);
  const [own, near, far] = await Promise.all([ask(hostname()), ask('another-machine'), ask('another-machine', ahead)]);
  expect(own).toEqual([]);
  // A busy leader may renew later than it is waited for; asked again, it has.
  expect(near.length + far.length).toBeGreaterThan(0);
  for (const { aheadMs } of near) expect(Math.abs(aheadMs)).toBeLessThan(60_000);
  for (const { aheadMs } of far) expect(Math.abs(aheadMs - year)).toBeLessThan(60_000);
});

test('releaseStaleLeases() lets a restarted kube-controller-manager lead while an unreleased lease still waits', async () => {
  await controlPlane.kill();
  controlPlane.startComponent('etcd');
  controlPlane.startComponent('kube-apiserver');
  await controlPlane.ready();
  const dead = [await lease(kcm), await lease(scheduler)] as const;
  // Of this node and dead, and yet kept where that cannot be known.
  const boot = bootAfter(dead[0]);
  const unknown = await release([kcm], { boot: () => ({ bootedAt: undefined, clockStepped: false }) });
  const stepped = await release([kcm], { boot: () => ({ ...boot(), clockStepped: true }) });
  expect([...unknown, ...stepped]).toMatchObject([{ reason: 'BootUnknown' }, { reason: 'ClockStepped' }]);
  expect(await lease(kcm)).toEqual(dead[0]);

  expect(await release([kcm], { boot })).toEqual([
    { namespace, name: kcm, outcome: 'released', holder: dead[0].spec.holderIdentity },
  ]);
  const released = await lease(kcm);
  expect(released.spec.holderIdentity).toBe('');
  expect(released.spec.leaseTransitions).toBe(dead[0].spec.leaseTransitions);
  expect(await release([kcm], { boot })).toMatchObject([{ outcome: 'kept', reason: 'NoHolder' }]);

  controlPlane.startComponent(kcm);
  controlPlane.startComponent(scheduler);
  const next = await held(kcm, dead[0].spec.holderIdentity);
  const waiting = await lease(scheduler);
  expect(next.spec.holderIdentity.startsWith(`${hostname()}_`)).toBe(true);
  expect(waiting.spec.holderIdentity, 'the lease that was not released').toBe(dead[1].spec.holderIdentity);
  await held(scheduler, dead[1].spec.holderIdentity);
});

test('releaseStaleLeases() never releases a lease that another node holds', async () => {
  const holders = {
    'other-node': 'somewhere-else_0a0a0a0a-0000-4000-8000-000000000000',
    'longer-name': `${hostname()}0_0a0a0a0a-0000-4000-8000-000000000000`,
    'underscore-name': `${hostname()}_x_0a0a0a0a-0000-4000-8000-000000000000`,
  };
  for (const [name, holder] of Object.entries(holders)) await create(name, holder);
  const names = Object.keys(holders);
  const before = await Promise.all(names.map(lease));
  const outcomes = await release([...names, 'absent']);
  expect(outcomes.map((outcome) => outcome.outcome === 'kept' && outcome.reason)).toEqual([
    'OtherHolder',
    'OtherHolder',
    'OtherHolder',
    'NotFound',
  ]);
  expect(await Promise.all(names.map(lease))).toEqual(before);
});

test('a holder who may have renewed by a clock that was set since is given the time to renew', async () => {
  const living = `${hostname()}_0a0a0a0a-0000-4000-8000-000000000001`;
  await create('living', living);
  await create('dead', `${hostname()}_0a0a0a0a-0000-4000-8000-000000000002`);
  const before = await lease('living');
  // By its renewal this one is dead, too: it was dated by a clock that was behind until just now.
  const body = { ...before, spec: { ...before.spec, renewTime: '2026-01-01T00:00:02.000000Z' } };
  const boot = bootAfter(before);
  const outcomes = release(['living', 'dead'], { boot, mayHaveRenewed: true });
  const renewal = systemClock
    .sleep(1000)
    .then(() => controlPlane.admin(`${leasesPath}/living`, { method: 'PUT', body }));
  expect(await outcomes).toMatchObject([{ outcome: 'kept', reason: 'RenewedSinceBoot' }, { outcome: 'released' }]);
  expect((await renewal).status).toBe(200);
  expect((await lease('living')).spec.holderIdentity).toBe(living);
});

/** The real connection; `interfere` comes between the read of a lease and its write. */
const interfered = (interfere: () => Promise<unknown>): KubeConnection => ({
  server: connection.server,
  files: connection.files,
  request: async <T>(request: KubeRequest) => {
    if (request.method === 'PUT') await interfere();
    return connection.request<T>(request);
  },
  watch: (path, options) => connection.watch(path, options),
  turn: (signal) => connection.turn(signal),
  reload: () => connection.reload(),
  close: () => Promise.resolve(),
});

test('releaseStaleLeases() gives way to a holder that renews between its read and its write', async () => {
  const name = 'renewed-in-between';
  const holder = `${hostname()}_0a0a0a0a-0000-4000-8000-000000000000`;
  await create(name, holder);
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  const renew = () => controlPlane.admin(`${leasesPath}/${name}`, { method: 'PATCH', body: { spec: { renewTime } } });
  const outcome = await release([name], { connection: interfered(renew) });
  expect(outcome).toMatchObject([{ outcome: 'kept', reason: 'RenewedSinceBoot' }]);
  expect((await lease(name)).spec).toMatchObject({ holderIdentity: holder, renewTime });
});

test('releaseStaleLeases() leaves a lease that somebody writes each time, after two attempts', async () => {
  const name = 'always-written';
  await create(name, `${hostname()}_0a0a0a0a-0000-4000-8000-000000000000`);
  let writes = 0;
  const touch = () => {
    writes += 1;
    const body = { metadata: { annotations: { write: String(writes) } } };
    return controlPlane.admin(`${leasesPath}/${name}`, { method: 'PATCH', body });
  };
  expect(await release([name], { connection: interfered(touch) })).toMatchObject([
    { outcome: 'kept', reason: 'Conflict' },
  ]);
  expect(writes).toBe(2);
  expect((await lease(name)).spec.holderIdentity).not.toBe('');
  // Left alone, the same lease is released.
  expect(await release([name])).toMatchObject([{ outcome: 'released' }]);
  expect((await lease(name)).spec).toMatchObject({ holderIdentity: '', leaseTransitions: 3, renewTime: longAgo });
});

test('releaseStaleLeases() asks an API server that is only starting until it answers', async () => {
  const name = 'left-behind';
  await create(name, `${hostname()}_0a0a0a0a-0000-4000-8000-000000000000`);
  await controlPlane.kill();
  const outcome = release([name], { patienceMs: 240_000 });
  await controlPlane.start({ wait: false });
  expect(await outcome).toMatchObject([{ outcome: 'released' }]);
});

test('releaseStaleLeases() reports and does not reject when the API server is away', async () => {
  await controlPlane.stop();
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line) });
  expect(await release([kcm], { log, patienceMs: 500 })).toMatchObject([{ outcome: 'kept', reason: 'Failed' }]);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ event: 'lease.skipped', lease: kcm, err: expect.any(String) });
});

test('releaseAfterBoot() waits for an API server that is away in the first run after a boot, and is not done', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'leases-'));
  let requests = 0;
  const counting: KubeConnection = {
    ...interfered(() => Promise.resolve()),
    request: async <T>(request: KubeRequest) => {
      requests += 1;
      return connection.request<T>(request);
    },
  };
  const run = async (boot: string): Promise<number> => {
    const before = requests;
    await releaseAfterBoot({
      asHost: (work) => work(counting),
      leases: [{ namespace, name: kcm }],
      hostName: hostname(),
      boot: () => ({ bootedAt: undefined, clockStepped: false }),
      state: new RunState(directory, { boot }),
      patienceMs: 1000,
      clock: systemClock,
      log: createLog({ write: () => {} }),
      signal: stop.signal,
    });
    return requests - before;
  };
  expect(await run('one')).toBeGreaterThan(1);
  expect(await run('one')).toBe(1);
  expect(await run('two')).toBeGreaterThan(1);
  await rm(directory, { recursive: true });
});
