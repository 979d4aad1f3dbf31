// What `init host` puts on a worker, and takes away again.
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { applyHost, removeHost } from '../../lib/install/host-apply.ts';
import { unitPaths } from '../../lib/install/host.ts';
import { hostLayout, workerTokenFile } from '../../lib/install/layout.ts';
import { grantsOf, grantText } from '../support/cluster/grants.ts';
import { controlPlaneSign, removeWorkerToken, workerToken, writeWorkerToken } from '../../lib/install/worker-host.ts';
import { workerManifests } from '../../lib/install/rbac.ts';
import { runsApprover } from '../../lib/install/workers.ts';
import { digestAnnotation } from '../../lib/install/install-record.ts';
import { renderWorker, workerCommand, type WorkerUnits } from '../../lib/install/worker-units.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'worker-units-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const units = (more: Partial<WorkerUnits> = {}): WorkerUnits => ({
  executable: '/opt/kube-cert-recovery',
  flags: ['--preset=kubeadm'],
  writable: ['/var/lib/kubelet/pki'],
  unitDirectory: directory,
  ...more,
});
const line = (end: string, key: string): string =>
  (renderWorker(units()).find(({ path }) => path.endsWith(end))?.content ?? '')
    .split('\n')
    .find((one) => one.startsWith(`${key}=`)) ?? '';

const tokenOf = (subject: string): string =>
  ['{"alg":"RS256"}', JSON.stringify({ sub: subject }), 'signature']
    .map((part) => Buffer.from(part).toString('base64url'))
    .join('.');
const good = tokenOf('system:serviceaccount:kube-cert-recovery:kube-cert-recovery-worker');

describe('renderWorker()', () => {
  it('never lets the kubelet wait as long as systemd waits for it, nor fail, and ends by itself before that', () => {
    const [, kill, limit, wait] =
      /^ExecStartPre=-\/usr\/bin\/timeout --kill-after=(\d+)s (\d+)s \/opt\/kube-cert-recovery renew-worker --preset=kubeadm --wait=(\d+)s$/.exec(
        line('20-kube-cert-recovery.conf', 'ExecStartPre'),
      ) ?? [];
    expect(Number(kill) + Number(limit)).toBeLessThanOrEqual(60); // of 90
    expect(Number(wait)).toBeLessThan(Number(limit));
  });

  it('waits longer in the service, which systemd ends after it has ended by itself', () => {
    const [, wait] =
      /renew-worker --preset=kubeadm --wait=(\d+)m --restart-kubelet$/.exec(line('.service', 'ExecStart')) ?? [];
    expect(line('.service', 'TimeoutStartSec')).toBe(`TimeoutStartSec=${Number(wait) + 2}min`);
    // A kubelet that cannot start is starting all the time: what waits for that never comes.
    expect(line('.service', 'After')).not.toContain('kubelet');
  });

  it('lets the service write where the certificate lies, and signal nobody', () => {
    expect(line('.service', 'ReadWritePaths')).toBe('ReadWritePaths=-/var/lib/kubelet/pki');
    expect(line('.service', 'CapabilityBoundingSet')).not.toMatch(/KILL|PTRACE/);
    expect(line('.timer', 'OnCalendar')).toBe('OnCalendar=minutely');
  });

  it('has units that uninstall host knows', () => {
    for (const { path } of renderWorker(units())) expect(unitPaths(directory)).toContain(path);
    expect(workerCommand(units())).toEqual(['/opt/kube-cert-recovery', 'renew-worker', '--preset=kubeadm']);
  });
});

describe('on a disk', () => {
  const told: string[] = [];
  const machine = { systemctl: async (...args: readonly string[]) => void told.push(args.join(' ')) };

  it('are units and a token for root alone, and after uninstall host nothing', async () => {
    const own = join(directory, 'etc/kube-cert-recovery');
    await mkdir(join(directory, 'etc'));
    expect(await writeWorkerToken(good, own)).toBe('written');
    expect(await writeWorkerToken(good, own)).toBe('unchanged');
    const path = workerTokenFile(hostLayout(own));
    expect(path).toBe(`${own}/credentials/worker/token`);
    expect(await readFile(path, 'utf8')).toBe(good);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(own, 'credentials/worker'))).mode & 0o777).toBe(0o700);
    await applyHost(renderWorker(units()), machine);
    expect(told).toEqual(['daemon-reload', 'enable --now kube-cert-recovery.timer', 'cat kubelet.service']);

    expect(await removeWorkerToken(own, true)).toEqual([`${own}/credentials/worker`]);
    expect(await readFile(path, 'utf8')).toBe(good);
    const removed = await removeHost(unitPaths(directory), { ...machine, dryRun: false });
    expect(removed).toHaveLength(3);
    expect(await removeWorkerToken(own, false)).toEqual([`${own}/credentials/worker`]);
    expect(await removeWorkerToken(own, false)).toEqual([]);
    expect(await readdir(join(directory, 'etc'))).toEqual([]);
  });

  it('leaves credentials of others', async () => {
    await writeWorkerToken(good, directory);
    await mkdir(join(directory, 'credentials/regen'));
    await removeWorkerToken(directory, false);
    expect(await readdir(join(directory, 'credentials'))).toEqual(['regen']);
  });
});

