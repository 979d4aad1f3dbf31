// `init adopt` and `uninstall adopt` on files that the real kubeadm has made and a real API; the kubelet is a fake, so
// that what it shows can be chosen.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { appendFile, cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { leftInApi } from '../../cmd/init-adopt.ts';
import { type AdoptOptions, runAdopt } from '../../lib/adopt/adopt.ts';
import { withManifestsLock } from '../../lib/adopt/manifests-lock.ts';
import { readRecord } from '../../lib/adopt/record.ts';
import { changeStaticPod } from '../../lib/adopt/static-pods-apply.ts';
import type { PodManifest } from '../../lib/adopt/static-pods.ts';
import type { MachineOptions } from '../../lib/adopt/kubeadm-files.ts';
import { runUnadopt } from '../../lib/adopt/unadopt.ts';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { Health, serveHealth } from '../../lib/health.ts';
import { podContainers } from '../../lib/install/accounts.ts';
import { runUninstall } from '../../lib/install/uninstall.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { adoptOptions, asAdoptable, joined } from '../support/cluster/adopt-world.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { FakeKubelet } from '../support/cluster/fake-kubelet.ts';

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
let kubelet: FakeKubelet;
beforeEach(async () => {
  machine = await asAdoptable(await pristine.copy());
  kubelet = fakeKubelet(machine, 'node1');
});
afterEach(async () => {
  await kubelet[Symbol.asyncDispose]();
  await machine[Symbol.asyncDispose]();
  for (const kind of ['secrets', 'configmaps']) {
    await plane.admin(`/api/v1/namespaces/${namespace}/${kind}`, { method: 'DELETE' });
  }
});

function fakeKubelet(of: KubeadmMachine, nodeName: string, answers = true): FakeKubelet {
  return new FakeKubelet(plane, { manifestsDir: of.path('manifests'), nodeName, answers });
}

