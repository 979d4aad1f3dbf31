import { describe, expect, it } from 'vitest';
import { valuesIn } from '../../lib/inventory/discover/component-settings.ts';
import { commandLineOf } from '../../lib/inventory/discover/documents.ts';
import { namedFiles } from '../../lib/inventory/discover/named-files.ts';

const declared = {
  ca: { description: 'CA', namedBy: { component: 'kube-apiserver', flag: 'etcd-cafile' } },
  caKey: { description: 'its key', keyOf: 'ca' },
};

const pod = (flags: readonly string[], mounts: readonly (readonly [at: string, hostPath: string])[] = []): string =>
  JSON.stringify({
    metadata: { annotations: { 'kube-cert-recovery/flags': '["--etcd-cafile=/synced/ca-bundle.crt"]' } },
    spec: {
      containers: [
        { name: 'other', command: ['other', '--etcd-cafile=/other/ca.crt'] },
        {
          name: 'kube-apiserver',
          command: ['kube-apiserver', ...flags],
          volumeMounts: mounts.map(([mountPath], at) => ({ name: `v${at}`, mountPath })),
        },
      ],
      volumes: mounts.map(([, path], at) => ({ name: `v${at}`, hostPath: { path } })),
    },
  });

const settingsOf = (manifest: string) => {
  const source = '/etc/kubernetes/manifests/kube-apiserver.yaml';
  const { words = [], mounts = [] } = commandLineOf(manifest, { component: 'kube-apiserver', source }) ?? {};
  return { values: valuesIn(words), mounts, source };
};

describe('namedFiles()', () => {
  it.each<readonly [string, string, Readonly<Record<string, string>>]>([
    ['kubeadm names', pod(['--etcd-cafile=/e/ca.crt']), { ca: '/e/ca.crt', caKey: '/e/ca.key' }],
    ['cfssl names', pod(['--etcd-cafile', '/e/ca.pem']), { ca: '/e/ca.pem', caKey: '/e/ca-key.pem' }],
    ['a name without ending', pod(['--etcd-cafile=/e.d/ca']), { ca: '/e.d/ca', caKey: '/e.d/ca.key' }],
    ['no flag', pod(['--etcd-servers=https://e:2379']), {}],
    ['a path that is none', pod(['--etcd-cafile=ca.crt']), {}],
    ['no manifest', '', {}],
    ['garbage', '{{{', {}],
    [
      'a directory of the host that the pod has elsewhere',
      pod(
        ['--etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt'],
        [
          ['/etc/kubernetes/', '/wrong'],
          ['/etc/kubernetes/pki', '/var/lib/kubeadm/pki'],
        ],
      ),
      { ca: '/var/lib/kubeadm/pki/etcd/ca.crt', caKey: '/var/lib/kubeadm/pki/etcd/ca.key' },
    ],
    [
      'a single file of the host',
      pod(['--etcd-cafile=/ca.crt'], [['/ca.crt', '/host/etcd.crt']]),
      { ca: '/host/etcd.crt', caKey: '/host/etcd.key' },
    ],
    [
      'an adopted pod, whose last flag names a file of ours',
      pod(['--etcd-cafile=/e/ca.crt', '--etcd-cafile=/synced/ca-bundle.crt']),
      { ca: '/e/ca.crt', caKey: '/e/ca.key' },
    ],
  ])('%s', (_title, manifest, expected) => {
    expect(namedFiles(declared, { 'kube-apiserver': settingsOf(manifest) })).toEqual(expected);
  });
});