describe('workerToken()', () => {
  it('takes the token of workers, also with a line end', () => {
    expect(workerToken(`${good}\n`, '/dev/stdin')).toBe(good);
  });

  it.each([
    ['nothing', '\n', 'there is none'],
    ['another account', tokenOf('system:serviceaccount:x:kube-cert-recovery-regen'), 'wanted ServiceAccount'],
    ['a user of that name', tokenOf('oidc:kube-cert-recovery-worker'), 'wanted ServiceAccount'],
    ['a bootstrap token', 'abcdef.0123456789abcdef', 'it is no token of a ServiceAccount'],
    ['no JSON', 'a.b.c', 'it is no token of a ServiceAccount'],
  ])('refuses %s, and does not show it', (_name, text, message) => {
    let said = '';
    try {
      workerToken(text, '/dev/stdin');
    } catch (err) {
      said = (err as Error).message;
    }
    expect(said).toContain('Cannot use the token in /dev/stdin: ');
    expect(said).toContain(message);
    if (text.length > 5) expect(said).not.toContain(text);
  });
});

it('controlPlaneSign() is what a worker does not have', async () => {
  const here = { kubernetesDir: directory, pkiDir: join(directory, 'pki') };
  await mkdir(here.pkiDir);
  // `kubeadm join` brings the CA's certificate to each worker.
  await writeFile(join(here.pkiDir, 'ca.crt'), '');
  expect(controlPlaneSign(here)).toBeUndefined();
  await writeFile(join(here.pkiDir, 'ca.key'), '');
  expect(controlPlaneSign(here)).toBe(join(here.pkiDir, 'ca.key'));
});

describe('workerManifests()', () => {
  it('grants to create requests and to get one by its name, and binds no role of upstream', () => {
    const manifests = workerManifests('kube-cert-recovery');
    expect(manifests.map(({ kind }) => kind)).toEqual([
      'Namespace',
      'ServiceAccount',
      'ClusterRole',
      'ClusterRoleBinding',
      'Secret',
    ]);
    const what = 'certificatesigningrequests.certificates.k8s.io';
    expect(grantsOf(manifests).map(grantText)).toEqual([
      `kube-cert-recovery-worker: create ${what}`,
      `kube-cert-recovery-worker: get ${what}`,
    ]);
    expect(JSON.stringify(manifests)).not.toContain('system:');
    for (const { kind, metadata } of manifests.filter(({ kind: one }) => one !== 'Namespace')) {
      expect(metadata.labels, kind).toEqual({ 'app.kubernetes.io/managed-by': 'kube-cert-recovery' });
    }
  });
});

describe('runsApprover()', () => {
  const pod = (phase: string, container: object, annotations = {}) => ({
    metadata: { namespace: 'kube-system', name: 'x', annotations },
    status: { phase },
    spec: { containers: [container] },
  });
  const adopted = { [digestAnnotation]: 'x' };

  it.each([
    ['an adopted kube-apiserver', pod('Running', { name: 'kube-apiserver' }, adopted), true],
    ['another adopted pod', pod('Running', { name: 'kube-scheduler' }, adopted), false],
    ['kube-apiserver as kubeadm made it', pod('Running', { name: 'kube-apiserver' }), false],
    ['a pod by itself', pod('Running', { args: ['--mode=approver', '--preset=x'] }), true],
    ['one of several modes', pod('Running', { command: ['/k', '--mode=regen,approver,syncer'] }), true],
    ['a pod of another mode', pod('Running', { args: ['--mode=regen', '--approver-kubeconfig=/x'] }), false],
    ['one that does not run', pod('Pending', { args: ['--mode=approver'] }), false],
  ])('%s: %s', (_name, one, does) => {
    expect(runsApprover(one)).toBe(does);
  });
});
