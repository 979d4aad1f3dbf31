// CAs of a running control plane that end in 100 days, beside the real etcd, API server, kube-controller-manager and
// scheduler of a machine that the real kubeadm made: renewed with their own keys, everything that reads them at its start
// restarted once and in order, and clients with the old file and with the new one served all the while.
import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { hostManifests } from '../../lib/install/rbac.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { toYaml } from '../../lib/yaml.ts';
import { dated } from '../support/certificates/dated.ts';
import { clusterInfoKubeconfig, clusterInfoManifests } from '../support/cluster/cluster-info.ts';
import { findBinaries } from '../support/cluster/binaries.ts';
import type { ComponentName } from '../support/cluster/components.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { SupervisedProcess } from '../support/cluster/process.ts';
import { eventually } from '../support/eventually.ts';

const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const names: readonly ComponentName[] = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'];
const authorities = ['ca', 'etcd/ca', 'front-proxy-ca'] as const;
const confs = ['admin.conf', 'super-admin.conf', 'controller-manager.conf', 'scheduler.conf', 'kubelet.conf'] as const;
const dayMs = 86_400_000;

let machine: KubeadmMachine;
let config: string;
let kubectl: string;
/** With the CA as it was. */
let oldConf: string;
const processes = new Map<string, SupervisedProcess>();

function inNetwork(command: string, ...args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile('nsenter', [...machine.inNetwork, command, ...args], (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : Number(err.code) }),
    );
  });
}

function start(name: string, command: readonly string[]): void {
  const args = [...machine.inNetwork, ...command];
  const again = { restarts: 5, restartDelay: 200 };
  processes.set(
    name,
    new SupervisedProcess({ name, command: 'nsenter', args, logFile: join(machine.root, `${name}.log`), ...again }),
  );
}

const ask = (conf: string, ...args: readonly string[]): Promise<Outcome> =>
  inNetwork(kubectl, `--kubeconfig=${conf}`, ...args);
const trustOf = async (conf: string): Promise<string> => {
  const [, data = ''] = /certificate-authority-data: (\S+)/.exec(await readFile(conf, 'utf8')) ?? [];
  return Buffer.from(data, 'base64').toString();
};
const pemOf = (name: string): Promise<string> => readFile(machine.path('pki', `${name}.crt`), 'utf8');
const readAll = async (): Promise<X509Certificate[]> =>
  (await Promise.all(authorities.map(pemOf))).map((pem) => new X509Certificate(pem));

/** CAs made ten years ago but 100 days, and kubeconfigs that embed them. What they have signed stays. */
async function age(): Promise<void> {
  const day = (count: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 + count * dayMs);
  for (const name of authorities) {
    const key = await readFile(machine.path('pki', `${name}.key`), 'utf8');
    await writeFile(machine.path('pki', `${name}.crt`), dated(await pemOf(name), key, day(-3550), day(100)));
  }
  const ca = Buffer.from(await pemOf('ca')).toString('base64');
  for (const conf of confs) {
    const text = await readFile(machine.path(conf), 'utf8');
    await writeFile(
      machine.path(conf),
      text.replace(/certificate-authority-data: \S+/, `certificate-authority-data: ${ca}`),
    );
  }
}

