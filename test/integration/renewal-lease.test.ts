// Renewal ahead of time beside the real etcd, API server and scheduler of a machine that the real kubeadm made, whose leaves
// live for twenty days: one control-plane node after the other, by a Lease, and the next one only after proof.
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { hostManifests } from '../../lib/install/rbac.ts';
import { toYaml } from '../../lib/yaml.ts';
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
    hostManifests()
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

it('leaves no credential of the host behind', async () => {
  expect(await readdir(join(machine.root, 'lock'))).not.toContain('host.kubeconfig');
  expect(await readdir(join(machine.root, 'lock'))).not.toContain('renewing');
});
