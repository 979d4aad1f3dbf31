// Repair of manifests where an API server answers; the kubelet is a fake, so that what does not come to run can be chosen.
// That real pods run when they were repaired is told by test/e2e/adopted-host.test.ts.
import { writeFileSync } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { reach as reachApi } from '../../lib/run/repair-connection.ts';
import { forgetFailures } from '../../lib/adopt/manifests-lock.ts';
import { type RepairOptions, runRepair } from '../../lib/adopt/repair.ts';
import { changeStaticPod, podManifest } from '../../lib/adopt/static-pods-apply.ts';
import { type PodManifest, removeFrom } from '../../lib/adopt/static-pods.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { isCode, RecoveryError } from '../../lib/errors.ts';
import { staticPods } from '../../lib/components.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { MachineLease, restartLease } from '../../lib/restart/machine-lease.ts';
import { createLog } from '../../lib/log.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { adoptedMachine, kubeadmManifest, recordIn } from '../support/cluster/adopted-files.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { type KubeconfigOptions, writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { FakeKubelet } from '../support/cluster/fake-kubelet.ts';

let plane: ControlPlane;
let connection: KubeConnection;
beforeAll(async () => {
  plane = await startControlPlane();
  connection = await reach();
  const namespace = { metadata: { name: restartLease.namespace } };
  await plane.admin('/api/v1/namespaces', { method: 'POST', body: namespace });
});
afterAll(async () => {
  await connection?.close();
  await plane?.[Symbol.asyncDispose]();
});

let root: string;
let told: Readonly<Record<string, string>>[];
beforeEach(async () => {
  told = [];
  root = await mkdtemp(join(tmpdir(), 'adopt-repair-'));
  await adoptedMachine(root);
});
afterEach(() => rm(root, { recursive: true, force: true }));

const { signal } = new AbortController();
const reach = (): Promise<KubeConnection> =>
  openConnection({ kubeconfigFile: plane.adminKubeconfig, clock: systemClock, userAgent: 'test' });
const manifestsDir = () => join(root, 'kubernetes/manifests');
const path = (pod: string): string => join(manifestsDir(), `${pod}.yaml`);
const text = (pod: string): Promise<string> => readFile(path(pod), 'utf8');
const rewrite = (pod: string): Promise<void> => writeFile(path(pod), kubeadmManifest(pod, root));
const notes = async (): Promise<string[]> =>
  (await readdir(join(root, 'lock/manifests'))).filter((name) => name.endsWith('.failed'));

/** What was logged of each pod after its drift. */
const events = () =>
  told.flatMap(({ event = '', component = '' }) => (event === 'manifest.drifted' ? [] : [`${event} ${component}`]));

/** The messages of what failed. */
async function repair(more: Partial<RepairOptions> = {}): Promise<readonly string[]> {
  const { failures } = await runRepair({
    directory: join(root, 'own'),
    lockDir: join(root, 'lock'),
    reach,
    refuseBesideOthers: () => undefined,
    timeoutMs: 1500,
    dryRun: false,
    clock: systemClock,
    log: createLog({ write: (entry) => void told.push(JSON.parse(entry) as Record<string, string>) }),
    signal,
    ...more,
  });
  return failures.map(String);
}

describe('where no kubelet runs the pods', () => {
  test('a pod that does not come to run has its former manifest back, and is not tried again until that is another', async () => {
    const manifest = kubeadmManifest('kube-scheduler', root);
    await rewrite('kube-scheduler');
    expect(await repair()).toEqual([
      expect.stringMatching(/has not come to run as its new manifest says: .*; the former one is back in its place/),
    ]);
    expect(await text('kube-scheduler')).toBe(manifest);
    // So long that waiting for the pod would end the test.
    expect(await repair({ timeoutMs: 600_000 })).toEqual([
      expect.stringContaining('its pod has not come to run when that was tried'),
    ]);
    expect(await text('kube-scheduler')).toBe(manifest);
    await writeFile(path('kube-scheduler'), `# edited\n${manifest}`);
    expect(await repair()).toEqual([expect.stringContaining('has not come to run as its new manifest says')]);
    expect(await text('kube-scheduler')).toBe(`# edited\n${manifest}`);
    // The same once an adoption has seen the pod run.
    expect(await notes()).toEqual(['kube-scheduler.failed']);
    await forgetFailures(join(root, 'lock'));
    expect(await repair()).toEqual([expect.stringContaining('has not come to run as its new manifest says')]);
  });

  test('the pods after one that did not come to run are left as they are', async () => {
    for (const pod of staticPods) await rewrite(pod);
    for (const timeoutMs of [1500, 600_000]) {
      told = [];
      expect(await repair({ timeoutMs })).toHaveLength(1);
      expect(events()).toEqual(['manifest.failed kube-apiserver']);
    }
    for (const pod of staticPods) expect(await text(pod)).toBe(kubeadmManifest(pod, root));
    expect(await notes()).toEqual(['kube-apiserver.failed']);
  });
});

describe('where a kubelet runs the pods', () => {
  let kubelet: FakeKubelet;
  beforeEach(() => {
    kubelet = new FakeKubelet(plane, { manifestsDir: manifestsDir(), nodeName: 'node1' });
  });
  afterEach(() => kubelet[Symbol.asyncDispose]());

  test('what has been rewritten is put right, and nothing else; it can be taken out again', async () => {
    const before = await Promise.all(staticPods.map(text));
    await rewrite('kube-apiserver');
    await rewrite('kube-scheduler');
    expect(await repair({ timeoutMs: 120_000 })).toEqual([]);
    expect(events()).toEqual(['manifest.repaired kube-apiserver', 'manifest.repaired kube-scheduler']);
    expect(await Promise.all(staticPods.map(text))).toEqual(before);
    const manifest = podManifest(await text('kube-apiserver'), 'kube-apiserver', 'm');
    expect(toYaml(removeFrom(manifest))).toBe(toYaml(parseYaml(kubeadmManifest('kube-apiserver', root))));
    told = [];
    expect(await repair()).toEqual([]);
    expect(told).toEqual([]);
  });

  test('a pod to which somebody has given other files is refused, or whose files of ours are gone; others are repaired', async () => {
    for (const pod of staticPods) await rewrite(pod);
    const other = kubeadmManifest('kube-scheduler', root).replace('/scheduler.conf', '/other.conf');
    await writeFile(path('kube-scheduler'), other);
    const lost = recordIn(root).additions[0]?.layout.configFile ?? '';
    await rm(lost);
    expect(await repair({ timeoutMs: 120_000 })).toEqual([
      expect.stringContaining(`Cannot repair static pod "kube-apiserver": "${lost}" is not there`),
      expect.stringContaining('--kubeconfig names'),
    ]);
    expect(await text('kube-apiserver')).toBe(kubeadmManifest('kube-apiserver', root));
    expect(await text('kube-scheduler')).toBe(other);
    expect(events()).toEqual([
      'manifest.failed kube-apiserver',
      'manifest.repaired kube-controller-manager',
      'manifest.failed kube-scheduler',
    ]);
  });

  test('kubeadm is looked for before each pod, and what was written meanwhile is what is judged', async () => {
    await rewrite('kube-controller-manager');
    await rewrite('kube-scheduler');
    let asked = 0;
    // Once for the whole run, then for each of the three pods: it has begun when the last one's turn comes.
    const refuseBesideOthers = (): void => {
      asked += 1;
      if (asked === 4) throw new RecoveryError('AlreadyRunning', 'kubeadm runs');
    };
    await expect(repair({ refuseBesideOthers, timeoutMs: 120_000 })).rejects.toThrow('kubeadm runs');
    expect(events()).toEqual(['manifest.repaired kube-controller-manager']);
    expect(await text('kube-scheduler')).toBe(kubeadmManifest('kube-scheduler', root));
    const other = kubeadmManifest('kube-scheduler', root).replace('/scheduler.conf', '/other.conf');
    const writes = (): void => {
      asked += 1;
      if (asked === 8) writeFileSync(path('kube-scheduler'), other);
    };
    expect(await repair({ refuseBesideOthers: writes })).toEqual([expect.stringContaining('--kubeconfig names')]);
    expect(await text('kube-scheduler')).toBe(other);
  });

  test('a note of a failed try goes when the pod runs', async () => {
    await rewrite('kube-scheduler');
    kubelet.unready.add('kube-cert-recovery');
    expect(await repair()).toHaveLength(1);
    expect(await notes()).toEqual(['kube-scheduler.failed']);
    kubelet.unready.clear();
    await writeFile(path('kube-scheduler'), `# edited\n${kubeadmManifest('kube-scheduler', root)}`);
    expect(await repair({ timeoutMs: 120_000 })).toEqual([]);
    expect(await notes()).toEqual([]);
  });

  test('a pod whose digest has not changed is believed when the kubelet shows another hash, and not before', async () => {
    const adopted = await text('kube-scheduler');
    const drift = adopted.replace(/ +- "?--kubeconfig=\S*\/own\/\S*\n/, '');
    expect(drift).not.toBe(adopted);
    await shown('kube-scheduler', adopted);
    await writeFile(path('kube-scheduler'), drift);
    await shown('kube-scheduler', drift);
    kubelet.isAsleep = true;
    expect(await repair()).toEqual([expect.stringContaining('the kubelet runs the former manifest')]);
    expect(await text('kube-scheduler')).toBe(drift);
    kubelet.isAsleep = false;
    await forgetFailures(join(root, 'lock'));
    expect(await repair({ timeoutMs: 120_000 })).toEqual([]);
    expect(await text('kube-scheduler')).toBe(adopted);
    // It never noticed what was there for a moment, so it shows nothing new.
    await shown('kube-scheduler', adopted);
    kubelet.isAsleep = true;
    await writeFile(path('kube-scheduler'), drift);
    expect(await repair()).toEqual([]);
    expect(await text('kube-scheduler')).toBe(adopted);
  });

  describe('while another machine restarts its kube-apiserver', () => {
    const turnOf = (holder: string): MachineLease =>
      new MachineLease({ connection, holder, clock: systemClock, signal });
    let other: MachineLease;
    beforeEach(async () => {
      other = turnOf('node2');
      await other.acquire();
      await rewrite('kube-apiserver');
    });
    afterEach(() => other.release());

    test('it waits for its turn, and the other pods do not', async () => {
      await rewrite('kube-scheduler');
      expect(await repair({ timeoutMs: 120_000 })).toEqual([]);
      expect(events()).toEqual(['manifest.waiting kube-apiserver', 'manifest.repaired kube-scheduler']);
      expect(told.find(({ event }) => event === 'manifest.waiting')?.['message']).toContain('is held by "node2"');
      expect(await text('kube-apiserver')).toBe(kubeadmManifest('kube-apiserver', root));
      await other.release();
      expect(await repair({ timeoutMs: 120_000 })).toEqual([]);
      await other.acquire(); // released by its holder
    });

    test('a run of the timer knows how long those before it have waited for one that is dead', async () => {
      let uptime = 1000;
      const clock: Clock = { ...systemClock, uptimeSeconds: () => uptime };
      for (const seconds of [0, 300, 299]) {
        uptime += seconds;
        expect(await repair({ clock })).toEqual([]);
      }
      expect(events()).toEqual(Array.from({ length: 3 }, () => 'manifest.waiting kube-apiserver'));
      expect(told.at(-1)?.['message']).toContain('for 1 s more');
      uptime += 1;
      expect(await repair({ clock, timeoutMs: 120_000 })).toEqual([]);
      expect(events().at(-1)).toBe('manifest.repaired kube-apiserver');
    });

    test('whoever types a command is told that it waits, and waits', async () => {
      const machine = {
        api: { connection, signal },
        kubernetesDir: join(root, 'kubernetes'),
        nodeName: 'node1',
        clock: systemClock,
      };
      const lines: string[] = [];
      const waits = (line: string): void => {
        lines.push(line);
        void other.release();
      };
      const edit = (before: PodManifest): PodManifest => ({
        ...before,
        metadata: { ...before.metadata, annotations: {} },
      });
      expect(await changeStaticPod('kube-apiserver', edit, { ...machine, print: waits })).toBe('written');
      expect(lines).toEqual([
        expect.stringContaining('Static pod kube-apiserver waits for the Lease. Cannot take Lease'),
        expect.stringMatching(
          /^Static pod kube-apiserver: manifest changed, waiting until it runs \(\d+ s at most; its API/,
        ),
      ]);
      // Who changes nothing restarts nothing.
      await other.acquire();
      const same = (before: PodManifest): PodManifest => before;
      expect(await changeStaticPod('kube-apiserver', same, { ...machine, leaseTimeoutMs: 0 })).toBe('unchanged');
    });
  });

  /** Resolves when the mirror pod is that of this manifest. */
  async function shown(pod: string, manifest: string): Promise<void> {
    const { spec } = parseYaml(manifest) as PodManifest;
    await eventually(async () => {
      const { body } = await plane.admin(`/api/v1/namespaces/kube-system/pods/${pod}-node1`);
      const { spec: own, status } = body as Partial<PodManifest> & { status?: { containerStatuses?: unknown } };
      expect(own?.containers.map(({ command }) => command)).toEqual(spec.containers.map(({ command }) => command));
      expect(status?.containerStatuses).toBeDefined();
    });
  }
});

describe('reach()', () => {
  const connecting = { config: {}, clock: systemClock, log: createLog({ write: () => undefined }), signal };
  const reached = (...kubeconfigs: readonly string[]): Promise<KubeConnection | undefined> =>
    reachApi(kubeconfigs, recordIn(root), connecting, 300);
  const given = (name: string, options: Partial<KubeconfigOptions>): Promise<string> =>
    writeKubeconfig(join(root, name), { server: connection.server, certificateAuthority: trusted, ...options });
  let trusted: string;
  let away: string;
  beforeEach(async () => {
    trusted = join(root, 'trusted.crt');
    const { clusters } = parseYaml(await readFile(plane.adminKubeconfig, 'utf8')) as {
      clusters: { cluster: { 'certificate-authority': string } }[];
    };
    await cp(clusters[0]?.cluster['certificate-authority'] ?? '', trusted);
    away = await given('away', { server: 'https://127.0.0.1:1', token: 'x' });
  });

  test('takes the first credential that is known, whatever is wrong with another', async () => {
    const stranger = await given('stranger', { token: 'unknown' });
    const found = await reached(away, join(root, 'absent'), stranger, plane.adminKubeconfig);
    expect(found?.server).toBe(connection.server);
    await found?.close();
  });

  test('knows an API server that is away from one that refuses, is not trusted, or was never asked', async () => {
    expect(await reached(away)).toBeUndefined();
    expect(await reached(join(root, 'absent'), away)).toBeUndefined();
    const stranger = await given('stranger', { token: 'unknown' });
    const { cert } = await createAuthority(root, { commonName: 'other' });
    const untrusting = await given('untrusting', { certificateAuthority: cert, token: 'x' });
    for (const [kubeconfig, code, words] of [
      [stranger, 'KubeUnauthorized', 'answered 401'],
      [untrusting, 'KubeUnavailable', 'is not signed by a CA of the kubeconfig'],
      [join(root, 'absent'), 'ConfigInvalid', 'absent'],
    ] as const) {
      const failure: unknown = await reached(kubeconfig).catch((err: unknown) => err);
      expect(isCode(failure, code), String(failure)).toBe(true);
      expect(String(failure)).toContain(`Cannot repair static pods by kubeconfig "${kubeconfig}": `);
      expect(String(failure)).toContain(words);
      expect(String(failure)).toContain('(--kubeconfig)');
    }
    await expect(reached(away, stranger)).rejects.toThrow('answered 401');
  });
});