beforeAll(async () => {
  machine = await KubeadmMachine.create('certificateValidityPeriod: 480h');
  await age();
  await machine.startNetwork();
  config = join(machine.root, 'recovery.yaml');
  oldConf = join(machine.root, 'old.conf');
  await writeFile(oldConf, await readFile(machine.path('super-admin.conf')));
  const directories = {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  };
  const own = { backupDir: join(machine.root, 'backups'), lockDir: join(machine.root, 'lock') };
  const regen = { ...own, renewBefore: '30d', clockSynchronised: true };
  await writeFile(
    config,
    'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n' +
      `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(regen)}\n`,
  );
  const binaries = await findBinaries([...names, 'kubectl']);
  kubectl = binaries.get('kubectl') ?? '';
  for (const name of names) start(name, [binaries.get(name) ?? '', ...(await machine.flagsOf(name))]);
  start('kubelet', machine.kubeletStub(kubectl));
  for (const name of ['kube-controller-manager', 'kube-scheduler']) {
    const log = () => processes.get(name)?.logTail(100_000);
    await eventually(() => expect(log()?.toLowerCase()).toContain('successfully acquired lease'));
  }
  const rights = join(machine.root, 'rights.yaml');
  const manifests = hostManifests({ inventory: loadPreset('kubeadm'), renewsAhead: true }).map((one) => toYaml(one));
  await writeFile(rights, manifests.join('---\n'));
  const applied = await ask(oldConf, 'apply', '-f', rights);
  expect(applied.code, applied.stderr).toBe(0);
  const published = join(machine.root, 'cluster-info.yaml');
  const server = 'https://192.0.2.10:6443';
  await writeFile(published, clusterInfoManifests(server, await pemOf('ca')).join('---\n'));
  expect((await ask(oldConf, 'apply', '-f', published)).code).toBe(0);
});

afterAll(async () => {
  for (const each of [...processes.values()].toReversed()) await each.kill();
  await machine?.[Symbol.asyncDispose]();
});

interface Line {
  readonly event: string;
  readonly artefact?: string;
  readonly component?: string;
}
const run = async (...flags: readonly string[]): Promise<Outcome & { readonly lines: readonly Line[] }> => {
  const own = [program, '--mode=regen', '--once', '--restart', `--config=${config}`, ...flags];
  const outcome = await inNetwork(process.execPath, ...own);
  const lines = outcome.stderr.trim().split('\n').filter(Boolean);
  return { ...outcome, lines: lines.map((line) => JSON.parse(line) as Line) };
};
const of = (lines: readonly Line[], event: string): readonly string[] =>
  lines.filter((line) => line.event === event).map(({ component, artefact }) => component ?? artefact ?? '');
const restarts = (): Record<string, number | undefined> =>
  Object.fromEntries([...processes].map(([name, process]) => [name, process.restarted]));

it('only reports them where that is asked for', async () => {
  const before = await readAll();
  const { code, stderr, lines } = await run('--ca-renewal=Report', '--dry-run');
  expect(code, stderr).toBe(0);
  expect(of(lines, 'signer.renewed')).toEqual([]);
  expect((await readAll()).map(({ raw }) => raw)).toEqual(before.map(({ raw }) => raw));
});

it('renews all three with their keys, and restarts what reads them, one after the other', async () => {
  const before = await readAll();
  const { code, stderr, lines } = await run();
  expect(code, stderr).toBe(0);
  expect(new Set(of(lines, 'signer.renewed'))).toEqual(new Set(['ca', 'etcd-ca', 'front-proxy-ca']));
  for (const [at, now] of (await readAll()).entries()) {
    const old = before[at];
    expect(now.validToDate.getTime() - (old?.validToDate.getTime() ?? 0)).toBe(3650 * dayMs);
    expect(now.checkIssued(now) && old !== undefined && now.verify(old.publicKey)).toBe(true);
  }
  const restarted = of(lines, 'restart.done');
  // The others end by themselves where they cannot renew their Leases meanwhile, and have read the new files then.
  const order = ['kubelet', 'kube-apiserver', 'etcd', 'kube-controller-manager', 'kube-scheduler'];
  expect(restarted).toEqual(order.filter((name) => restarted.includes(name)));
  expect(restarted.slice(0, 3)).toEqual(order.slice(0, 3));
  expect(new Set(of(lines, 'proof.succeeded'))).toEqual(new Set(['kubelet', ...names]));
  expect(restarts()).toMatchObject({ etcd: 1, 'kube-apiserver': 1, kubelet: 1 });
  // What ended within the threshold outlives the old CA now.
  const served = new X509Certificate(await pemOf('apiserver'));
  expect(served.validToDate.getTime()).toBeGreaterThan(before[0]?.validToDate.getTime() ?? Infinity);
});

