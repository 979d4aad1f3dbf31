import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { discoverEnvironment } from '../../lib/inventory/discover/discover.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';

const pod = (name: string, namespace = 'kube-system'): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: { containers: [{ name, command: [name] }] },
  });

let root: string;
let manifests: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'manifests-'));
  manifests = join(root, 'etc/kubernetes/manifests');
  await mkdir(manifests, { recursive: true });
  await writeFile(join(manifests, 'kube-apiserver.yaml'), pod('kube-apiserver'));
  await writeFile(join(manifests, 'etcd.yaml'), pod('etcd'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function notes(): Promise<readonly string[]> {
  const { notes: all } = await discoverEnvironment(loadPreset('kubeadm'), {}, { root, addresses: () => ({}) });
  return all.filter((note) => note.includes('manifests/'));
}

it.each([
  ['a copy beside it', 'kube-apiserver.yaml.bak', pod('kube-apiserver')],
  ['by any name', 'old', pod('kube-apiserver')],
  ['as an editor leaves it', 'kube-apiserver.yaml~', pod('kube-apiserver')],
])('the kubelet reads a second manifest too: %s', async (_, name, text) => {
  await writeFile(join(manifests, name), text);
  expect(await notes()).toEqual([
    `"/etc/kubernetes/manifests/kube-apiserver.yaml" and "/etc/kubernetes/manifests/${name}" are both the static pod ` +
      '"kube-system/kube-apiserver": the kubelet reads every file there whose name does not begin with a dot, and which ' +
      'of them it runs is not defined; move one away',
  ]);
});

it.each([
  ['a name with a dot', '.kube-apiserver.yaml.swp', pod('kube-apiserver')],
  ['another pod', 'haproxy.yaml', pod('haproxy')],
  ['the same name in another namespace', 'other.yaml', pod('kube-apiserver', 'mine')],
  ['no pod', 'README', 'how to: {'],
])('and says nothing of %s', async (_, name, text) => {
  await writeFile(join(manifests, name), text);
  await mkdir(join(manifests, 'kube-apiserver.d'));
  expect(await notes()).toEqual([]);
});
