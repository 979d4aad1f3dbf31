// `verify` on other layouts than that of kubeadm with its own etcd: an etcd elsewhere, a machine of etcd alone, a machine
// that was adopted, and a control plane whose certificates are in the API. Everything holds there, as what runs shows.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { podAddition } from '../../lib/adopt/pod-files.ts';
import { podManifest } from '../../lib/adopt/static-pods-apply.ts';
import { addTo } from '../../lib/adopt/static-pods.ts';
import { componentNames, staticPods } from '../../lib/components.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import { flagArguments } from '../support/cluster/components.ts';
import { runOn } from '../support/cluster/flagged-machine.ts';
import { advertiseAddress, KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { startRenderedControlPlane } from '../support/cluster/rendered-control-plane.ts';
import { RunningMachine } from '../support/cluster/running-machine.ts';
import { idsOf, type RelationSight } from '../support/cluster/trust-world.ts';
import { eventually } from '../support/eventually.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));

const rowsOf = ({ stdout, stderr }: Outcome): readonly RelationSight[] => {
  expect(stdout, stderr).not.toBe('');
  return (JSON.parse(stdout) as { readonly relations: readonly RelationSight[] }).relations;
};

/** Everything holds; these relations are in use. */
function holds(outcome: Outcome, ids: readonly string[]): void {
  const rows = rowsOf(outcome);
  expect(rows.filter(({ verdict }) => verdict === 'fails' || verdict === 'unknown')).toEqual([]);
  expect(idsOf(rows, 'holds')).toEqual(ids);
  expect(outcome.code).toBe(0);
}

interface Pod {
  readonly spec: {
    readonly containers: readonly [{ command: readonly string[]; volumeMounts: readonly object[] }];
    volumes: readonly object[];
  };
}

/** No kubelet has been there. */
const ofKubeadm = ['R1', 'R2', 'R6', 'R7', 'R8', 'R9', 'R10', 'R11', 'R12', 'R13', 'R14', 'R15', 'R16'];
const ofEtcd: readonly string[] = ['R11', 'R12', 'R13'];

let whole: KubeadmMachine;
let stranger: Pair;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
  stranger = await createAuthority(join(whole.root, 'stranger'), { commonName: 'kubernetes' });
});
afterAll(() => whole?.[Symbol.asyncDispose]());

describe('a machine of kubeadm', () => {
  it('holds as kubeadm makes it, also below other directories', async () => {
    holds(await runOn(whole, 'verify', '-o', 'json'), ofKubeadm);
    const directories = Object.entries(whole.directories).map(([name, path]) => `--directory=${name}=${path}`);
    const command = [program, 'verify', '-o', 'json', '--preset=kubeadm', ...directories];
    holds(await run(process.execPath, command), ofKubeadm);
  });

  it('follows the mounts of a pod, also for the files that its kubeconfig names', async () => {
    await using machine = await whole.copy();
    const file = machine.path('manifests/kube-scheduler.yaml');
    const pod = structuredClone(parseYaml(await readFile(file, 'utf8'))) as Pod;
    const [container] = pod.spec.containers;
    container.command = ['kube-scheduler', '--kubeconfig=/inside/it.conf'];
    container.volumeMounts = [{ name: 'own', mountPath: '/inside' }];
    pod.spec.volumes = [{ name: 'own', hostPath: { path: '/etc/kubernetes/own' } }];
    await writeFile(file, toYaml(pod));
    const ca = { cert: machine.path('pki/ca.crt'), key: machine.path('pki/ca.key') };
    const { cert, key } = await createLeaf(join(machine.root, 'leaf'), ca, { commonName: 'system:kube-scheduler' });
    await mkdir(machine.path('own'));
    await copyFile(cert, machine.path('own/it.crt'));
    await copyFile(key, machine.path('own/it.key'));
    const server = { server: `https://${advertiseAddress}:6443`, 'certificate-authority': '/inside/ca.crt' };
    await copyFile(ca.cert, machine.path('own/ca.crt'));
    // Relative paths begin at the directory of the kubeconfig, as the component sees it.
    const user = { 'client-certificate': 'it.crt', 'client-key': '/inside/it.key' };
    await writeFile(machine.path('own/it.conf'), kubeconfigOf(server, user));
    const outcome = await runOn(machine, 'verify', '-o', 'json');
    holds(outcome, ofKubeadm);
    expect(rowsOf(outcome).map(({ credential }) => credential)).toContainEqual({
      name: 'kube-scheduler --kubeconfig',
      file: '/etc/kubernetes/own/it.conf',
    });
  });

  it('says of a file that is absent what it cannot know, and judges the rest', async () => {
    await using machine = await whole.copy();
    await rm(machine.path('pki/etcd/peer.key'));
    await writeFile(machine.path('scheduler.conf'), 'torn: [');
    await writeFile(machine.path('pki/front-proxy-ca.crt'), '-----BEGIN CERTIFICATE-----\nhello\n');
    const outcome = await runOn(machine, 'verify', '-o', 'json');
    const rows = rowsOf(outcome);
    const reasonOf = (id: string, verdict: string): string | undefined =>
      rows.find((row) => row.relation === id && row.verdict === verdict)?.reason;
    expect(reasonOf('R15', 'unknown')).toBe('"/etc/kubernetes/pki/etcd/peer.key" is absent');
    expect(reasonOf('R10', 'fails')).toContain('"/etc/kubernetes/scheduler.conf": it is no kubeconfig');
    expect(idsOf(rows, 'fails')).toEqual(['R2', 'R9', 'R10', 'R15', 'R16']);
    expect(outcome.code).toBe(1);
  });

  it('says of a manifest that cannot be read which relations it does not know', async () => {
    await using machine = await whole.copy();
    await writeFile(machine.path('manifests/etcd.yaml'), 'apiVersion: v1\nkind: Pod\nmetadata: {name: etcd');
    const outcome = await runOn(machine, 'verify', '-o', 'json');
    expect(idsOf(rowsOf(outcome), 'unknown')).toEqual([...ofEtcd, 'R15']);
    expect(outcome.code).toBe(1);
  });
});

