// Repair of manifests where an API server answers, and no kubelet runs the pods: what does not come to run gets its former
// manifest back, once. That a repaired pod runs is told by test/e2e/adopted-host.test.ts.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { runRepair } from '../../lib/install/adopt-repair.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { LeaseTurn, restartTurn } from '../../lib/leases/turn.ts';
import { createLog } from '../../lib/log.ts';
import { adoptedMachine, kubeadmManifest } from '../support/adopted-files.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';

let controlPlane: ControlPlane;
let root: string;
beforeAll(async () => {
  controlPlane = await startControlPlane();
  root = await mkdtemp(join(tmpdir(), 'adopt-repair-'));
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});
beforeEach(() => adoptedMachine(root));

const { signal } = new AbortController();
const reach = (): Promise<KubeConnection> =>
  openConnection({ kubeconfigFile: controlPlane.adminKubeconfig, clock: systemClock, userAgent: 'test' });
const path = (pod: string): string => join(root, 'kubernetes/manifests', `${pod}.yaml`);

function repair(timeoutMs = 1500): Promise<number> {
  return runRepair({
    directory: join(root, 'own'),
    lockDir: join(root, 'lock'),
    reach,
    refuseBesideOthers: () => undefined,
    timeoutMs,
    dryRun: false,
    clock: systemClock,
    log: createLog({ write: () => undefined }),
    signal,
  });
}

test('a pod that does not come to run has its former manifest back, and is not tried again until that is another', async () => {
  const manifest = kubeadmManifest('kube-scheduler', root);
  await writeFile(path('kube-scheduler'), manifest);
  await expect(repair()).rejects.toThrow(
    /has not come to run as its new manifest says: .*; the former one is back in its place/,
  );
  expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifest);
  // So long that waiting for the pod would end the test.
  await expect(repair(600_000)).rejects.toThrow('its pod has not come to run when that was tried');
  expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifest);
  await writeFile(path('kube-scheduler'), `# edited\n${manifest}`);
  await expect(repair()).rejects.toThrow('has not come to run as its new manifest says');
  expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(`# edited\n${manifest}`);
});

test('kube-apiserver waits for its turn among the machines', async () => {
  const namespace = { metadata: { name: restartTurn.namespace } };
  await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body: namespace });
  const connection = await reach();
  try {
    const other = new LeaseTurn({ connection, lease: restartTurn, holder: 'node2', clock: systemClock, signal });
    await other.take();
    const manifest = kubeadmManifest('kube-apiserver', root);
    await writeFile(path('kube-apiserver'), manifest);
    await expect(repair(600_000)).rejects.toThrow('is held by "node2"');
    expect(await readFile(path('kube-apiserver'), 'utf8')).toBe(manifest);
    await other.giveBack();
    await expect(repair()).rejects.toThrow('has not come to run as its new manifest says');
    await other.take(); // given back by whoever had it
  } finally {
    await connection.close();
  }
});