it('serves clients with the old file and with the new one', async () => {
  const ca = (await pemOf('ca')).trim();
  for (const conf of confs) expect((await trustOf(machine.path(conf))).includes(ca), conf).toBe(true);
  expect((await trustOf(oldConf)).includes(ca)).toBe(false);
  for (const conf of [oldConf, machine.path('super-admin.conf')]) {
    const { code, stderr } = await ask(conf, 'get', '--raw=/readyz');
    expect(code, stderr).toBe(0);
  }
});

const data = async (namespace: string, name: string): Promise<Readonly<Record<string, string>>> => {
  const { stdout } = await ask(oldConf, '-n', namespace, 'get', `configmap/${name}`, '-o', 'json');
  return (JSON.parse(stdout) as { data: Record<string, string> }).data;
};

it('publishes the new CA for who joins, and for Pods', async () => {
  const ca = await pemOf('ca');
  expect(await data('kube-public', 'cluster-info')).toEqual({
    kubeconfig: clusterInfoKubeconfig('https://192.0.2.10:6443', ca),
  });
  // kube-controller-manager has read --root-ca-file again.
  await eventually(async () => expect((await data('default', 'kube-root-ca.crt'))['ca.crt']).toBe(ca));
});

it('asks nothing of it in the next runs, and puts it right again where somebody has put the former back', async () => {
  const note = join(machine.root, 'lock/cluster-info');
  const noted = await readFile(note, 'utf8');
  const ca = await pemOf('ca');
  const old = join(machine.root, 'cluster-info.yaml');
  expect((await ask(oldConf, 'apply', '-f', old)).code).toBe(0);
  expect(of((await run()).lines, 'clusterInfo.updated')).toEqual([]);
  expect(await readFile(note, 'utf8')).toBe(noted);
  await rm(note); // as at the next day, or after a boot
  expect(of((await run()).lines, 'clusterInfo.updated')).toHaveLength(1);
  expect((await data('kube-public', 'cluster-info'))['kubeconfig']).toBe(
    clusterInfoKubeconfig('https://192.0.2.10:6443', ca),
  );
});

it('says how the right is granted where it is not, and once an hour', async () => {
  const role = ['-n', 'kube-public', 'role/kube-cert-recovery-hosts'];
  expect((await ask(oldConf, 'delete', ...role)).code).toBe(0);
  const update = ['auth', 'can-i', 'update', 'configmaps/cluster-info', '-n', 'kube-public'];
  const host = ['--as=node1', '--as-group=kube-cert-recovery:hosts'];
  await eventually(async () => expect((await ask(oldConf, ...update, ...host)).stdout).toMatch(/^no/));
  expect((await ask(oldConf, 'apply', '-f', join(machine.root, 'cluster-info.yaml'))).code).toBe(0);
  await rm(join(machine.root, 'lock/cluster-info'));
  const { code, stderr, lines } = await run();
  expect(code, stderr).toBe(0);
  expect(of(lines, 'clusterInfo.failed')).toHaveLength(1);
  expect(stderr).toContain('kube-cert-recovery init host');
  expect(of((await run()).lines, 'clusterInfo.failed')).toEqual([]);
});

it('gives the Lease back, and does nothing more in the next run', async () => {
  const lease = await ask(oldConf, '-n', 'kube-cert-recovery', 'get', 'lease/control-plane-renewal', '-o', 'json');
  expect((JSON.parse(lease.stdout) as { spec: { holderIdentity?: string } }).spec.holderIdentity).toBeFalsy();
  const before = { raw: (await readAll()).map(({ raw }) => raw), restarts: restarts() };
  const { code, stderr, lines } = await run();
  expect(code, stderr).toBe(0);
  expect([...of(lines, 'signer.renewed'), ...of(lines, 'restart.done')]).toEqual([]);
  expect((await readAll()).map(({ raw }) => raw)).toEqual(before.raw);
  expect(restarts()).toEqual(before.restarts);
});
