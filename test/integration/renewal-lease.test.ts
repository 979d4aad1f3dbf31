// Renewal ahead of time beside the real etcd, API server and scheduler of a machine that the real kubeadm made, whose leaves
// live for twenty days: one control-plane node after the other, by a Lease, and the next one only after proof.
import { execFile } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hostManifests } from '../../lib/install/rbac.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import type { ComponentName } from '../support/cluster/components.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { SupervisedProcess } from '../support/cluster/process.ts';
import { eventually } from '../support/eventually.ts';

const program = fileURLToPath(new URL('../../cmd/main.ts', import.meta.url));
const names: readonly ComponentName[] = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'];
const renewed = ['pki/apiserver.crt', 'pki/etcd/server.crt', 'pki/etcd/peer.crt', 'pki/front-proxy-client.crt'];

let machine: KubeadmMachine;
let config: string;
let kubectl: string;
const processes = new Map<string, SupervisedProcess>();

function inNetwork(command: string, ...args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile('nsenter', [...machine.inNetwork, command, ...args], (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : Number(err.code) }),
    );
  });
}

function start(name: string, command: readonly string[], restarts = 5): void {
  const logFile = join(machine.root, `${name}.log`);
  const args = [...machine.inNetwork, ...command];
  const again = { restarts, restartDelay: 200 };
  processes.set(name, new SupervisedProcess({ name, command: 'nsenter', args, logFile, ...again }));
}

const asAdmin = (...args: readonly string[]): Promise<Outcome> =>
  inNetwork(kubectl, `--kubeconfig=${machine.path('super-admin.conf')}`, ...args);

beforeAll(async () => {
  machine = await KubeadmMachine.create('certificateValidityPeriod: 480h');
  await machine.startNetwork();
  config = join(machine.root, 'recovery.yaml');
  const directories = {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  };
  const regen = { backupDir: join(machine.root, 'backups'), lockDir: join(machine.root, 'lock'), renewBefore: '30d' };
  await writeFile(
    config,
    'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n' +
      `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(regen)}\n`,
  );
  const binaries = await findBinaries([...names, 'kubectl']);
  kubectl = binaries.get('kubectl') ?? '';
  for (const name of names) start(name, [binaries.get(name) ?? '', ...(await machine.flagsOf(name))]);
  for (const name of ['kube-controller-manager', 'kube-scheduler']) {
    const log = () => processes.get(name)?.logTail(100_000);
    await eventually(() => expect(log()?.toLowerCase()).toContain('successfully acquired lease'));
  }
});

afterAll(async () => {
  for (const each of [...processes.values()].toReversed()) await each.kill();
  await machine?.[Symbol.asyncDispose]();
});

interface Line {
  readonly event: string;
  readonly artefact?: string;
  readonly component?: string;
  readonly message?: string;
}
const run = async (...flags: readonly string[]): Promise<Outcome & { readonly lines: readonly Line[] }> => {
  const outcome = await inNetwork(process.execPath, program, '--mode=regen', '--once', `--config=${config}`, ...flags);
  const lines = outcome.stderr.trim().split('\n').filter(Boolean);
  return { ...outcome, lines: lines.map((line) => JSON.parse(line) as Line) };
};

const notAfter = async (path: string): Promise<number> =>
  new X509Certificate(await readFile(machine.path(path))).validToDate.getTime();
const ends = (): Promise<number[]> => Promise.all(renewed.map(notAfter));

interface Lease {
  readonly spec: { readonly holderIdentity?: string };
}
const lease = ['-n', 'kube-cert-recovery', 'lease/control-plane-renewal'];
const holder = async (): Promise<string | undefined> => {
  const { stdout } = await asAdmin('get', ...lease, '-o', 'json');
  return (JSON.parse(stdout) as Lease).spec.holderIdentity;
};

it('waits while the right to the Lease is not granted, and says how that is done', async () => {
  const before = await ends();
  const { code, stderr } = await run('--restart');
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('init host --renew-before');
  expect(await ends()).toEqual(before);
});

it('waits while another node renews', async () => {
  const rights = join(machine.root, 'rights.yaml');
  await writeFile(
    rights,
    hostManifests({ renewsAhead: true })
      .map((one) => toYaml(one))
      .join('---\n'),
  );
  const applied = await asAdmin('apply', '-f', rights);
  expect(applied.code, applied.stderr).toBe(0);
  const other = join(machine.root, 'lease.yaml');
  const spec = { holderIdentity: 'node2', leaseDurationSeconds: 360 };
  const metadata = { namespace: 'kube-cert-recovery', name: 'control-plane-renewal' };
  await writeFile(other, toYaml({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec }));
  expect((await asAdmin('apply', '-f', other)).code).toBe(0);
  const before = await ends();
  const { code, stderr } = await run('--restart');
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('is held by \\"node2\\"');
  expect(await ends()).toEqual(before);
  expect(await holder()).toBe('node2');
});

