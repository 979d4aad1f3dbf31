// The files of a pod where something else lies in their place: our container may write there, root follows nothing.
import { execFile } from 'node:child_process';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { podConfig, podLayout, writePodFiles } from '../../lib/adopt/pod-files.ts';
import { keptIn } from '../../lib/config/installed-settings.ts';
import { systemClock } from '../../lib/clock.ts';
import { removeDirectory } from '../../lib/install/existing-files.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });
let root: string;
let directory: string;
let victim: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'pod-files-'));
  directory = join(root, 'own');
  victim = join(root, 'victim');
  await mkdir(victim);
  await chmod(victim, 0o755);
});
afterEach(() => rm(root, { recursive: true, force: true }));

const pod = 'kube-scheduler';
const inPod = (...path: string[]): string => join(directory, pod, ...path);
/** Where the API is asked, everything before it has been looked at. */
const asked = new Error('the API is asked');

function write(): Promise<readonly string[]> {
  const connection = Object.create(null, {
    request: { value: () => Promise.reject(asked) },
  }) as KubeConnection;
  return writePodFiles(pod, {
    resolved,
    directory,
    material: new Map(),
    settings: {},
    nodeCertificate: '/none',
    server: 'https://127.0.0.1:6443',
    kubeletServer: 'https://127.0.0.1:6443',
    recoveryServerName: 'localhost-recovery',
    namespace: 'kube-cert-recovery',
    running: new Set([pod]),
    api: { connection, signal: AbortSignal.timeout(10_000) },
    store: new MemoryStore(),
    clock: systemClock,
  });
}

async function plant(path: string, target: string): Promise<void> {
  await mkdir(dirname(inPod(path)), { recursive: true });
  await symlink(target, inPod(path));
}

describe('writePodFiles()', () => {
  it.each([
    ['credentials'],
    ['credentials/syncer'],
    ['credentials/syncer/token'],
    ['credentials/syncer/kubeconfig'],
    ['kubeconfigs'],
    ['kubeconfigs/kube-scheduler.kubeconfig'],
    ['certs'],
    ['certs/secrets'],
    ['certs/secrets/kube-scheduler-client'],
    ['certs/configmaps/kube-apiserver-server-ca'],
    ['config.yaml'],
  ])('refuses a link at %s, and leaves alone what it leads to', async (path) => {
    await plant(path, victim);
    const refused = `"${inPod(path)}" is a link; remove it`;
    await expect(write()).rejects.toThrow(refused);
    expect(await readdir(victim)).toEqual([]);
    expect((await stat(victim)).mode & 0o777).toBe(0o755);
    expect((await lstat(inPod(path))).isSymbolicLink()).toBe(true);
  });

  it('refuses a link in an object’s directory that is not the syncer’s', async () => {
    const object = 'certs/secrets/kube-scheduler-client';
    await plant(`${object}/tls.crt`, '..data/tls.crt');
    await plant(`${object}/tls.key`, victim);
    await expect(write()).rejects.toThrow(`"${inPod(object, 'tls.key')}" is a link to "${victim}"; remove it`);
  });

  it('refuses a FIFO in the place of a file, and a file in that of a directory', async () => {
    await mkdir(inPod(), { recursive: true });
    await promisify(execFile)('mkfifo', [inPod('config.yaml')]);
    await expect(write()).rejects.toThrow(`"${inPod('config.yaml')}" is no file; remove it`);
    await rm(inPod('config.yaml'));
    await writeFile(inPod('credentials'), '');
    await expect(write()).rejects.toThrow(`"${inPod('credentials')}" is no directory; remove it`);
  });

  it('goes on where nothing is, and where the directory of all pods is a link of the administrator’s', async () => {
    await symlink(victim, directory);
    await expect(write()).rejects.toBe(asked);
    expect(await readdir(join(victim, pod))).toEqual(['kubeconfigs']);
  });
});

it('removeDirectory() removes links, and not what they lead to', async () => {
  await writeFile(join(victim, 'kept'), 'theirs');
  await plant('credentials', victim);
  await plant('certs/secrets/a', join(victim, 'kept'));
  await removeDirectory(inPod());
  expect(await readdir(directory)).toEqual([]);
  expect(await readFile(join(victim, 'kept'), 'utf8')).toBe('theirs');
});

it('keptIn() has what the administrator gave, in its order, and a second adoption writes the same file', () => {
  const given = {
    preset: 'kubernetes',
    approver: { signers: ['kubelet-client', 'kubelet-serving'], addresses: [{ nodes: { a: ['192.0.2.1'] } }] },
    policy: { kind: 'OnlyWhenExpired' },
    regen: { waitForNodes: {} },
  };
  for (const settings of [given, { preset: 'kubernetes' }]) {
    const named = { ...settings, parameters: { serviceIP: ['10.96.0.1'] }, directories: { pkiDir: '/pki' } };
    const options = { namespace: 'kube-cert-recovery', nodeCertificate: '/none' };
    const text = podConfig('kube-apiserver', podLayout('/own', 'kube-apiserver'), { ...options, settings: named });
    const { apiVersion: _version, kind: _kind, ...kept } = keptIn(text).settings;
    expect(kept).toEqual(settings);
    const { parameters, directories } = named;
    const again = { ...kept, parameters, directories };
    expect(podConfig('kube-apiserver', podLayout('/own', 'kube-apiserver'), { ...options, settings: again })).toBe(
      text,
    );
  }
});
