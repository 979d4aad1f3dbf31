// Turns of several machines on a real API server.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { isCode } from '../../lib/errors.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { MachineLease, restartLease } from '../../lib/restart/machine-lease.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';

const leases = `/apis/coordination.k8s.io/v1/namespaces/${restartLease.namespace}/leases`;
const path = `${leases}/${restartLease.name}`;

interface Lease {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: { readonly holderIdentity?: string; readonly leaseTransitions: number; readonly renewTime: string };
}

let controlPlane: ControlPlane;
let connection: KubeConnection;
const { signal } = new AbortController();

beforeAll(async () => {
  controlPlane = await startControlPlane();
  connection = await openConnection({
    kubeconfigFile: controlPlane.recoveryKubeconfig,
    clock: systemClock,
    userAgent: 'test',
  });
});
afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
});

const turn = (holder: string, uptimeSeconds = (): number | undefined => systemClock.uptimeSeconds()): MachineLease =>
  new MachineLease({ connection, holder, clock: { ...systemClock, uptimeSeconds }, signal });
const lease = async (): Promise<Lease> => (await controlPlane.admin(path)).body as Lease;
/** What it ends with; undefined when it is taken. */
const take = (one: MachineLease): Promise<unknown> =>
  one.acquire().then(
    () => undefined,
    (err: unknown) => err,
  );

async function remove(): Promise<void> {
  await controlPlane.admin(path, { method: 'DELETE' });
}

test('MachineLease says that it cannot be taken where its namespace does not exist', async () => {
  expect(isCode(await take(turn('node1')), 'KubeConflict')).toBe(false);
  const body = { metadata: { name: restartLease.namespace } };
  expect((await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body })).status).toBe(201);
});

test('MachineLease is taken by one of two, whether it is there or not, and by the other when it is given back', async () => {
  for (const round of [1, 2, 3, 4, 5, 6]) {
    if (round % 2 === 1) await remove();
    const both = [turn('node1'), turn('node2')] as const;
    const outcomes = await Promise.all(both.map(take));
    expect(
      outcomes.filter((err) => err === undefined),
      `round ${round}`,
    ).toHaveLength(1);
    const [winner, loser] = outcomes[0] === undefined ? [0, 1] : [1, 0];
    expect(isCode(outcomes[loser], 'KubeConflict')).toBe(true);
    expect((await lease()).spec.holderIdentity).toBe(`node${winner + 1}`);
    const second = await take(both[loser] as MachineLease);
    expect(String(second)).toMatch(
      new RegExp(`is held by "node${winner + 1}", for (600|5[5-9]\\d) s more unless it is given back`),
    );
    await both[loser]?.release(); // not its own
    expect((await lease()).spec.holderIdentity).toBe(`node${winner + 1}`);
    await both[winner]?.release();
    expect(await take(both[loser] as MachineLease)).toBeUndefined();
    await both[loser]?.release();
  }
});

test('MachineLease is taken from a dead holder after its time, and not before, whatever its clock said', async () => {
  await remove();
  const body = {
    metadata: { name: restartLease.name },
    spec: { holderIdentity: 'dead', leaseDurationSeconds: 60, renewTime: '2026-01-01T00:00:00.000000Z' },
  };
  expect((await controlPlane.admin(leases, { method: 'POST', body })).status).toBe(201);
  let uptime = 1000;
  const next = turn('node1', () => uptime);
  expect(isCode(await take(next), 'KubeConflict')).toBe(true);
  uptime += 59;
  expect(isCode(await take(next), 'KubeConflict')).toBe(true);
  const before = await lease();
  uptime += 1;
  expect(await take(next)).toBeUndefined();
  const after = await lease();
  expect(after.spec).toMatchObject({ holderIdentity: 'node1', leaseTransitions: 1 });
  expect(after.metadata.resourceVersion).not.toBe(before.metadata.resourceVersion);
  expect(after.spec.renewTime).toMatch(/^\d{4}-\d\d-\d\dT[\d:]+\.\d{6}Z$/);
});

test('MachineLease waits again when its holder has renewed it', async () => {
  let uptime = 1000;
  const node1 = turn('node1');
  const node2 = turn('node2', () => uptime);
  expect(await take(node1)).toBeUndefined();
  expect(isCode(await take(node2), 'KubeConflict')).toBe(true);
  uptime += 300;
  expect(await take(node1)).toBeUndefined();
  uptime += 100;
  expect(isCode(await take(node2), 'KubeConflict')).toBe(true);
  uptime += 600;
  expect(await take(node2)).toBeUndefined();
  await node1.release(); // it has lost it
  expect((await lease()).spec).toMatchObject({ holderIdentity: 'node2', leaseTransitions: 2 });
});

test('MachineLease is given back by a process that is told to end, and to an API server that has just been restarted', async () => {
  await remove();
  const end = new AbortController();
  const ending = new MachineLease({
    connection,
    holder: 'node1',
    clock: systemClock,
    signal: end.signal,
  });
  await ending.acquire();
  end.abort();
  await ending.release();
  expect((await lease()).spec.holderIdentity).toBe('');
  const patient = turn('node1');
  await patient.acquire();
  await controlPlane.kill();
  const given = patient.release(60_000);
  for (const name of ['etcd', 'kube-apiserver'] as const) controlPlane.startComponent(name);
  await controlPlane.ready();
  await given;
  expect((await lease()).spec.holderIdentity).toBe('');
});

test('MachineLease throws what the connection says when the API server is away', async () => {
  await controlPlane.kill();
  expect(isCode(await take(turn('node1')), 'KubeUnavailable')).toBe(true);
  await turn('node1').release();
});

test('the answer of /readyz is text', async () => {
  for (const name of ['etcd', 'kube-apiserver'] as const) controlPlane.startComponent(name);
  await controlPlane.ready();
  const request = { method: 'GET', path: '/readyz', signal } as const;
  expect(await connection.request({ ...request, answer: 'text' })).toBe('ok');
});
