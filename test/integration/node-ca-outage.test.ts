// A process that follows the ConfigMap node-ca beside a kubelet, against a real kube-apiserver: from the take-over of files
// that somebody else wrote, through an API server that is away and a namespace that is deleted, to giving them back. The
// order is the story of one node.
import type { ChildProcess } from 'node:child_process';
import { appendFile, chmod, chown, lstat, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from '../../cmd/run.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { both, caMaker, collection, commandIn, namespace, nodeCaIn, type Publish } from '../support/cluster/node-ca.ts';
import { Worker } from '../support/cluster/worker-machine.ts';
import { eventually } from '../support/eventually.ts';
import { startReading } from '../support/file-reader.ts';
import { Processes } from '../restart/processes.ts';

let root: string;
let controlPlane: ControlPlane;
let node: Worker;
let publish: Publish;
let config: string;
/** PEM of CAs: that of the node, and others in the order in which they come. */
let own: string;
let cas: readonly string[];
let reading: ReturnType<typeof startReading>;

const kubelets = new Processes();
const lines: { event: string; level: string }[] = [];
const stop = new AbortController();
/** Half minutes after which it has looked again; here they are short. */
let ticks = 0;
let ended: Promise<number> | undefined;
let kubelet: ChildProcess;

const startKubelet = async () => (kubelet = await kubelets.start({ name: 'kubelet', file: node.conf }));
const hasEnded = (): boolean => kubelet.signalCode !== null || kubelet.exitCode !== null;
async function restarted(): Promise<void> {
  await eventually(() => expect(hasEnded()).toBe(true));
  await startKubelet();
}
const files = (): Promise<readonly string[]> => Promise.all([readFile(node.clientAuthority, 'utf8'), node.trust()]);
/** The ConfigMap has, and the files get, so many of the others. */
async function gains(count: number, withinMs?: number): Promise<void> {
  const all = [own, ...cas.slice(0, count)];
  await publish(both(...all));
  const wanted = all.join('');
  await eventually(async () => expect(await files()).toEqual([wanted, wanted]), { ...(withinMs && { withinMs }) });
}
const state = () =>
  Promise.all([node.clientAuthority, node.conf].map(async (path) => [(await stat(path)).ino, await readFile(path)]));
const said = (event: string) => lines.filter((line) => line.event === event);

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'node-ca-outage-'));
  controlPlane = await startControlPlane({ components: ['etcd', 'kube-apiserver'] });
  publish = await nodeCaIn(controlPlane);
  const ca = caMaker(root);
  own = await readFile(controlPlane.pki.clusterCa.cert, 'utf8');
  cas = [await ca('one'), await ca('two'), await ca('three')];
  const notAfter = new Date(Date.now() + 86_400_000);
  node = await Worker.create({ root, name: 'node-1', notAfter, controlPlane, token: '', authority: own });
  const body = { metadata: { name: 'node-1' } };
  expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body })).toMatchObject({ status: 201 });
  config = await node.nodeCaConfig(controlPlane, ', restart: true');
  await appendFile(config, 'modes: [regen]\nhealthProbeBindAddress: "0"\n');
  await chmod(node.clientAuthority, 0o640);
  await chown(node.clientAuthority, 65534, 65534);
  await startKubelet();
  reading = startReading(node.clientAuthority);
});
afterAll(async () => {
  stop.abort();
  await ended;
  await kubelets[Symbol.asyncDispose]();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

describe('a process that follows the ConfigMap beside a kubelet', () => {
  it('takes the next CA at once while it waits for a kubelet that renews no Lease', async () => {
    await publish(both(own));
    const stream = { write: (line: string) => lines.push(JSON.parse(line) as (typeof lines)[0]) };
    const sleep: Clock['sleep'] = (ms, signal) => {
      ticks += ms === 30_000 ? 1 : 0;
      return systemClock.sleep(ms === 30_000 ? 200 : ms, signal);
    };
    const io = { argv: [], env: {}, cwd: root, stdout: stream, stderr: stream, signal: stop.signal };
    ended = runCommand({ config }, io, { ...systemClock, sleep });
    await eventually(() => expect(ticks).toBeGreaterThan(0));
    await gains(1);
    await restarted();
    await gains(2, 40_000); // a proof is waited for longer than that
    await restarted();
  });

  it('keeps all as it is while the API server is away for ten minutes, says it once, and goes on afterwards', async () => {
    const renewing = new AbortController();
    const renewal = renewLease(renewing.signal);
    await eventually(() => expect(said('proof.succeeded')).not.toEqual([]));
    const before = await state();
    const spoken = lines.length;
    await controlPlane.stopComponent('kube-apiserver');
    const began = ticks;
    await eventually(() => expect(ticks).toBeGreaterThanOrEqual(began + 20));
    expect(await state()).toEqual(before);
    expect(hasEnded()).toBe(false);
    const warnings = lines.slice(spoken).filter(({ level }) => level === 'warn' || level === 'error');
    const told = warnings.map(({ event }) => event);
    expect(told).toContain('watch.failed');
    expect(told).toEqual([...new Set(told)]);
    controlPlane.startComponent('kube-apiserver');
    await controlPlane.ready();
    await gains(3);
    await restarted();
    await eventually(() => expect(said('proof.succeeded').length).toBeGreaterThan(1));
    renewing.abort();
    await renewal;
  });

  it('keeps all as it is while the namespace is gone, says it, and goes on afterwards', async () => {
    const [before, blocked] = [await state(), said('rotation.blocked').length];
    await controlPlane.admin(`${collection}/node-ca`, { method: 'DELETE' });
    await controlPlane.admin(`/api/v1/namespaces/${namespace}`, { method: 'DELETE' });
    // As the namespace controller does when it is empty.
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace }, spec: { finalizers: [] } };
    await controlPlane.admin(`/api/v1/namespaces/${namespace}/finalize`, { method: 'PUT', body });
    await expect(controlPlane.kubectl('get', 'namespace', namespace)).rejects.toThrow('not found');
    await eventually(() => expect(said('rotation.blocked').length).toBe(blocked + 2));
    const began = ticks;
    await eventually(() => expect(ticks).toBeGreaterThanOrEqual(began + 5));
    expect(said('rotation.blocked')).toHaveLength(blocked + 2); // client-ca and server-ca, once
    const { out } = await commandIn(root, ['status', `--config=${config}`]);
    expect(out).toContain(`ConfigMap "${namespace}/node-ca" client-ca.crt is absent`);
    expect(await state()).toEqual(before);
    expect(hasEnded()).toBe(false);
    await controlPlane.kubectl('create', 'namespace', namespace);
    await publish(both(own, ...cas));
    const back = ticks;
    await eventually(() => expect(ticks).toBeGreaterThanOrEqual(back + 3));
    expect(await state()).toEqual(before);
  });

  it('gives the files back as they are, and no reader has missed one since before the take-over', async () => {
    const kubeconfig = `--kubeconfig=${controlPlane.recoveryKubeconfig}`;
    expect(await commandIn(root, ['init', 'node-ca', kubeconfig])).toMatchObject({ exit: 0 });
    const before = await state();
    const removed = await commandIn(root, ['uninstall', 'node-ca', kubeconfig]);
    expect(removed).toMatchObject({ exit: 0, out: expect.stringContaining('Removed RoleBinding') as string });
    stop.abort();
    expect(await ended).toBe(0);
    const { reads, failures, seen } = await reading.stop();
    expect(failures).toEqual([]);
    expect(seen).toEqual([0, 1, 2, 3].map((count) => own + cas.slice(0, count).join('')));
    expect(reads).toBeGreaterThan(1000);
    expect(await state()).toEqual(before);
    expect(await lstat(node.clientAuthority)).toMatchObject({ mode: 0o100640, uid: 65534, gid: 65534 });
    expect(said('run.failed')).toEqual([]);
  });
});

/** Renews the Lease of the node, as its kubelet does, while the API server answers. */
async function renewLease(signal: AbortSignal): Promise<void> {
  const path = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
  const metadata = { name: 'node-1', namespace: 'kube-node-lease' };
  for (; !signal.aborted; await systemClock.sleep(300, signal)) {
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    const body = { metadata, spec: { holderIdentity: 'node-1', leaseDurationSeconds: 40, renewTime } };
    const present = await controlPlane.admin(`${path}/node-1`).catch(() => undefined);
    const { resourceVersion } =
      (present?.body as { metadata?: { resourceVersion?: string } } | undefined)?.metadata ?? {};
    const [at, method] = present?.status === 404 ? [path, 'POST'] : [`${path}/node-1`, 'PUT'];
    const next = {
      ...body,
      metadata: { ...metadata, resourceVersion: present?.status === 404 ? undefined : resourceVersion },
    };
    await controlPlane.admin(at, { method, body: next }).catch(() => undefined);
  }
}
