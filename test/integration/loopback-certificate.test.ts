// The certificate that a real kube-apiserver makes for itself, years later by the clock of who looks: `status` has a row of
// it, and the run that restarts ends its process in time, on one machine of the cluster at a time.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { RunState } from '../../lib/host/state.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { askLoopback, type LoopbackCertificate } from '../../lib/proof/loopback.ts';
import type { Component } from '../../lib/restart/decide.ts';
import { restartMarked } from '../../lib/restart/host-restarts.ts';
import { markLoopback } from '../../lib/restart/loopback-restart.ts';
import { MachineLease, renewalLease } from '../../lib/restart/machine-lease.ts';
import { Markers } from '../../lib/restart/markers.ts';
import { RenewalLease } from '../../lib/restart/renewal-lease.ts';
import { askOwn, type LocalServer } from '../../lib/status/local-servers.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';

let controlPlane: ControlPlane;
let connection: KubeConnection;
let directory: string;
const signal = new AbortController().signal;
const log = createLog({ write: () => true });

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'loopback-'));
  controlPlane = await startControlPlane({ restarts: 5 });
  const file = { kubeconfigFile: controlPlane.recoveryKubeconfig };
  connection = await openConnection({ ...file, clock: systemClock, userAgent: 'test' });
  const body = { metadata: { name: renewalLease.namespace } };
  expect((await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body })).status).toBe(201);
});
afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const apiServer = () => ({ host: '127.0.0.1', port: controlPlane.port });
const server = (): LocalServer => ({
  ...apiServer(),
  component: 'kube-apiserver',
  artefacts: [],
  remedy: 'restart it',
});
const component = (): Component => ({
  name: 'kube-apiserver',
  file: controlPlane.pki.etcdCa.cert,
  artefacts: [],
  locations: [],
  isService: false,
});
const certificate = async (): Promise<LoopbackCertificate> => {
  const found = await askLoopback({ ...apiServer(), clock: systemClock, signal });
  return found ?? expect.fail('kube-apiserver shows none');
};
/** When so much of its life has passed. */
async function after(part: number): Promise<Clock> {
  const { notBefore, notAfter } = await certificate();
  const aheadMs = notBefore.getTime() + (notAfter.getTime() - notBefore.getTime()) * part - systemClock.now().getTime();
  return { ...systemClock, now: () => new Date(systemClock.now().getTime() + aheadMs) };
}

const markers = (): Markers =>
  new Markers({ state: new RunState(directory), onFailed: (err) => expect.fail(err.message) });
const lease = (): RenewalLease =>
  new RenewalLease({
    withConnection: (work) => work(connection),
    holder: async () => 'node1',
    state: new RunState(directory),
    clock: systemClock,
    log,
    signal,
  });

/** As the run of the timer does it. */
async function restart(clock: Clock): Promise<readonly string[]> {
  const components = [component()];
  await markLoopback({ components, markers: markers(), lease: lease(), apiServer: apiServer(), clock, signal });
  const well = async (): Promise<undefined> => undefined;
  const checks = { isReady: () => true, apiAnswers: well, etcdProblem: well, quorumProblem: well };
  const outcomes = await restartMarked({ components, markers: markers(), ...checks, clock, log, signal });
  return outcomes.map(({ component: { name }, failure }) => failure ?? name);
}
const restarts = (): number => controlPlane.process('kube-apiserver').restarted;

it.each([
  ['is shown, and nothing is said', 0.5, undefined],
  ['is announced in the last fifth of its life', 0.85, 'EXPIRING'],
  ['has ended', 1.01, 'EXPIRED'],
])('%s', async (_title, part, ends) => {
  const asking = { facts: new Map(), found: new Map(), clock: await after(part), signal };
  const [row, ...others] = await askOwn([server()], asking);
  expect(others).toEqual([]);
  expect(row).toMatchObject({ component: 'kube-apiserver', artefact: 'apiserver-loopback-client', state: 'inMemory' });
  expect(row?.ends).toBe(ends);
  expect(row?.notAfter).toEqual((await certificate()).notAfter);
});

it('restarts nothing before a tenth of its life is left', async () => {
  expect(await restart(await after(0.89))).toEqual([]);
  expect(restarts()).toBe(0);
});

it('waits while another machine has the Lease', async () => {
  const node2 = new MachineLease({ connection, lease: renewalLease, holder: 'node2', clock: systemClock, signal });
  await node2.acquire();
  expect(await restart(await after(0.92))).toEqual([]);
  await node2.giveBack(0);
});

it('restarts kube-apiserver once, which has made a new one then', async () => {
  const { notAfter } = await certificate();
  expect(await restart(await after(0.92))).toEqual(['kube-apiserver']);
  await eventually(() => expect(restarts()).toBe(1));
  await eventually(async () => expect((await certificate()).notAfter.getTime()).toBeGreaterThan(notAfter.getTime()));
  expect(await restart(systemClock)).toEqual([]);
});

it('waits no longer for another machine when a twentieth is left', async () => {
  await eventually(async () => expect((await controlPlane.admin('/readyz')).status).toBe(200));
  await lease().settle(async () => true);
  const node2 = new MachineLease({ connection, lease: renewalLease, holder: 'node2', clock: systemClock, signal });
  await eventually(() => node2.acquire());
  expect(await restart(await after(0.96))).toEqual(['kube-apiserver']);
  await eventually(() => expect(restarts()).toBe(2));
});
