// Which files a component loads at its start, and what of them: by a preset, and by files on disk.
import { chmod, mkdtemp, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { componentsOf } from '../../lib/restart/decide.ts';
import type { FileState } from '../../lib/restart/loaded.ts';
import { startFilesOf, stateOfFile } from '../../lib/restart/start-files.ts';
import { toYaml } from '../../lib/yaml.ts';

const filesByComponent = (
  preset: string,
  parameter: string,
  files: Readonly<Record<string, string>> = {},
): Record<string, readonly string[]> => {
  const resolved = resolve(loadPreset(preset), { parameters: { [parameter]: ['node1'] }, files });
  return Object.fromEntries(
    componentsOf(resolved).map((component) => [
      component.name,
      startFilesOf(component, resolved).map(({ file }) => file),
    ]),
  );
};

describe('startFilesOf()', () => {
  it('names what the processes of kubeadm cannot read again, without what the kubelet rotates or serves', () => {
    expect(filesByComponent('kubeadm', 'nodeName')).toEqual({
      kubelet: ['/etc/kubernetes/kubelet.conf'],
      etcd: ['/etc/kubernetes/pki/etcd/ca.crt'],
      'kube-apiserver': ['/etc/kubernetes/pki/etcd/ca.crt'],
      'kube-controller-manager': ['/etc/kubernetes/pki/ca.crt', '/etc/kubernetes/controller-manager.conf'],
      'kube-scheduler': ['/etc/kubernetes/scheduler.conf'],
    });
  });

  it('names the files that the flags of the processes name', () => {
    const files = {
      etcdServerCaFile: '/etc/etcd-ssl/ca.pem',
      caFile: '/etc/kubernetes/ssl/ca.pem',
      controllerManagerKubeconfig: '/etc/kubernetes/manager.kubeconfig',
      schedulerKubeconfig: '/etc/kubernetes/scheduler.kubeconfig',
    };
    expect(filesByComponent('kubeadm', 'nodeName', files)).toEqual({
      kubelet: ['/etc/kubernetes/kubelet.conf'],
      etcd: ['/etc/etcd-ssl/ca.pem'],
      'kube-apiserver': ['/etc/etcd-ssl/ca.pem'],
      'kube-controller-manager': ['/etc/kubernetes/ssl/ca.pem', '/etc/kubernetes/manager.kubeconfig'],
      'kube-scheduler': ['/etc/kubernetes/scheduler.kubeconfig'],
    });
  });

  it('names one CA for all to each that cannot read it again, for whichever purpose', () => {
    const ca = '/etc/kubernetes/pki/ca.crt';
    expect(filesByComponent('kubeadm', 'nodeName', { etcdServerCaFile: ca })).toMatchObject({
      etcd: [ca],
      'kube-apiserver': [ca],
      'kube-controller-manager': [ca, '/etc/kubernetes/controller-manager.conf'],
    });
  });

  it('names the CA of an etcd that is a service', () => {
    expect(filesByComponent('etcdadm', 'memberName')).toEqual({ etcd: ['/etc/etcd/pki/ca.crt'] });
  });
});

describe('stateOfFile()', () => {
  let directory: string;
  let file: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'start-files-'));
    file = join(directory, 'scheduler.conf');
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const text = (more: object = {}, key = 'a2V5'): string =>
    toYaml({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'kubernetes', cluster: { server: 'https://192.0.2.1:6443', ...more } }],
      users: [{ name: 'me', user: { 'client-certificate-data': 'Y2VydA==', 'client-key-data': key } }],
      contexts: [{ name: 'me@kubernetes', context: { cluster: 'kubernetes', user: 'me' } }],
      'current-context': 'me@kubernetes',
    });
  const look = async (): Promise<FileState> => {
    const artefact = { artefact: 'a', file, isKubeconfig: true };
    const found = await stateOfFile(artefact, { name: 'x', artefacts: [] }, systemClock);
    return found ?? expect.fail('it cannot be read');
  };

  it.each<[string, boolean, string]>([
    ['a comment', true, `# hello\n${text()}`],
    ['another key', false, text({}, 'b3RoZXI=')],
    ['another CA', false, text({ 'certificate-authority-data': 'Y2E=' })],
    ['another server', false, text({ server: 'https://192.0.2.2:6443' })],
    ['half of it', false, text().slice(0, 80)],
  ])('%s: the same to who loads it is %s', async (_title, isSame, next) => {
    await writeFile(file, text());
    const { digest } = await look();
    await writeFile(file, next);
    expect((await look()).digest === digest).toBe(isSame);
  });

  it('takes a mode for no writing, and what was put in its place with old dates for one', async () => {
    await writeFile(file, text());
    const old = new Date('2020-01-01T00:00:00Z');
    await utimes(file, old, old);
    await chmod(file, 0o600);
    const first = await look();
    expect(first.writtenAt.getTime()).toBe(Math.floor((await stat(file)).birthtimeMs));
    expect(first.touchedSeconds).toBeGreaterThanOrEqual(first.writtenSeconds);
    await writeFile(`${file}.new`, text());
    await utimes(`${file}.new`, old, old);
    await rename(`${file}.new`, file);
    expect((await look()).writtenAt.getTime()).toBe(Math.floor((await stat(file)).birthtimeMs));
  });

  it('takes a change of this very moment for one of the past', async () => {
    const before = systemClock.uptimeSeconds() ?? expect.fail('no uptime');
    // Where the kernel dates files to the microsecond, half of them are in the second half of their millisecond.
    for (let change = 0; change < 100; change += 1) {
      await writeFile(file, text({}, `key ${change}`));
      const { writtenSeconds, touchedSeconds } = await look();
      expect(writtenSeconds).toBeGreaterThan(before - 1);
      expect(touchedSeconds).toBeGreaterThan(before - 1);
    }
  });

  it('has nothing to say of a file that is not there', async () => {
    const missing = { artefact: 'a', file, isKubeconfig: false };
    expect(await stateOfFile(missing, { name: 'x', artefacts: [] }, systemClock)).toBe(undefined);
  });
});
