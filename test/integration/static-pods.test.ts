// What is added to kubeadm's static pods, on manifests that the real kubeadm has written: what comes out can be taken out
// again to the byte, and kubeadm itself comes to the same when it is given our patches.
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireKubeadmFlags, requireSameTrust } from '../../lib/adopt/guard.ts';
import { podAddition, podLayout } from '../../lib/adopt/pod-files.ts';
import { podManifest, runsOurs } from '../../lib/adopt/static-pods-apply.ts';
import { containerName } from '../../lib/install/own-container.ts';
import { addTo, type PodManifest, removeFrom } from '../../lib/adopt/static-pods.ts';
import { type StaticPod, staticPods } from '../../lib/components.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { Material } from '../../lib/store/store.ts';
import { toYaml } from '../../lib/yaml.ts';
import { publishedAddition } from '../../scripts/published-manifests.ts';
import { root } from '../docs/markdown.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

const directory = '/etc/kubernetes/kube-cert-recovery';
const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });
const additionTo = (pod: StaticPod) =>
  podAddition(pod, { resolved, directory, image: 'example.com/recovery:1', kubeletPki: '/var/lib/kubelet/pki' });

let machine: KubeadmMachine;
beforeAll(async () => {
  machine = await KubeadmMachine.create();
});
afterAll(() => machine[Symbol.asyncDispose]());

const pathOf = (pod: StaticPod): string => join(machine.root, 'etc/kubernetes/manifests', `${pod}.yaml`);
async function manifestOf(pod: StaticPod): Promise<PodManifest> {
  return podManifest(await readFile(pathOf(pod), 'utf8'), pod, pathOf(pod));
}
const containerOf = ({ spec }: PodManifest, wanted: string) => spec.containers.find(({ name }) => name === wanted);