describe('an etcd elsewhere', () => {
  it('is asked by kube-apiserver, and its relations are those of its own machine', async () => {
    const files = { caFile: '/etc/etcd/ca.crt', certFile: '/etc/etcd/client.crt', keyFile: '/etc/etcd/client.key' };
    const external = { endpoints: [`https://${advertiseAddress}:2379`], ...files };
    await using running = await RunningMachine.prepare(`etcd: ${JSON.stringify({ external })}`);
    const { machine } = running;
    const below = (file: string): string => join(machine.root, file);
    await mkdir(below('/etc/etcd'));
    const authority = await createAuthority(below('/administrator'), { commonName: 'etcd CA' });
    const client = await createLeaf(below('/client'), authority, { commonName: 'kube-apiserver' });
    await copyFile(authority.cert, below(files.caFile));
    await copyFile(client.cert, below(files.certFile));
    await copyFile(client.key, below(files.keyFile));
    holds(
      await runOn(machine, 'verify', '-o', 'json'),
      ofKubeadm.filter((id) => !ofEtcd.includes(id)),
    );

    // The machine of etcd: a service of systemd, which runs here beside kube-apiserver.
    await using member = await KubeadmMachine.at(await mkdtemp(join(tmpdir(), 'etcd-machine-')));
    const server = await createLeaf(join(member.root, 'etc/etcd/server'), authority, {
      commonName: 'member1',
      usages: ['serverAuth', 'clientAuth'],
      ipAddresses: [advertiseAddress],
    });
    const inMachine = (path: string): string => path.slice(member.root.length);
    await copyFile(authority.cert, join(member.root, 'etc/etcd/ca.crt'));
    const flags = (at: (path: string) => string): readonly string[] => [
      ...['', 'peer-'].flatMap((of) => [
        `--${of}cert-file=${at(server.cert)}`,
        `--${of}key-file=${at(server.key)}`,
        `--${of}trusted-ca-file=${at(join(member.root, 'etc/etcd/ca.crt'))}`,
        `--${of}client-cert-auth`,
      ]),
      `--listen-client-urls=https://${advertiseAddress}:2379`,
      `--advertise-client-urls=https://${advertiseAddress}:2379`,
      `--listen-peer-urls=https://${advertiseAddress}:2380`,
      `--initial-advertise-peer-urls=https://${advertiseAddress}:2380`,
      `--initial-cluster=default=https://${advertiseAddress}:2380`,
    ];
    const units = join(member.root, 'etc/systemd/system');
    await mkdir(join(units, 'multi-user.target.wants'), { recursive: true });
    await writeFile(join(units, 'etcd.service'), `[Service]\nExecStart=/usr/bin/etcd ${flags(inMachine).join(' ')}\n`);
    await symlink('/etc/systemd/system/etcd.service', join(units, 'multi-user.target.wants/etcd.service'));
    holds(await runOn(member, 'verify', '-o', 'json'), ['R12', 'R13', 'R15']);

    const etcd = (await findBinaries(['etcd'])).get('etcd') ?? '';
    running.start('etcd', [
      etcd,
      `--data-dir=${join(member.root, 'data')}`,
      ...flags((path) => path),
      '--unsafe-no-fsync',
    ]);
    await running.startComponent('kube-apiserver');
    await eventually(async () => expect((await running.asAdmin('get', '--raw=/readyz/etcd')).stdout).toBe('ok'));
  });
});