it('repairs what is broken all the same', async () => {
  const file = machine.path('pki/apiserver-kubelet-client.crt');
  await writeFile(file, 'garbage');
  const { code, stderr } = await run('--restart');
  expect(code, stderr).toBe(0);
  expect(await readFile(file, 'utf8')).toContain('BEGIN CERTIFICATE');
  expect(await holder()).toBe('node2');
});

it('renews when the Lease is free, keeps it until the scheduler has been restarted, and gives it back then', async () => {
  expect((await asAdmin('patch', ...lease, '--type=merge', '-p', '{"spec":{"holderIdentity":""}}')).code).toBe(0);
  const before = await ends();
  // No kubelet runs that would start the scheduler again.
  const first = await run('--restart');
  expect(first.code, first.stderr).not.toBe(0);
  expect(first.stderr).toContain('while no kubelet runs');
  expect((await ends()).every((end, at) => end > (before[at] ?? 0) + 300 * 86_400_000)).toBe(true);
  expect(await holder()).toBe(hostname());

  start('kubelet', machine.kubeletStub(kubectl));
  const after = await ends();
  await eventually(async () => {
    const next = await run('--restart');
    expect(await holder(), next.stderr).toBeFalsy();
  });
  for (const name of ['kube-controller-manager', 'kube-scheduler'])
    expect(processes.get(name)?.restarted, name).toBe(1);
  expect(await ends()).toEqual(after);
});

describe('regen.machine', () => {
  const machines = '/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines';
  const withMachine = async (name: string, kubeconfig = machine.path('super-admin.conf')): Promise<Outcome> => {
    const place = JSON.stringify({ kubeconfig, namespace: 'default', name });
    const plain = await readFile(config, 'utf8');
    await writeFile(config, plain.replace(/"renewBefore":"30d"/, `"renewBefore":"30d","machine":${place}`));
    const outcome = await run('--restart');
    await writeFile(config, plain);
    return outcome;
  };
  const machineObject = async (): Promise<{ metadata: { annotations?: object; resourceVersion: string } }> =>
    JSON.parse((await asAdmin('get', '--raw', `${machines}/node1`)).stdout) as Awaited<
      ReturnType<typeof machineObject>
    >;

  it('keeps the annotation of Cluster API at the end of what is served, and writes it once', async () => {
    const crds = fileURLToPath(new URL('../support/cluster/machine-crds.yaml', import.meta.url));
    const list = parseYaml(await readFile(crds, 'utf8')) as { items: readonly unknown[] };
    const file = join(machine.root, 'crd.yaml');
    await writeFile(file, list.items.map((one) => toYaml(one)).join('---\n'));
    expect((await asAdmin('apply', '-f', file)).code).toBe(0);
    const metadata = { namespace: 'default', name: 'node1', annotations: { other: 'stays' } };
    await writeFile(file, toYaml({ apiVersion: 'cluster.x-k8s.io/v1beta2', kind: 'Machine', metadata, spec: {} }));
    await eventually(async () => expect((await asAdmin('apply', '-f', file)).code).toBe(0));

    const first = await withMachine('node1');
    expect(first.code, first.stderr).toBe(0);
    const served = new Date(await notAfter('pki/apiserver.crt')).toISOString().replace('.000Z', 'Z');
    const written = (await machineObject()).metadata;
    expect(written.annotations).toEqual(
      expect.objectContaining({ other: 'stays', 'machine.cluster.x-k8s.io/certificates-expiry': served }),
    );
    const second = await withMachine('node1');
    expect(second.stderr).not.toContain('machine.annotated');
    expect((await machineObject()).metadata.resourceVersion).toBe(written.resourceVersion);
  });

  it.each([
    ['is absent', 'node9', undefined, '404'],
    ['is in a cluster that is away', 'node1', '/nowhere/management.conf', '/nowhere/management.conf'],
  ])('is no fault of this machine where the Machine %s', async (_, name, kubeconfig, told) => {
    await rm(join(machine.root, 'lock/machine-expiry'), { force: true });
    const { code, stderr } = await withMachine(name, kubeconfig);
    expect(code, stderr).toBe(0);
    const line = stderr.split('\n').find((each) => each.includes('"machine.failed"'));
    expect(line).toContain(`default/${name}`);
    expect(line).toContain(told);
  });
});

it('leaves no credential of the host behind', async () => {
  expect(await readdir(join(machine.root, 'lock'))).not.toContain('host.kubeconfig');
  expect(await readdir(join(machine.root, 'lock'))).not.toContain('renewing');
});
