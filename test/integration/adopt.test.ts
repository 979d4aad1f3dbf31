// `init adopt` and `uninstall adopt` on files that the real kubeadm has made and a real API; the kubelet is played, so
// that what it shows can be chosen.
import { X509Certificate } from 'node:crypto';
import { cp, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { runAdopt } from '../../lib/install/adopt.ts';
import { changeStaticPod } from '../../lib/install/static-pods-apply.ts';
import type { PodManifest } from '../../lib/install/static-pods.ts';
import { runUnadopt } from '../../lib/install/unadopt.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { adoptOptions, asAdoptable, joined } from '../support/adopt-world.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { KubeadmMachine } from '../support/kubeadm-machine.ts';
import { PlayedKubelet } from '../support/played-kubelet.ts';

const { signal } = new AbortController();
const namespace = 'kube-cert-recovery';
let plane: ControlPlane;
let connection: KubeConnection;
let pristine: KubeadmMachine;
beforeAll(async () => {
  plane = await startControlPlane({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  connection = await openConnection({
    kubeconfigFile: plane.recoveryKubeconfig,
    clock: systemClock,
    userAgent: 'test',
  });
  pristine = await KubeadmMachine.create();
});
afterAll(async () => {
  await connection?.close();
  await pristine?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
});

let machine: KubeadmMachine;
let kubelet: PlayedKubelet;
beforeEach(async () => {
  machine = await asAdoptable(await pristine.copy());
  kubelet = played(machine, 'node1');
});
afterEach(async () => {
  await kubelet[Symbol.asyncDispose]();
  await machine[Symbol.asyncDispose]();
  for (const kind of ['secrets', 'configmaps']) {
    await plane.admin(`/api/v1/namespaces/${namespace}/${kind}`, { method: 'DELETE' });
  }
});

function played(of: KubeadmMachine, nodeName: string): PlayedKubelet {
  return new PlayedKubelet(plane, { manifestsDir: of.path('manifests'), nodeName });
}

async function adopt(of = machine, nodeName = 'node1', by = connection): Promise<string> {
  const lines: string[] = [];
  await runAdopt(await adoptOptions(of, { connection: by, nodeName, signal, told: (line) => lines.push(line) }));
  return lines.join('\n');
}

/** A connection whose creations of objects wait: `nth` have succeeded, `attempt` have been tried. */
function beforeCreation(wait: (nth: number, attempt: number) => Promise<void>): KubeConnection {
  let [succeeded, tried] = [0, 0];
  const request: KubeConnection['request'] = async <T>(asked: Parameters<KubeConnection['request']>[0]): Promise<T> => {
    const { metadata } = (asked.body ?? {}) as { metadata?: { resourceVersion?: string } };
    if (metadata?.resourceVersion !== '1') return connection.request<T>(asked);
    await wait(succeeded, tried++);
    const answer = await connection.request<T>(asked);
    succeeded += 1;
    return answer;
  };
  return Object.create(connection, { request: { value: request } }) as KubeConnection;
}

async function unadopt(): Promise<void> {
  await runUnadopt(await adoptOptions(machine, { connection, signal }));
}

async function objectNames(): Promise<readonly string[]> {
  const lists = ['secrets', 'configmaps'].map((kind) => plane.admin(`/api/v1/namespaces/${namespace}/${kind}`));
  const bodies = (await Promise.all(lists)).map(({ body }) => body as { items?: { metadata: { name: string } }[] });
  const names = bodies.flatMap(({ items = [] }) => items.map(({ metadata }) => metadata.name));
  return names.filter((name) => !name.endsWith('-token') && name !== 'kube-root-ca.crt');
}

/** Of the certificate in a file of the pod's, or in the API. */
const published = async (of: KubeadmMachine, name: string): Promise<X509Certificate> =>
  new X509Certificate(await readFile(of.path('kube-cert-recovery/kube-apiserver/certs/secrets', name, 'tls.crt')));
async function inApi(name: string): Promise<X509Certificate> {
  const { body } = await plane.admin(`/api/v1/namespaces/${namespace}/secrets/${name}`);
  return new X509Certificate(Buffer.from((body as { data: Record<string, string> }).data['tls.crt'] ?? '', 'base64'));
}
const manifests = async (of = machine): Promise<Record<string, string>> => {
  const names = await readdir(of.path('manifests'));
  const texts = names.map(async (name) => [name, await readFile(of.path('manifests', name), 'utf8')] as const);
  return Object.fromEntries(await Promise.all(texts));
};

describe('runAdopt()', () => {
  test('adopts a machine, changes nothing the second time, and is taken back to what it was', async () => {
    const before = await manifests();
    expect(await adopt()).toContain('Static pod kube-scheduler: changed, and runs');
    const objects = await objectNames();
    const after = await manifests();
    expect(Object.keys(after)).toEqual(Object.keys(before));
    const again = await adopt();
    expect(again).not.toMatch(/Created|Renewed|Wrote|changed, and/);
    expect(await objectNames()).toEqual(objects);
    expect(await manifests()).toEqual(after);
    // The administrator's rights are those of kubeadm's certificate, also in what is made of it later.
    expect((await inApi('admin-client')).subject).toContain('kubeadm:cluster-admins');
    await unadopt();
    const parsed = (texts: Record<string, string>) => Object.values(texts).map((text) => parseYaml(text));
    expect(parsed(await manifests())).toEqual(parsed(before));
  });

  test('gives the names of a later machine to the certificate that all share, before its API server reads it', async () => {
    await adopt();
    await kubelet[Symbol.asyncDispose]();
    const first = await inApi('kube-apiserver-serving');
    const second = await asAdoptable(await joined(pristine, 'node2', '2001:db8::11'));
    kubelet = played(second, 'node2');
    try {
      const told = await adopt(second, 'node2');
      expect(told).toMatch(/^Renewed Secret ".*kube-apiserver-serving", which did not hold .*node2/m);
      expect(told).not.toContain('Created');
      const shared = await inApi('kube-apiserver-serving');
      expect((await published(second, 'kube-apiserver-serving')).fingerprint256).toBe(shared.fingerprint256);
      for (const address of ['192.0.2.10', '2001:db8::11']) expect(shared.checkIP(address), address).toBe(address);
      for (const name of ['node1', 'node2']) expect(shared.checkHost(name)).toBe(name);
      expect(shared.issuer).toBe(first.issuer);
      // The first machine takes nothing away.
      expect(await adopt(second, 'node2')).not.toContain('Renewed');
    } finally {
      await kubelet[Symbol.asyncDispose]();
      await second[Symbol.asyncDispose]();
    }
  });

  test('comes to one generation on two machines that are adopted at once', async () => {
    const second = await asAdoptable(await joined(pristine, 'node2', '192.0.2.11'));
    // Two machines here would answer for their health on the same ports: the containers of the first do for both.
    const other = new PlayedKubelet(plane, {
      manifestsDir: second.path('manifests'),
      nodeName: 'node2',
      answers: false,
    });
    try {
      // Each finds an object made by the other that it was about to make.
      const [third, first] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const one = beforeCreation(async (nth) => {
        if (nth === 3) third.resolve();
        if (nth === 3) await first.promise;
      });
      const two = beforeCreation(async (nth, attempt) => {
        if (nth === 0 && attempt === 0) await third.promise;
        if (nth === 1) first.resolve();
      });
      const told = await Promise.all([adopt(machine, 'node1', one), adopt(second, 'node2', two)]);
      const created = told.map((text) => [...text.matchAll(/^Created (.*?)(?: from .*)?$/gm)].map(([, what]) => what));
      expect(created.map((own) => own.length > 0)).toEqual([true, true]);
      const names = created.flat();
      expect(names).toHaveLength(new Set(names).size);
      for (const name of ['localhost-recovery-serving', 'admin-client', 'kubelet-client']) {
        const [own, theirs] = await Promise.all([machine, second].map(async (of) => published(of, name)));
        expect(own?.fingerprint256, name).toBe(theirs?.fingerprint256);
      }
      const shared = await inApi('kube-apiserver-serving');
      for (const name of ['node1', 'node2']) expect(shared.checkHost(name)).toBe(name);
    } finally {
      await other[Symbol.asyncDispose]();
      await second[Symbol.asyncDispose]();
    }
  });

  test('writes nothing, anywhere, where the key of the cluster’s CA is elsewhere', async () => {
    await rm(machine.path('pki/ca.key'));
    const before = await manifests();
    await expect(adopt()).rejects.toThrow(
      /^Cannot adopt .*ca\.crt.*: it has no key on this machine; .*bring it here, it becomes a Secret, or leave this cluster to kubeadm$/,
    );
    expect(await objectNames()).toEqual([]);
    expect(await manifests()).toEqual(before);
    expect(await readdir(machine.path())).not.toContain('kube-cert-recovery');
  });
});

describe('changeStaticPod()', () => {
  const change = (before: PodManifest): PodManifest => ({
    ...before,
    metadata: { ...before.metadata, annotations: { ...before.metadata.annotations, 'kube-cert-recovery/digest': 'x' } },
    spec: { ...before.spec, containers: [...before.spec.containers, own] },
  });
  const own = {
    name: 'kube-cert-recovery',
    livenessProbe: { httpGet: { host: '127.0.0.1', port: 11_445, path: '/livez' } },
  };
  const options = () => ({
    api: { connection, signal },
    manifestsDir: machine.path('manifests'),
    nodeName: 'node1',
    clock: systemClock,
    timeoutMs: 3_000,
  });

  test('gives the former manifest back when our container runs but is not ready, and says what it says', async () => {
    const before = await manifests();
    kubelet.healthOf('kube-scheduler').set('syncer', { ok: false, message: 'ConfigMap "a/b" is absent' });
    await expect(changeStaticPod('kube-scheduler', change, options())).rejects.toThrow(
      'Pod "kube-system/kube-scheduler-node1" has not come to run as its new manifest says: its container ' +
        '"kube-cert-recovery" runs, but is not ready: http://127.0.0.1:11445/readyz answers 500: syncer failed: ' +
        'ConfigMap "a/b" is absent; the former one is back in its place. Look at',
    );
    expect(await manifests()).toEqual(before);
  });

  test('waits until it is ready', async () => {
    const health = kubelet.healthOf('kube-scheduler');
    health.set('syncer', { ok: false });
    const begun = performance.now();
    setTimeout(() => health.set('syncer', { ok: true }), 1_000);
    expect(await changeStaticPod('kube-scheduler', change, options())).toBe('written');
    expect(performance.now() - begun).toBeGreaterThan(950);
    expect(await changeStaticPod('kube-scheduler', (before) => before, options())).toBe('unchanged');
  });

  test('does not give back what somebody else has written meanwhile', async () => {
    kubelet.unready.add('kube-cert-recovery');
    const path = machine.path('manifests/kube-scheduler.yaml');
    const other = join(machine.root, 'theirs.yaml');
    await cp(path, other);
    const beforeWait = () => cp(other, path);
    await expect(changeStaticPod('kube-scheduler', change, { ...options(), beforeWait })).rejects.toThrow(
      'somebody else has written it meanwhile, so the former one was not put back',
    );
  });
});

describe('runUnadopt()', () => {
  test('refuses the way back when the cluster trusts a CA that kubeadm’s files do not have', async () => {
    await adopt();
    const adopted = await manifests();
    const path = `/api/v1/namespaces/${namespace}/configmaps/client-ca`;
    const { body } = await plane.admin(path);
    const { data } = body as { data: Record<string, string> };
    const proxy = await readFile(machine.path('pki/front-proxy-ca.crt'), 'utf8');
    const both = { data: { 'ca-bundle.crt': `${data['ca-bundle.crt']}${proxy}` } };
    await plane.admin(path, { method: 'PATCH', contentType: 'application/merge-patch+json', body: both });
    await expect(unadopt()).rejects.toThrow(/"ca\.crt" lacks "CN=front-proxy-ca" .*Leave this machine adopted/);
    expect(await manifests()).toEqual(adopted);
  });
});
