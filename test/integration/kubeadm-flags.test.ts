// Machines that the real kubeadm made, whose components are then told of other files than kubeadm's: what their flags name
// is repaired or reported, and nothing else is written.
import { X509Certificate } from 'node:crypto';
import { access, copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveHere } from '../../cmd/read-config.ts';
import { systemClock } from '../../lib/clock.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { expire } from '../support/cluster/expire.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

/** Leaves of what the components of this machine are told, half a minute past their end. */
async function expireLeaves(machine: KubeadmMachine): Promise<void> {
  const store = createDiskStore();
  const environment = { directories: machine.directories };
  const resolved = await resolveHere({ inventory: loadPreset('kubeadm'), environment });
  const there = await Promise.all(
    resolved.artefacts.map(({ location }) => store.read(location, AbortSignal.timeout(60_000))),
  );
  const artefacts = resolved.artefacts.filter((_, at) => there[at]?.problem === undefined && there[at] !== undefined);
  await expire({
    resolved: { ...resolved, artefacts },
    store,
    now: systemClock.now(),
    agoMs: 30_000,
    lifeMs: 60_000,
    except: ({ kind }) => kind !== 'target',
  });
}

async function edit(file: string, change: (text: string) => string): Promise<void> {
  const before = await readFile(file, 'utf8');
  const after = change(before);
  expect(after).not.toBe(before);
  await writeFile(file, after);
}