describe.each(staticPods)('the static pod %s', (pod) => {
  test('has our container and reads our files with the flags that count last', async () => {
    const before = await manifestOf(pod);
    const after = addTo(before, additionTo(pod));
    const { layout } = additionTo(pod);
    const command = containerOf(after, pod)?.command ?? [];
    const original = containerOf(before, pod)?.command ?? [];
    expect(command.slice(0, original.length)).toEqual(original);
    const added = command.slice(original.length);
    expect(added.length).toBeGreaterThanOrEqual(3);
    expect(added.filter((flag) => !flag.includes(layout.directory))).toEqual([]);
    const own = containerOf(after, containerName);
    expect(own?.['securityContext']).toMatchObject({
      runAsUser: 0,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });

  test('every file that a flag names lies where the component has it mounted', async () => {
    const after = addTo(await manifestOf(pod), additionTo(pod));
    const { volumeMounts = [], command = [] } = containerOf(after, pod) ?? {};
    const mounted = volumeMounts.map(({ mountPath }) => String(mountPath));
    const ours = command.flatMap((flag) => flag.match(new RegExp(`${directory}[^,:]*`, 'g')) ?? []);
    expect(ours.filter((file) => !mounted.some((path) => file.startsWith(`${path}/`)))).toEqual([]);
    const volumes = new Set(after.spec.volumes?.map(({ name }) => name));
    expect(volumeMounts.filter(({ name }) => !volumes.has(name))).toEqual([]);
  });

  test('lets ours write the published files, and nothing else of what it has mounted', async () => {
    const { layout } = additionTo(pod);
    const { volumeMounts = [] } = containerOf(addTo(await manifestOf(pod), additionTo(pod)), containerName) ?? {};
    const written = volumeMounts.filter(({ readOnly }) => readOnly !== true).map(({ mountPath }) => mountPath);
    expect(written).toEqual([layout.certs]);
    // Its configuration, its tokens and the kubeconfigs, which root reads, too.
    expect(volumeMounts).toContainEqual(expect.objectContaining({ mountPath: layout.directory, readOnly: true }));
  });

  test('has no volume twice', async () => {
    const names = addTo(await manifestOf(pod), additionTo(pod)).spec.volumes?.map(({ name }) => name) ?? [];
    expect(names).toEqual([...new Set(names)]);
  });

  test('gives ours a label where SELinux is on', async () => {
    const seLinux = { type: 'spc_t', level: 's0' };
    const labelled = addTo(await manifestOf(pod), { ...additionTo(pod), seLinux });
    expect(containerOf(labelled, containerName)?.['securityContext']).toMatchObject({ seLinuxOptions: seLinux });
    expect(containerOf(labelled, pod)?.['securityContext']).not.toMatchObject({ seLinuxOptions: seLinux });
    expect(removeFrom(labelled)).toEqual(await manifestOf(pod));
  });

  test('can know that the clock is synchronised where it signs, and never waits for the directory that says so', async () => {
    const after = addTo(await manifestOf(pod), additionTo(pod));
    const path = '/run/systemd/timesync';
    const volume = after.spec.volumes?.find(
      ({ hostPath }) => (hostPath as { path?: string } | undefined)?.path === path,
    );
    const mounts = (name: string) =>
      containerOf(after, name)?.volumeMounts?.filter(({ mountPath }) => mountPath === path);
    expect(mounts(pod) ?? []).toEqual([]);
    if (pod === 'kube-apiserver') {
      expect(volume).toMatchObject({ hostPath: { type: 'DirectoryOrCreate' } });
      expect(mounts(containerName)).toEqual([{ name: volume?.name, mountPath: path, readOnly: true }]);
    } else expect([volume, mounts(containerName)]).toEqual([undefined, []]);
  });

  test('mounts nothing of the other pods', async () => {
    const { volumes = [] } = addTo(await manifestOf(pod), additionTo(pod)).spec;
    const others = staticPods.filter((one) => one !== pod).map((one) => podLayout(directory, one).directory);
    expect(JSON.stringify(volumes)).not.toMatch(new RegExp(others.join('|')));
  });

  test('runs ours with container and digest, not with one of them', async () => {
    const before = await manifestOf(pod);
    const after = addTo(before, additionTo(pod));
    expect([before, after].map(runsOurs)).toEqual([false, true]);
    expect(runsOurs({ ...after, spec: before.spec })).toBe(false);
    expect(runsOurs({ ...after, metadata: before.metadata })).toBe(true);
  });

  test('added twice it is the same as added once, and removed it is as it was', async () => {
    const before = await manifestOf(pod);
    const once = addTo(before, additionTo(pod));
    const read = podManifest(toYaml(once), pod, 'copy');
    expect(isDeepStrictEqual(addTo(read, additionTo(pod)), once)).toBe(true);
    expect(removeFrom(podManifest(toYaml(once), pod, 'copy'))).toEqual(before);
    expect(removeFrom(before)).toBe(before);
  });

  test('shares the processes of the pod only where a component is restarted', async () => {
    const after = addTo(await manifestOf(pod), additionTo(pod));
    const expected = pod === 'kube-controller-manager' ? true : undefined;
    expect(after.spec['shareProcessNamespace']).toBe(expected);
    // One that somebody else has set stays when ours is taken out.
    const shared = { ...(await manifestOf(pod)) };
    const theirs: PodManifest = { ...shared, spec: { ...shared.spec, shareProcessNamespace: true } };
    expect(removeFrom(addTo(theirs, additionTo(pod)))).toEqual(theirs);
  });

  test('another image takes the place of the former', async () => {
    const once = addTo(await manifestOf(pod), additionTo(pod));
    const twice = addTo(once, { ...additionTo(pod), image: 'example.com/recovery:2' });
    expect(twice.spec.containers.filter(({ name }) => name === containerName)).toHaveLength(1);
    expect(containerOf(twice, containerName)?.['image']).toBe('example.com/recovery:2');
    expect(containerOf(twice, pod)).toEqual(containerOf(once, pod));
  });

  test('what a person has changed besides stays when ours is taken out', async () => {
    const before = await manifestOf(pod);
    const edited = addTo(before, additionTo(pod));
    const changed: PodManifest = { ...edited, metadata: { ...edited.metadata, labels: { tier: 'theirs' } } };
    expect(removeFrom(changed)).toEqual({ ...before, metadata: { ...before.metadata, labels: { tier: 'theirs' } } });
  });
});

test('kubeadm, given manifests/kubeadm-patches, writes the pods that init adopt does', async () => {
  const patched = await machine.copy();
  try {
    await cp(join(root, 'manifests/kubeadm-patches'), join(patched.root, 'patches'), { recursive: true });
    const config = join(patched.root, 'config.yaml');
    const text = await readFile(config, 'utf8');
    await writeFile(config, text.replace('kind: InitConfiguration', '$&\npatches: { directory: /patches }'));
    await patched.kubeadmDone('init', 'phase', 'control-plane', 'all');
    for (const pod of staticPods) {
      const path = join(patched.root, 'etc/kubernetes/manifests', `${pod}.yaml`);
      const written = podManifest(await readFile(path, 'utf8'), pod, path);
      const ours = addTo(await manifestOf(pod), publishedAddition(pod));
      expect(sorted(written)).toEqual(sorted(ours));
      // and it is taken out of those in the same way
      expect(sorted(removeFrom(written))).toEqual(sorted(await manifestOf(pod)));
    }
  } finally {
    await patched[Symbol.asyncDispose]();
  }
});

/** kubeadm sorts lists that are merged by name. */
function sorted(manifest: PodManifest): unknown {
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  const { containers, volumes = [], ...spec } = manifest.spec;
  return JSON.parse(
    JSON.stringify({
      ...manifest,
      spec: {
        ...spec,
        volumes: volumes.toSorted(byName),
        containers: containers
          .map((container) => ({ ...container, volumeMounts: (container.volumeMounts ?? []).toSorted(byName) }))
          .toSorted(byName),
      },
    }),
  );
}

describe('kubeadm’s flags', () => {
  const directories = { kubernetesDir: '/etc/kubernetes', pkiDir: '/etc/kubernetes/pki' };

  test.each(staticPods)('are those that ours take the place of: %s', async (pod) => {
    requireKubeadmFlags(await manifestOf(pod), pod, directories);
    requireKubeadmFlags(removeFrom(addTo(await manifestOf(pod), additionTo(pod))), pod, directories);
  });

  const edits: readonly (readonly [StaticPod, (command: readonly string[]) => readonly string[], string])[] = [
    [
      'kube-apiserver',
      (command) => [...command, '--client-ca-file=/etc/ca.pem'],
      '--client-ca-file names "/etc/ca.pem"',
    ],
    [
      'kube-apiserver',
      (command) => [...command, '--client-ca-file', '/etc/ca.pem'],
      '--client-ca-file names "/etc/ca.pem"',
    ],
    [
      'kube-apiserver',
      (command) => [...command, '--client_ca_file=/etc/ca.pem'],
      '--client-ca-file names "/etc/ca.pem"',
    ],
    ['kube-apiserver', (command) => [...command, '--tls-sni-cert-key', 'a,b'], '--tls-sni-cert-key of its own'],
    ['kube-apiserver', (command) => [...command, '--bind-address', '192.0.2.1'], '--bind-address=192.0.2.1'],
    ['kube-scheduler', (command) => [...command, '--kubeconfig', '/root.conf'], '--kubeconfig names "/root.conf"'],
    // The last one counts, and the first is still somebody's.
    [
      'kube-apiserver',
      ([program = '', ...flags]) => [program, '--client-ca-file', '/etc/ca.pem', ...flags],
      '--client-ca-file names "/etc/ca.pem"',
    ],
    ['kube-apiserver', (command) => [...command, '--tls-sni-cert-key=a,b'], '--tls-sni-cert-key of its own'],
    ['kube-apiserver', (command) => [...command, '--bind-address=192.0.2.1'], '--bind-address=192.0.2.1'],
    ['kube-scheduler', () => ['sh', '-c', 'exec kube-scheduler'], 'its command is "sh"'],
    ['kube-scheduler', (command) => [...command, '--kubeconfig=/root.conf'], '--kubeconfig names "/root.conf"'],
  ];
  test.each(edits)('that somebody has changed are not overruled: %s %#', async (pod, change, problem) => {
    const manifest = await manifestOf(pod);
    const containers = manifest.spec.containers.map((one) => ({ ...one, command: change(one.command ?? []) }));
    const edited = { ...manifest, spec: { ...manifest.spec, containers } };
    expect(() => requireKubeadmFlags(edited, pod, directories)).toThrow(problem);
  });
});

describe('trust', () => {
  const authority = async (name: string): Promise<Buffer> => readFile(machine.path('pki', `${name}.crt`));
  const bundleOf = (pem: Uint8Array): Material => ({ entries: { 'ca-bundle.crt': pem }, annotations: {} });
  const now = new Date();

  test('in every CA of this machine is kept', async () => {
    const [ca, proxy] = [await authority('ca'), await authority('front-proxy-ca')];
    const material = new Map([
      ['client-ca', bundleOf(ca)],
      ['kube-apiserver-server-ca', bundleOf(Buffer.concat([proxy, ca]))],
      ['aggregator-client-ca', bundleOf(proxy)],
    ]);
    const authorities = new Map([
      ['ca.crt', ca],
      ['front-proxy-ca.crt', proxy],
    ]);
    requireSameTrust(resolved, material, authorities, now);
    // In the middle of a rotation a second CA stands in the file.
    const both = new Map(authorities).set('ca.crt', Buffer.concat([ca, proxy]));
    const refusal = 'ConfigMap "client-ca" in the API would not hold "CN=front-proxy-ca" of "ca.crt"';
    expect(() => requireSameTrust(resolved, material, both, now)).toThrow(refusal);
    expect(() =>
      requireSameTrust(resolved, new Map(material).set('client-ca', bundleOf(proxy)), authorities, now),
    ).toThrow('ConfigMap "client-ca" in the API would not hold "CN=kubernetes" of "ca.crt"');
    // What has ended is trusted by nobody.
    requireSameTrust(resolved, new Map(), authorities, new Date('2200-01-01'));
  });
});

test.each([
  ['no mapping', '[]'],
  ['no Pod', 'kind: Deployment\nmetadata: {name: a}\nspec: {containers: [{name: kube-apiserver}]}'],
  ['a Pod of another component', 'kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: kube-scheduler}]}'],
  ['a Pod without containers', 'kind: Pod\nmetadata: {name: a}\nspec: {}'],
])('refuses %s', (_, text) => {
  expect(() => podManifest(text, 'kube-apiserver', '/etc/kube-apiserver.yaml')).toThrow(
    'Cannot use manifest "/etc/kube-apiserver.yaml": it is no Pod with a container "kube-apiserver"',
  );
});