describe('a machine that was adopted', () => {
  const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [advertiseAddress] } });
  const directory = '/etc/kubernetes/kube-cert-recovery';

  /** Its static pods have our flags behind kubeadm's, which name files of ours with what kubeadm's hold. */
  async function adopted(): Promise<KubeadmMachine> {
    const machine = await whole.copy();
    const kubeletPki = '/var/lib/kubelet/pki';
    for (const pod of staticPods) {
      const addition = podAddition(pod, { resolved, directory, image: 'example.com/recovery:1', kubeletPki });
      const path = machine.path('manifests', `${pod}.yaml`);
      const former = await readFile(path, 'utf8');
      await writeFile(path, toYaml(addTo(podManifest(former, pod, path), addition)));
      for (const [flag, value] of Object.entries(addition.flags)) {
        const source = new RegExp(`--${flag}=(\\S+)`).exec(former)?.[1] ?? sources[flag];
        const places = [value].flat().flatMap((text) => text.replace(/:.*/s, '').split(','));
        for (const [at, place] of places.entries()) {
          const from = at % 2 === 0 ? source : source?.replace(/crt$/, 'key');
          if (from === undefined) expect.unreachable(`${pod} --${flag}`);
          await mkdir(dirname(join(machine.root, place)), { recursive: true });
          await copyFile(join(machine.root, from), join(machine.root, place));
        }
      }
    }
    return machine;
  }

  /** What kubeadm does not tell its components. */
  const sources: Readonly<Record<string, string>> = {
    'tls-cert-file': '/etc/kubernetes/pki/apiserver.crt',
    'tls-private-key-file': '/etc/kubernetes/pki/apiserver.key',
    'tls-sni-cert-key': '/etc/kubernetes/pki/apiserver.crt',
    'kubelet-certificate-authority': '/etc/kubernetes/pki/ca.crt',
    'client-ca-file': '/etc/kubernetes/pki/ca.crt',
    'requestheader-client-ca-file': '/etc/kubernetes/pki/front-proxy-ca.crt',
  };

  it('is judged by the flags that were added, which count', async () => {
    await using machine = await adopted();
    const outcome = await runOn(machine, 'verify', '-o', 'json');
    const rows = rowsOf(outcome);
    expect(rows.filter(({ verdict }) => verdict === 'fails' || verdict === 'unknown')).toEqual([]);
    const clients = rows.find(({ relation }) => relation === 'R10')?.trust.file ?? '';
    expect(clients).toContain(directory);
    await copyFile(stranger.cert, join(machine.root, clients));
    expect(idsOf(rowsOf(await runOn(machine, 'verify', '-o', 'json')), 'fails')).toEqual(['R1', 'R10']);
  });
});

describe('a control plane whose certificates are in the API', () => {
  it('holds as `init render` makes it, and runs', async () => {
    await using world = await startRenderedControlPlane();
    const { controlPlane } = world;
    const kubernetesDir = join(world.out, 'kubernetes');
    await mkdir(join(kubernetesDir, 'manifests'), { recursive: true });
    for (const name of componentNames) {
      if (name === 'kubelet') continue;
      const command = [name, ...flagArguments(controlPlane.flags(name))];
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec: { containers: [{ name, command }] } };
      await writeFile(join(kubernetesDir, 'manifests', `${name}.yaml`), toYaml(pod));
    }
    const command = [program, 'verify', '-o', 'json', '--preset=kubeadm', `--directory=kubernetesDir=${kubernetesDir}`];
    const rows = rowsOf(await run(process.execPath, command));
    expect(rows.filter(({ verdict }) => verdict === 'fails' || verdict === 'unknown')).toEqual([]);
    expect(idsOf(rows, 'holds')).toEqual(expect.arrayContaining(['R1', 'R2', 'R6', 'R8', 'R9', 'R10', 'R11', 'R12']));
    expect((await controlPlane.admin('/readyz')).status).toBe(200);
  });
});

function run(command: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((done) => {
    execFile(command, args, { maxBuffer: 1 << 24 }, (err, stdout, stderr) =>
      done({ stdout, stderr, code: err === null ? 0 : Number(err.code ?? -1) }),
    );
  });
}