async function move(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await rename(from, to);
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
const isValid = async (path: string): Promise<boolean> =>
  new X509Certificate(await readFile(path)).validToDate > systemClock.now();

/** The API server of this machine is told of custom/tls.crt and .key; `from`: the machine whose pair is moved there. */
async function serveCustomPair(machine: KubeadmMachine, from = machine): Promise<void> {
  const told = (text: string): string => text.replaceAll('/pki/apiserver.', '/custom/tls.');
  await edit(machine.path('manifests/kube-apiserver.yaml'), told);
  for (const end of ['crt', 'key']) await move(from.path(`pki/apiserver.${end}`), machine.path(`custom/tls.${end}`));
}

describe('a run on a machine whose flags name other files than kubeadm', { concurrent: false }, () => {
  it('renews the serving certificate that kube-apiserver is told, and makes none in its usual place', async () => {
    await using machine = await whole.copy();
    await serveCustomPair(machine);
    await expireLeaves(machine);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await isValid(machine.path('custom/tls.crt'))).toBe(true);
    expect(await isThere(machine.path('pki/apiserver.crt'))).toBe(false);
  });

  it('reports a serving certificate of another CA once it has expired, and leaves its bytes', async () => {
    await using machine = await whole.copy();
    await using other = await KubeadmMachine.create();
    await expireLeaves(other);
    await serveCustomPair(machine, other);
    const before = await readFile(machine.path('custom/tls.crt'));
    const { code, stderr } = await machine.regen();
    expect(await readFile(machine.path('custom/tls.crt'))).toEqual(before);
    expect(code, stderr).toBe(5);
    expect(stderr).toContain('custom/tls.crt');
  });

  it('leaves a valid serving certificate of another CA alone, also where that has the name of this one', async () => {
    await using machine = await whole.copy();
    await using other = await KubeadmMachine.create();
    await serveCustomPair(machine, other);
    const before = await readFile(machine.path('custom/tls.crt'));
    const { code, stderr } = await machine.regen();
    expect(await readFile(machine.path('custom/tls.crt'))).toEqual(before);
    expect(code, stderr).toBe(0);
  });

  it('renews what etcd is told, and makes no copy in the usual directory', async () => {
    await using machine = await whole.copy();
    await edit(machine.path('manifests/etcd.yaml'), (text) => text.replaceAll('/pki/etcd', '/etcd-ssl'));
    await edit(machine.path('manifests/kube-apiserver.yaml'), (text) => text.replaceAll('/pki/etcd/', '/etcd-ssl/'));
    await move(machine.path('pki/etcd'), machine.path('etcd-ssl'));
    await expireLeaves(machine);
    const { code, stderr } = await machine.regen();
    expect(await isValid(machine.path('etcd-ssl/server.crt')), stderr).toBe(true);
    expect(await isValid(machine.path('etcd-ssl/peer.crt'))).toBe(true);
    expect(await isThere(machine.path('pki/etcd/server.crt'))).toBe(false);
    expect(code, stderr).toBe(0);
  });

  it('repairs a machine that has an etcd of kubeadm alone, and makes nothing else', async () => {
    await using machine = await whole.copy();
    for (const name of ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler']) {
      await rm(machine.path(`manifests/${name}.yaml`));
    }
    for (const name of await readdir(machine.path())) {
      if (name.endsWith('.conf')) await rm(machine.path(name));
    }
    for (const name of await readdir(machine.path('pki'))) {
      if (name !== 'etcd') await rm(machine.path('pki', name));
    }
    await expireLeaves(machine);
    const before = await readdir(machine.path(), { recursive: true });
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    for (const name of ['server', 'peer', 'healthcheck-client']) {
      expect(await isValid(machine.path(`pki/etcd/${name}.crt`)), name).toBe(true);
    }
    expect(await readdir(machine.path(), { recursive: true })).toEqual(before);
  });

  it('says of a copy in its usual place that nobody reads it', async () => {
    await using machine = await whole.copy();
    await serveCustomPair(machine);
    await copyFile(machine.path('custom/tls.crt'), machine.path('pki/apiserver.crt'));
    const { stdout } = await machine.status();
    expect(stdout).toContain('/pki/apiserver.crt" is read by no component and left alone');
  });

  it('renews the kubeconfig that kube-controller-manager is told, and makes no other', async () => {
    await using machine = await whole.copy();
    await edit(machine.path('manifests/kube-controller-manager.yaml'), (text) =>
      text.replaceAll('controller-manager.conf', 'kcm-other.conf'),
    );
    await move(machine.path('controller-manager.conf'), machine.path('kcm-other.conf'));
    await expireLeaves(machine);
    const before = await readFile(machine.path('kcm-other.conf'));
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await readFile(machine.path('kcm-other.conf'))).not.toEqual(before);
    expect(await isThere(machine.path('controller-manager.conf'))).toBe(false);
  });

  it('reads a manifest in JSON of any name, as the kubelet does', async () => {
    await using machine = await whole.copy();
    await serveCustomPair(machine);
    const manifest = machine.path('manifests/kube-apiserver.yaml');
    await writeFile(machine.path('manifests/api.json'), JSON.stringify(parseYaml(await readFile(manifest, 'utf8'))));
    await rm(manifest);
    await expireLeaves(machine);
    expect(await isValid(machine.path('custom/tls.crt'))).toBe(false);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await isValid(machine.path('custom/tls.crt'))).toBe(true);
    expect(await isThere(machine.path('pki/apiserver.crt'))).toBe(false);
  });

  it('misses no certificate of an etcd that runs without TLS', async () => {
    await using machine = await whole.copy();
    await edit(machine.path('manifests/etcd.yaml'), (text) =>
      text.replaceAll('https://', 'http://').replaceAll(/^ {4}- --.*(cert|key|ca)-(file|auth).*\n/gm, ''),
    );
    await edit(machine.path('manifests/kube-apiserver.yaml'), (text) =>
      text
        .replaceAll(/^ {4}- --etcd-(ca|cert|key)file.*\n/gm, '')
        .replaceAll('https://127.0.0.1:2379', 'http://127.0.0.1:2379'),
    );
    await rm(machine.path('pki/etcd'), { recursive: true });
    for (const name of ['crt', 'key']) await rm(machine.path(`pki/apiserver-etcd-client.${name}`));
    await expireLeaves(machine);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await isThere(machine.path('pki/etcd'))).toBe(false);
  });

  it.each([
    ['an environment file', 'KUBE_SCHEDULER_ARGS="--leader-elect=true"\n', 'a file of environment variables'],
    [
      'a configuration of its component',
      'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: true}\n',
      'a document of kind KubeSchedulerConfiguration',
    ],
  ])('never writes %s that has the name of a kubeconfig', async (_title, content, what) => {
    await using machine = await whole.copy();
    await expireLeaves(machine);
    await writeFile(machine.path('scheduler.conf'), content);
    const { code, stderr } = await machine.regen();
    expect(await readFile(machine.path('scheduler.conf'), 'utf8')).toBe(content);
    expect(stderr).toContain(what);
    expect(code, stderr).toBe(5);
    expect(await isValid(machine.path('pki/apiserver.crt'))).toBe(true);
  });
});
