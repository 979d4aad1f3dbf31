// `status` of an adopted machine: files that the real kubeadm has made, a real API, and a fake kubelet, so that what it
// shows of the containers can be chosen.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Io } from '../../cmd/io.ts';
import { configInput } from '../../cmd/read-config.ts';
import { adoptionStatus } from '../../cmd/status-api.ts';
import { statusCommand } from '../../cmd/status.ts';
import { runAdopt } from '../../lib/adopt/adopt.ts';
import { systemClock } from '../../lib/clock.ts';
import { parseToolConfig } from '../../lib/config/load.ts';
import { runUninstall } from '../../lib/install/uninstall.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import type { AdoptionStatus } from '../../lib/status/adoption-report.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { adoptOptions, asAdoptable } from '../support/cluster/adopt-world.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { FakeKubelet } from '../support/cluster/fake-kubelet.ts';

const { signal } = new AbortController();
const namespace = 'kube-cert-recovery';
let plane: ControlPlane;
let connection: KubeConnection;
let machine: KubeadmMachine;
let kubelet: FakeKubelet;
beforeAll(async () => {
  plane = await startControlPlane({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  const kubeconfigFile = plane.recoveryKubeconfig;
  connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  machine = await asAdoptable(await KubeadmMachine.create());
  kubelet = new FakeKubelet(plane, { manifestsDir: machine.path('manifests'), nodeName: 'node1' });
  await runAdopt({ ...(await adoptOptions(machine, { connection, signal })), server: connection.server });
  await knowThisApi();
});
afterAll(async () => {
  await connection?.close();
  await kubelet?.[Symbol.asyncDispose]();
  await machine?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

/** The API server of this test serves with a CA of its own, not with what was adopted. */
async function knowThisApi(): Promise<void> {
  const clusters = parseYaml(await readFile(plane.recoveryKubeconfig, 'utf8')) as { clusters: [{ cluster: object }] };
  for (const path of (await readdir(machine.path('kube-cert-recovery'), { recursive: true })).filter((name) =>
    /credentials\/\w+\/kubeconfig$/.test(name),
  )) {
    const file = machine.path('kube-cert-recovery', path);
    const own = structuredClone(parseYaml(await readFile(file, 'utf8'))) as { clusters: [{ cluster: object }] };
    own.clusters[0].cluster = clusters.clusters[0].cluster;
    await writeFile(file, toYaml(own));
  }
}

const io = (): Io & { readonly told: string[] } => {
  const told: string[] = [];
  const output = { write: (text: string) => told.push(text) };
  return { argv: [], env: {}, cwd: '/', stdout: output, stderr: output, signal, told };
};
const directory = () => machine.path('kube-cert-recovery');
const sight = async (): Promise<AdoptionStatus> => {
  const own = io();
  const config = parseToolConfig(configInput({ preset: 'kubeadm', kubeconfig: plane.recoveryKubeconfig }, own));
  return (await adoptionStatus(directory(), { config, options: {}, io: own })).sight ?? expect.unreachable();
};

test('finds objects, the files of all pods and the containers well', async () => {
  const { pods, objects, problem } = await sight();
  expect({ problem, states: pods.map(({ state, message }) => `${state}: ${message}`) }).toEqual({
    problem: undefined,
    states: ['ready: runs and is ready', 'ready: runs and is ready', 'ready: runs and is ready'],
  });
  const rows = objects?.rows ?? [];
  expect(objects?.problems).toEqual([]);
  expect(objects?.class).toBe('healthy');
  // Its containers leave etcd's files to the host.
  expect(rows.filter(({ location }) => !/^(Secret|ConfigMap) /.test(location))).toEqual([]);
  const of = (name: string) => rows.find(({ artefact }) => artefact === name)?.onDisk;
  const names = ['kube-apiserver-serving', 'kube-controller-manager-client', 'kube-scheduler-client', 'csr-signer'];
  expect(names.map(of)).toEqual(['same', 'same', 'same', 'same']);
  expect(of('kube-apiserver-serving-signer')).toBeUndefined();
});

test('by the configuration of a container is exit 0 where all is well, and says what it may not see', async () => {
  const own = io();
  const config = join(directory(), 'kube-apiserver/config.yaml');
  expect(await statusCommand({ config }, own), own.told.join('')).toBe(0);
  const text = own.told.join('');
  expect(text).toContain('Everything is as it should be.');
  expect(text).toContain('Admission webhooks were not looked at: only an administrator may list them');
  expect(text).not.toContain('etcd');
});

test('finds a Secret that is gone, files that are gone, a container without its image, and rights that are gone', async () => {
  await plane.admin(`/api/v1/namespaces/${namespace}/secrets/service-account-key`, { method: 'DELETE' });
  await rm(join(directory(), 'kube-scheduler/certs/secrets/kube-scheduler-client'), { recursive: true });
  kubelet.waiting.set('kube-cert-recovery', 'ImagePullBackOff');
  await eventually(async () => expect((await sight()).pods.map(({ state }) => state)).toEqual(Array(3).fill('wrong')));
  const { pods, objects } = await sight();
  expect(pods[2]?.message).toContain('does not run: ImagePullBackOff (image "example.com/recovery:1")');
  expect(objects?.problems.join()).toContain('service-account-key: it is absent');
  expect(objects?.rows.find(({ artefact }) => artefact === 'kube-scheduler-client')?.onDisk).toBe('missing');

  kubelet.waiting.clear();
  await eventually(async () => expect((await sight()).pods[2]?.state).toBe('ready'));
  await runUninstall({ connection, directory: machine.path('none'), force: true, signal });
  await eventually(async () => expect((await sight()).pods[2]?.message).toContain('mode syncer cannot work: '));
  await eventually(async () => expect((await sight()).pods.map(({ state }) => state)).toEqual(Array(3).fill('wrong')));
});
