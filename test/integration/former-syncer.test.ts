// From one account for the syncers of all static pods to one for each: `init adopt` on two machines of the former layout.
// The order of the tests is the story.
import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { replaceFile } from '../../lib/disk/files.ts';
import { defaultNamespace as namespace, tokenSecretName } from '../../lib/install/accounts.ts';
import { runAdopt } from '../../lib/install/adopt.ts';
import { type Api, applyManifest, deleteObject, ownObjects } from '../../lib/install/apply.ts';
import { readToken } from '../../lib/install/credentials.ts';
import { objectPath, type resources } from '../../lib/install/manifest.ts';
import { installManifests } from '../../lib/install/rbac.ts';
import { accountAnnotation, staticPods } from '../../lib/install/static-pods.ts';
import { runUninstall } from '../../lib/install/uninstall.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { adoptOptions, asAdoptable, joined } from '../support/adopt-world.ts';
import { apiRequest, type ApiResponse } from '../support/api-client.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { KubeadmMachine } from '../support/kubeadm-machine.ts';
import { PlayedKubelet } from '../support/played-kubelet.ts';

const { signal } = new AbortController();
const former = 'kube-cert-recovery-syncer';
const kinds = ['ClusterRoleBinding', 'RoleBinding', 'ClusterRole', 'Role', 'Secret', 'ServiceAccount'] as const;

let plane: ControlPlane;
let connection: KubeConnection;
let formerToken: string;
const machines = new Map<string, KubeadmMachine>();
const kubelets: PlayedKubelet[] = [];

const machineOf = (nodeName: string): KubeadmMachine => {
  const machine = machines.get(nodeName);
  if (machine === undefined) throw new Error(`no machine ${nodeName}`);
  return machine;
};

async function adopt(nodeName: string): Promise<string> {
  const lines: string[] = [];
  const told = (line: string): void => void lines.push(line);
  await runAdopt(await adoptOptions(machineOf(nodeName), { connection, nodeName, signal, told }));
  return lines.join('\n');
}

const tokenFile = (nodeName: string, pod: string): string =>
  machineOf(nodeName).path('kube-cert-recovery', pod, 'credentials/syncer/token');

function ask(token: string, path: string, body?: unknown): Promise<ApiResponse> {
  const { port, recoveryCa: caFile } = plane;
  const target = { port, caFile, serverName: 'localhost-recovery', token };
  return apiRequest(target, path, body === undefined ? {} : { method: 'POST', body });
}

/** Whose tokens the pods of a machine have. */
async function accountsOn(nodeName: string): Promise<readonly string[]> {
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const asked = staticPods.map(async (pod) => {
    const { body } = await ask(await readFile(tokenFile(nodeName, pod), 'utf8'), path, {});
    return (body as { status: { userInfo: { username: string } } }).status.userInfo.username.split(':').at(-1) ?? '';
  });
  return Promise.all(asked);
}

const formerReads = async (): Promise<number> =>
  (await ask(formerToken, `/api/v1/namespaces/${namespace}/secrets/csr-signer`)).status;

const own = async (kind: keyof typeof resources): Promise<readonly string[]> =>
  (await ownObjects({ connection, signal }, kind)).map(({ metadata }) => metadata.name);

/** What an earlier version of this program has left on a machine. */
async function age(nodeName: string): Promise<void> {
  for (const pod of staticPods) {
    await writeFile(tokenFile(nodeName, pod), formerToken, { mode: 0o600 });
    const path = machineOf(nodeName).path('manifests', `${pod}.yaml`);
    const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => !line.includes(accountAnnotation));
    const content = lines.join('\n').replace(/(kube-cert-recovery\/digest: ).*/, '$1former');
    await replaceFile({ path, content, mode: 0o600, what: 'manifest' });
    await eventually(async () => {
      const { body } = await plane.admin(`/api/v1/namespaces/kube-system/pods/${pod}-${nodeName}`);
      expect(body).toMatchObject({ metadata: { annotations: { 'kube-cert-recovery/digest': 'former' } } });
      expect(JSON.stringify(body)).not.toContain(accountAnnotation);
    });
  }
}

beforeAll(async () => {
  plane = await startControlPlane({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  const kubeconfigFile = plane.recoveryKubeconfig;
  connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  const pristine = await KubeadmMachine.create();
  machines.set('node2', await asAdoptable(await joined(pristine, 'node2', '192.0.2.11')));
  machines.set('node1', await asAdoptable(pristine));
  for (const [nodeName, machine] of machines) {
    // Both would answer on the same ports.
    const answers = nodeName === 'node1';
    kubelets.push(new PlayedKubelet(plane, { manifestsDir: machine.path('manifests'), nodeName, answers }));
  }
  await adopt('node1');
  await adopt('node2');
  const api: Api = { connection, signal };
  for (const kind of kinds) {
    for (const manifest of await ownObjects(api, kind)) {
      if (/-(syncer|proofs)-kube-/.test(manifest.metadata.name)) await deleteObject(api, objectPath(manifest));
    }
  }
  const { artefacts } = loadPreset('kubernetes');
  for (const manifest of installManifests({ artefacts, namespace, approver: true })) await applyManifest(api, manifest);
  const secret = tokenSecretName('syncer');
  formerToken = await readToken(api, { namespace, secret, clock: systemClock, tokenTimeoutMs: 60_000 });
  await age('node1');
  await age('node2');
});
afterAll(async () => {
  for (const kubelet of kubelets) await kubelet[Symbol.asyncDispose]();
  await connection?.close();
  for (const machine of machines.values()) await machine[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

const accounts = staticPods.map((pod) => `${former}-${pod}`);

test('runAdopt() gives each pod of a machine its own account, and keeps the former one for other machines', async () => {
  expect(await accountsOn('node1')).toEqual([former, former, former]);
  const told = await adopt('node1');
  expect(told).toContain('Run this on node2, too: there one account still serves all pods');
  expect(told).not.toContain('Removed');
  expect(await accountsOn('node1')).toEqual(accounts);
  expect(await accountsOn('node2')).toEqual([former, former, former]);
  expect(await formerReads()).toBe(200);
});

test('runAdopt() takes the former account away with the last machine that needed it', async () => {
  const told = await adopt('node2');
  expect(told.split('\n').filter((line) => line.startsWith('Removed'))).toEqual(
    [
      'ClusterRoleBinding "kube-cert-recovery-proofs"',
      `RoleBinding "${namespace}/${former}"`,
      `RoleBinding "kube-system/${former}"`,
      'ClusterRole "kube-cert-recovery-proofs"',
      `Role "${namespace}/${former}"`,
      `Role "kube-system/${former}"`,
      `Secret "${namespace}/${former}-token"`,
      `ServiceAccount "${namespace}/${former}"`,
    ].map((what) => `Removed ${what}: each pod has an account of its own now`),
  );
  // kube-apiserver remembers for ten seconds whose a token is; without rights it is refused at once.
  await eventually(async () => expect(await formerReads()).toBe(401), { withinMs: 30_000 });
  for (const nodeName of ['node1', 'node2']) expect(await accountsOn(nodeName)).toEqual(accounts);
  expect(await adopt('node1')).not.toMatch(/Removed|Run this|changed, and|Wrote/);
});

test('runUninstall() takes the accounts of all pods away', async () => {
  expect(await own('ServiceAccount')).toEqual(expect.arrayContaining(accounts));
  const { resolved } = await adoptOptions(machineOf('node1'), { connection, signal });
  await runUninstall({ connection, resolved, directory: machineOf('node1').path('none'), signal });
  for (const kind of kinds) expect(await own(kind), kind).toEqual([]);
});
