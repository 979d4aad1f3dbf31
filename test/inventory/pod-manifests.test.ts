// Manifests of static pods as the kubelet reads them, and those that are for a person to mend.
import { describe, expect, it } from 'vitest';
import { flagsOf, kubeletConfigurationOf } from '../../lib/inventory/discover/documents.ts';
import { readStaticPods } from '../../lib/inventory/discover/pod-manifests.ts';

const pod = (component: string): string =>
  `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${component}\nspec:\n  containers:\n` +
  `  - name: ${component}\n    imagePullPolicy: Always\n    command: [${component}, --tls-cert-file=/a.crt]\n`;

const readIn = (files: Readonly<Record<string, string | undefined>>, only?: string) =>
  readStaticPods(
    { directory: '/manifests', ...(only !== undefined && { only }) },
    {
      names: () => Promise.resolve(Object.keys(files)),
      text: (path) => Promise.resolve(files[path.replace('/manifests/', '')]),
    },
  );
const brokenIn = async (files: Readonly<Record<string, string | undefined>>): Promise<readonly string[]> =>
  (await readIn(files)).unread.map(({ component, file }) => `${component} ${file}`);

describe('a manifest that the kubelet takes is read', () => {
  it.each([
    ['empty documents around it', `---\n# note\n---\n${pod('kube-apiserver')}---\n`],
    ['a key that is there twice', `${pod('kube-apiserver')}    imagePullPolicy: Never\n`],
  ])('with %s', async (_, text) => {
    expect(flagsOf(text, 'kube-apiserver')?.get('tls-cert-file')).toBe('/a.crt');
    expect(await brokenIn({ 'kube-apiserver.yaml': text })).toEqual([]);
  });

  it('and so is a configuration of the kubelet', () => {
    expect(kubeletConfigurationOf('---\n---\nclusterDomain: a\nclusterDomain: b\n---\n')).toEqual({
      clusterDomain: 'b',
    });
  });
});

it('reads one file alone where the kubelet does', async () => {
  const found = await readIn({ 'all.yaml': pod('etcd'), 'other.yaml': pod('kube-apiserver') }, 'all.yaml');
  expect(found.files).toMatchObject({ etcd: '/manifests/all.yaml' });
  expect(found.manifests['kube-apiserver']).toBeUndefined();
});

describe('a manifest that nobody can follow is reported', () => {
  const own = 'kube-apiserver /manifests/kube-apiserver.yaml';
  it.each<readonly [string, Readonly<Record<string, string | undefined>>, readonly string[]]>([
    ['one of zeros', { 'kube-apiserver.yaml': '\0\0\0\0' }, [own]],
    ['an empty one', { 'kube-apiserver.yaml': '' }, [own]],
    ['one that cannot be read', { 'kube-apiserver.yaml': undefined }, [own]],
    ['a torn one', { 'kube-apiserver.yaml': `${pod('kube-apiserver')}    image: [` }, [own]],
    ['two pods in one', { 'kube-apiserver.yaml': `${pod('kube-apiserver')}---\n${pod('etcd')}` }, [own]],
    [
      'a torn one of another name',
      { 'api.json': '{"metadata":{"name":"etcd"},"spec":[' },
      ['etcd /manifests/api.json'],
    ],
    [
      'no torn one that only names the component',
      { 'kube-scheduler.yaml': 'name: etcd\n[' },
      ['kube-scheduler /manifests/kube-scheduler.yaml'],
    ],
    [
      'no copy beside a whole one',
      { 'kube-apiserver.yaml': pod('kube-apiserver'), 'kube-apiserver.yaml.bak': '[' },
      [],
    ],
    ['none of the kubelet, which is no pod', { 'kubelet.yaml': 'a: 1' }, []],
    [
      'one of two that name different files',
      { 'kube-apiserver.yaml': pod('kube-apiserver'), 'a.bak': pod('kube-apiserver').replace('/a.crt', '/b.crt') },
      [own],
    ],
    [
      'none of two that name the same files',
      { 'kube-apiserver.yaml': pod('kube-apiserver'), 'a.bak': pod('kube-apiserver').replace('Always', 'Never') },
      [],
    ],
    ['no hidden one', { '.kube-apiserver.yaml': '[' }, []],
    ['none where there is none', {}, []],
  ])('%s', async (_, files, expected) => {
    expect(await brokenIn(files)).toEqual(expected);
  });
});