async function adopt(of = machine, nodeName = 'node1', by = connection): Promise<string> {
  const lines: string[] = [];
  await runAdopt(await adoptOptions(of, { connection: by, nodeName, signal, print: (line) => lines.push(line) }));
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

async function unadopt(more: Partial<MachineOptions> = {}): Promise<void> {
  await runUnadopt({ ...(await adoptOptions(machine, { connection, signal })), ...more });
}

const adoptWith = async (more: Partial<AdoptOptions>): Promise<void> =>
  void (await runAdopt({ ...(await adoptOptions(machine, { connection, signal })), ...more }));

/** A connection, and what it was asked to change. */
function watched(): { readonly by: KubeConnection; readonly changes: string[] } {
  const changes: string[] = [];
  const request: KubeConnection['request'] = (asked) => {
    if (asked.method !== 'GET') changes.push(`${asked.method} ${asked.path}`);
    return connection.request(asked);
  };
  return { by: Object.create(connection, { request: { value: request } }) as KubeConnection, changes };
}

/** Throws at the line that begins like that: the run ends there. */
const endAt = (start: string) => (line: string) => {
  if (line.startsWith(start)) throw new Error(`ended at ${start}`);
};
const imagesInRecord = async (): Promise<readonly string[] | undefined> =>
  (await readRecord(machine.path('kube-cert-recovery')))?.additions.map(({ image }) => image);

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
    kubelet = fakeKubelet(second, 'node2');
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
    // Two machines here would answer for their health on the same ports, and each may come first: both are answered for.
    await kubelet[Symbol.asyncDispose]();
    kubelet = fakeKubelet(machine, 'node1', false);
    const other = fakeKubelet(second, 'node2', false);
    const end = new AbortController();
    const served = Object.values(podContainers).map(({ healthPort: port }) =>
      serveHealth({
        address: { host: '127.0.0.1', port },
        health: new Health(),
        clock: systemClock,
        signal: end.signal,
      }),
    );
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
      end.abort();
      for (const { closed } of await Promise.all(served)) await closed;
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

describe('a machine', () => {
  const busy = new RecoveryError('AlreadyRunning', 'kubeadm runs');
  const refuseBesideOthers = (): void => {
    throw busy;
  };

  test('is not touched beside kubeadm, nor while another process changes its manifests', async () => {
    const { by, changes } = watched();
    const before = await manifests();
    const lockDir = join(machine.root, 'run');
    const untouched = async (): Promise<void> => {
      expect(changes).toEqual([]);
      expect(await manifests()).toEqual(before);
      expect(await readdir(machine.path())).not.toContain('kube-cert-recovery');
    };
    await expect(adoptWith({ connection: by, refuseBesideOthers })).rejects.toBe(busy);
    await untouched();
    await withManifestsLock({ lockDir, clock: systemClock }, async () => {
      await expect(adoptWith({ connection: by })).rejects.toMatchObject({ code: 'AlreadyRunning' });
      await untouched();
      await adoptWith({ connection: by, dryRun: true });
    });
    await untouched();
  });

  test('is not given back beside kubeadm, nor while another process changes its manifests', async () => {
    await adopt();
    const adopted = await manifests();
    await expect(unadopt({ refuseBesideOthers })).rejects.toBe(busy);
    await withManifestsLock({ lockDir: join(machine.root, 'run'), clock: systemClock }, async () => {
      // Its guards are those of a machine that nobody changes.
      await rm(machine.path('pki/ca.crt'));
      await expect(unadopt()).rejects.toMatchObject({ code: 'AlreadyRunning' });
    });
    expect(await manifests()).toEqual(adopted);
    expect(await imagesInRecord()).toHaveLength(3);
  });

  test('in the middle of a rotation of its CA is refused before anything is written, also with dryRun', async () => {
    const proxy = await readFile(machine.path('pki/front-proxy-ca.crt'));
    await appendFile(machine.path('pki/ca.crt'), proxy);
    const { by, changes } = watched();
    const before = await manifests();
    for (const dryRun of [true, false]) {
      await expect(adoptWith({ connection: by, dryRun })).rejects.toThrow(
        'ConfigMap "client-ca" in the API would not hold "CN=front-proxy-ca" of "ca.crt"',
      );
    }
    expect(changes).toEqual([]);
    expect(await manifests()).toEqual(before);
    expect(await readdir(machine.path())).not.toContain('kube-cert-recovery');
  });

  test('whose flags are not kubeadm’s is refused with dryRun, too', async () => {
    const path = machine.path('manifests/kube-scheduler.yaml');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace(/^( *)- --leader-elect=true$/m, '$&\n$1- --kubeconfig\n$1- /root.conf'));
    await expect(adoptWith({ dryRun: true })).rejects.toThrow('--kubeconfig names "/root.conf"');
  });

  test('has each addition in its record as soon as its pod runs, and the former manifest beside it', async () => {
    const [former, next] = ['example.com/recovery:1', 'example.com/recovery:2'];
    const before = await readFile(machine.path('manifests/kube-apiserver.yaml'), 'utf8');
    await expect(adoptWith({ print: endAt('Static pod kube-controller-manager: changed') })).rejects.toThrow(
      'ended at',
    );
    expect(await imagesInRecord()).toEqual([former, former]);
    await adopt();
    const kept = machine.path('kube-cert-recovery/kube-apiserver/former-manifest.yaml');
    expect(await readFile(kept, 'utf8')).toBe(before);
    expect(await imagesInRecord()).toEqual([former, former, former]);
    await expect(adoptWith({ image: next, print: endAt('Static pod kube-apiserver: changed') })).rejects.toThrow(
      'ended at',
    );
    expect(await imagesInRecord()).toEqual([next, former, former]);
    await adoptWith({ image: next });
    expect(await imagesInRecord()).toEqual([next, next, next]);
  });

  test('gets an object’s directory that is gone, and what a running container writes is left to it', async () => {
    await adopt();
    const directory = machine.path('kube-cert-recovery/kube-scheduler/certs');
    const [gone, kept] = [join(directory, 'secrets/kube-scheduler-client'), join(directory, 'configmaps')];
    const own = join(kept, 'kube-apiserver-server-ca/ca-bundle.crt');
    await rm(gone, { recursive: true });
    await writeFile(own, 'the syncer’s business');
    expect(await adopt()).not.toContain('changed, and runs');
    expect(await readdir(gone)).toEqual(expect.arrayContaining(['tls.crt', 'tls.key']));
    expect(await readFile(own, 'utf8')).toBe('the syncer’s business');
    // Without our container the annotations alone write nothing.
    const path = machine.path('manifests/kube-scheduler.yaml');
    const manifest = parseYaml(await readFile(path, 'utf8')) as PodManifest;
    const containers = manifest.spec.containers.filter(({ name }) => name === 'kube-scheduler');
    await kubelet[Symbol.asyncDispose]();
    await writeFile(path, toYaml({ ...manifest, spec: { ...manifest.spec, containers } }));
    kubelet = fakeKubelet(machine, 'node1');
    await adopt();
    expect(await readFile(own, 'utf8')).toContain('BEGIN CERTIFICATE');
  });

  test('in whose pod a link was planted is refused before anything is written, also with dryRun', async () => {
    await adopt();
    const victim = join(machine.root, 'victim');
    await mkdir(victim, { mode: 0o755 });
    const planted = machine.path('kube-cert-recovery/kube-scheduler/credentials');
    await rm(planted, { recursive: true });
    await symlink(victim, planted);
    const { by, changes } = watched();
    for (const dryRun of [true, false]) {
      await expect(adoptWith({ connection: by, dryRun })).rejects.toThrow(`"${planted}" is a link; remove it`);
    }
    expect(changes).toEqual([]);
    await unadopt();
    expect(await readdir(victim)).toEqual([]);
    expect((await stat(victim)).mode & 0o777).toBe(0o755);
  });

  test('with a FIFO in the place of a file is refused', async () => {
    const path = machine.path('bootstrap-kubelet.conf');
    await promisify(execFile)('mkfifo', [path]);
    await expect(adopt()).rejects.toThrow(/bootstrap-kubelet\.conf".*is a device, a FIFO or a socket/);
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
    image: 'localhost/nope:1',
    livenessProbe: { httpGet: { host: '127.0.0.1', port: podContainers['kube-scheduler'].healthPort, path: '/livez' } },
  };
  const options = () => ({
    api: { connection, signal },
    kubernetesDir: machine.path(),
    nodeName: 'node1',
    clock: systemClock,
    timeoutMs: 20_000,
  });

  test('gives the former manifest back when our container runs but is not ready, and says what it says', async () => {
    const before = await manifests();
    kubelet.healthOf('kube-scheduler').set('syncer', { ok: false, message: 'ConfigMap "a/b" is absent' });
    await expect(changeStaticPod('kube-scheduler', change, options())).rejects.toThrow(
      'Pod "kube-system/kube-scheduler-node1" has not come to run as its new manifest says: its container ' +
        `"kube-cert-recovery" runs, but is not ready: http://127.0.0.1:${podContainers['kube-scheduler'].healthPort}/readyz ` +
        'answers 500: syncer failed: ' +
        'ConfigMap "a/b" is absent; the former one is back in its place. Look at',
    );
    expect(await manifests()).toEqual(before);
  });

  test.each([
    ['InvalidImageName', {}],
    ['ErrImageNeverPull', {}],
    ['ErrImagePull', { pullTimeoutMs: 500 }],
    ['ImagePullBackOff', { pullTimeoutMs: 500 }],
  ])('gives the former manifest back when our image does not come (%s)', async (reason, patience) => {
    const before = await manifests();
    kubelet.waiting.set('kube-cert-recovery', reason);
    // Not when its time is up: that is longer than this test may last.
    await expect(
      changeStaticPod('kube-scheduler', change, { ...options(), timeoutMs: 3_600_000, ...patience }),
    ).rejects.toThrow(
      `its container "kube-cert-recovery" has no image "localhost/nope:1" (${reason}): load it into the container ` +
        'runtime of this machine, or name one in a registry that the machine reaches; the former one is back in its place',
    );
    expect(await manifests()).toEqual(before);
  });

  test('waits for an image that comes at a later try', async () => {
    kubelet.waiting.set('kube-cert-recovery', 'ErrImagePull');
    setTimeout(() => kubelet.waiting.set('kube-cert-recovery', 'ImagePullBackOff'), 500);
    setTimeout(() => kubelet.waiting.clear(), 1_000);
    const begun = performance.now();
    const patience = { timeoutMs: 30_000, pullTimeoutMs: 20_000 };
    expect(await changeStaticPod('kube-scheduler', change, { ...options(), ...patience })).toBe('written');
    expect(performance.now() - begun).toBeGreaterThan(950);
  });

  test('says nothing of our image when another container has none', async () => {
    kubelet.waiting.set('kube-scheduler', 'InvalidImageName');
    await expect(changeStaticPod('kube-scheduler', change, options())).rejects.toThrow('not ready: kube-scheduler;');
  });

  test('waits until it is ready', async () => {
    const health = kubelet.healthOf('kube-scheduler');
    health.set('syncer', { ok: false });
    const begun = performance.now();
    setTimeout(() => health.set('syncer', { ok: true }), 1_000);
    expect(await changeStaticPod('kube-scheduler', change, { ...options(), timeoutMs: 60_000 })).toBe('written');
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

  test('names the record that keeps a machine adopted when no API server answers', async () => {
    await adopt();
    const adopted = await manifests();
    const kubeconfigFile = join(machine.root, 'away.kubeconfig');
    const text = await readFile(plane.recoveryKubeconfig, 'utf8');
    await writeFile(kubeconfigFile, text.replaceAll(/https:\/\/127\.0\.0\.1:\d+/g, 'https://127.0.0.1:1'), {
      mode: 0o600,
    });
    const away = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
    try {
      const record = machine.path('kube-cert-recovery/adoption.json');
      await expect(unadopt({ connection: away })).rejects.toThrow(`remove "${record}" first`);
    } finally {
      await away.close();
    }
    expect(await manifests()).toEqual(adopted);
    expect(await imagesInRecord()).toHaveLength(3);
  });
});

test('runUninstall() takes nothing from an adopted machine unless it is forced, also one without admin.conf', async () => {
  await rm(machine.path('admin.conf')); // as many have it: nothing of the control plane reads it
  await adopt();
  const uninstall = (more: { readonly purge?: boolean; readonly dryRun?: boolean; readonly force?: boolean } = {}) =>
    runUninstall({ connection, directory: machine.path('none'), ...more, signal });
  const refusal =
    'modes: static pods of node1. Without these identities nothing renews their certificates, and the control plane ends with the first that expires; run "kube-cert-recovery uninstall adopt" there first';
  for (const purge of [true, false]) {
    await expect(uninstall({ purge })).rejects.toThrow(refusal);
    // A dry run reports what would go, and the same refusal.
    expect((await uninstall({ purge, dryRun: true })).left).toContain(refusal);
  }
  expect((await inApi('admin-client')).subject).toContain('O=kubeadm:cluster-admins');
  const account = `ServiceAccount "${namespace}/kube-cert-recovery-regen"`;
  expect((await uninstall({ force: true, dryRun: true })).removed).toContain(account);
  const admin = { connection, signal, nodeName: 'node1', directory: '/etc/kubernetes/kube-cert-recovery' };
  const left = () => leftInApi({ ...admin, kubeconfig: '/etc/kubernetes/admin.conf' });
  expect((await leftInApi({ ...admin, nodeName: 'node2', kubeconfig: '' }))[0]).toContain('static pods of node1 live');
  await unadopt();
  // The command as it is told, without the name of a preset.
  expect((await left())[0]).toMatch(
    /: kube-cert-recovery uninstall --part=modes,approver --purge --kubeconfig=\/etc\/kubernetes\/admin\.conf$/,
  );
  const { removed } = await uninstall({ purge: true, dryRun: true });
  expect(removed).toContain(`Secret "${namespace}/admin-client"`);
  expect(removed).toContain(`ConfigMap "${namespace}/kube-cert-recovery-installed-kubernetes"`);
});
