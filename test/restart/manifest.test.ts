// Manifests as kubeadm writes them, on a real disk.
import { execFileSync } from 'node:child_process';
import {
  chmod,
  link,
  lstat,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { inputsAnnotation, rewriteManifest } from '../../lib/restart/manifest.ts';

const component = 'kube-scheduler';
const text = `apiVersion: v1
kind: Pod
metadata:
  labels:
    component: kube-scheduler # as kubeadm has it
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    image: "registry.k8s.io/kube-scheduler:v1.35.4"
    name: kube-scheduler
    livenessProbe:
      failureThreshold: 8
      httpGet:
        path: /livez
        port: probe-port
  - image: kube-cert-recovery
    name: kube-cert-recovery
  hostNetwork: true
status: {}
`;
const hash = 'a'.repeat(64);

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'manifests-'));
  path = join(directory, 'kube-scheduler.yaml');
  await writeFile(path, text);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const rewrite = (disk = realDisk, wanted = hash): Promise<string> =>
  rewriteManifest({ path, component, hash: wanted }, disk);
const inodeOf = async (file: string): Promise<unknown> => {
  const stats = await lstat(file).catch(() => undefined);
  return stats && { ino: stats.ino, ctimeMs: stats.ctimeMs };
};
const withAnnotation = text.replace(
  '  namespace: kube-system\n',
  `  namespace: kube-system\n  annotations:\n    ${inputsAnnotation(component)}: ${hash}\n`,
);

describe('rewriteManifest()', () => {
  it('sets the annotation and nothing else, keeps the mode, and writes once', async () => {
    await chmod(path, 0o640);
    expect(await rewrite()).toBe('written');
    expect(await readFile(path, 'utf8')).toBe(withAnnotation);
    const written = await stat(path);
    expect(written.mode & 0o777).toBe(0o640);
    expect(await rewrite()).toBe('unchanged');
    expect(await stat(path)).toMatchObject({ ino: written.ino, ctimeMs: written.ctimeMs });
    expect(await readdir(directory)).toEqual(['kube-scheduler.yaml']);
  });

  it('replaces the annotation of former inputs, beside those of others', async () => {
    const key = inputsAnnotation(component);
    await writeFile(path, text.replace('metadata:\n', `metadata:\n  annotations:\n    other: "1"\n    ${key}: old\n`));
    await rewrite();
    const now = await readFile(path, 'utf8');
    expect(now).toContain(`  annotations:\n    other: "1"\n    ${key}: ${hash}\n`);
  });

  it('reads its own digits as text, whatever they look like', async () => {
    const digits = '1'.repeat(64);
    expect(await rewrite(realDisk, digits)).toBe('written');
    expect(await rewrite(realDisk, digits)).toBe('unchanged');
  });

  it('keeps JSON as JSON', async () => {
    await writeFile(
      path,
      JSON.stringify({ apiVersion: 'v1', kind: 'Pod', spec: { containers: [{ name: component }] } }),
    );
    await rewrite();
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({
      metadata: { annotations: { [inputsAnnotation(component)]: hash } },
    });
  });

  it('has a name for its temporary file that the kubelet passes over, and never leaves the manifest absent', async () => {
    const names: string[] = [];
    const disk = {
      ...realDisk,
      rename: async (...[from, to]: Parameters<typeof realDisk.rename>) => {
        names.push(...(await readdir(directory)));
        expect(basename(String(from))).toMatch(/^\./);
        return realDisk.rename(from, to);
      },
    };
    await rewrite(disk);
    expect(names.filter((name) => !name.startsWith('.'))).toEqual(['kube-scheduler.yaml']);
    expect(names).toHaveLength(2);
  });

  it('leaves the manifest to whoever writes it at the same time', async () => {
    let isFirst = true;
    const disk = {
      ...realDisk,
      open: async (...args: Parameters<typeof realDisk.open>) => {
        if (isFirst) await writeFile(path, `${text}# upgraded\n`);
        isFirst = false;
        return realDisk.open(...args);
      },
    };
    expect(await rewrite(disk)).toBe('conflict');
    expect(await readFile(path, 'utf8')).toBe(`${text}# upgraded\n`);
    expect(await readdir(directory)).toEqual(['kube-scheduler.yaml']);
  });

  it.each<[string, () => Promise<unknown>, RegExp]>([
    [
      'a symbolic link',
      async () => {
        await link(path, join(directory, 'target'));
        await rm(path);
        await symlink('target', path);
      },
      /it is a symbolic link/,
    ],
    [
      'a FIFO',
      async () => {
        await rm(path);
        execFileSync('mkfifo', [path]);
      },
      /is a device, a FIFO or a socket/,
    ],
    ['more than 4 MiB', () => truncate(path, 4 * 1024 * 1024 + 1), /is larger than 4 MiB/],
    ['nothing', () => rm(path), /does not exist/],
    ['another object', () => writeFile(path, text.replace('kind: Pod', 'kind: Deployment')), /it is no Pod/],
    [
      'the pod of another component',
      () => writeFile(path, text.replaceAll('name: kube-scheduler', 'name: etcd')),
      /it has no container "kube-scheduler"/,
    ],
    ['two documents', () => writeFile(path, `${text}---\n${text}`), /it is no YAML of one document/],
    ['a torn file', () => writeFile(path, 'apiVersion: [v1'), /it is no YAML of one document/],
    [
      'a pod that cannot have annotations',
      () => writeFile(path, text.replace(/metadata:\n[^]*?spec:/, 'metadata: x\nspec:')),
      /its metadata is no mapping/,
    ],
  ])('refuses %s', async (_title, prepare, message) => {
    await prepare();
    const before = await inodeOf(path);
    const err = await rewrite().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(err).toBeInstanceOf(RecoveryError);
    expect((err as Error).message).toMatch(message);
    expect((err as Error).message).toContain(path);
    expect(await inodeOf(path)).toEqual(before);
  });
});
