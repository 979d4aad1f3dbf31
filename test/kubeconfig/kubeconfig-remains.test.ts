import { describe, expect, it } from 'vitest';
import { otherThanKubeconfig } from '../../lib/kubeconfig/kubeconfig-remains.ts';

const named = (text: string | Buffer): string | undefined => otherThanKubeconfig(Buffer.from(text as string));
const data = 'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t'.repeat(20);
const whole = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: ${data}
    server: https://192.0.2.10:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: system:kube-scheduler
  name: system:kube-scheduler@kubernetes
current-context: system:kube-scheduler@kubernetes
kind: Config
preferences: {}
users:
- name: system:kube-scheduler
  user:
    client-certificate-data: ${data}
    client-key-data: ${data}
`;
const json = (value: object): string => JSON.stringify(value);

describe('otherThanKubeconfig()', () => {
  it.each<[string, string | Buffer, string]>([
    ['an EnvironmentFile', '# args\nexport A="x"\nKUBELET_ARGS=--v=2\n', 'a file of environment variables'],
    ['half an EnvironmentFile', 'KUBE_SCHEDULER_ARGS="--leader-el', 'a file of environment variables'],
    ['a configuration', 'kind: KubeletConfiguration\nclusterDomain: x\n', 'a document of kind KubeletConfiguration'],
    [
      'half a configuration',
      'apiVersion: kubelet.config.k8s.io/v1beta1\nauthentication:\n  anonymous:\n    enab',
      'another YAML document',
    ],
    ['another mapping', 'leaderElection: {leaderElect: true}\n', 'another YAML document'],
    [
      'an audit policy, whose rules have users',
      'apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n  users: ["system:kube-proxy"]\n',
      'a document of kind Policy',
    ],
    ['data of cloud-init', '#cloud-config\nusers:\n- name: bob\n  shell: /bin/sh\n', 'another YAML document'],
    [
      'a ConfigMap that holds a kubeconfig',
      `apiVersion: v1\nkind: ConfigMap\ndata:\n  kubeconfig.conf: |\n${whole.replaceAll(/^/gm, '    ')}`,
      'a document of kind ConfigMap',
    ],
    [
      'half a Pod in JSON',
      json({ apiVersion: 'v1', kind: 'Pod', spec: {} }).slice(0, 30),
      'a JSON document, or a part of one',
    ],
    ['a script that holds a kubeconfig', `#!/bin/sh\ncat > x <<EOF\n${whole}EOF\n`, 'a script'],
    ['an archive', Buffer.from('1f8b0800000000000003', 'hex'), 'an archive (gzip)'],
    [
      'a key of SSH',
      '-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n',
      'a PEM block "OPENSSH PRIVATE KEY"',
    ],
    ['a certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n', 'a PEM block "CERTIFICATE"'],
    ['text', 'garbage\n', 'text'],
    ['notes', 'Notes of the platform team\nclusters:\n  see wiki\n\tcontact: bob\n', 'text'],
    ['a heading and a line', 'clusters:\n  see wiki\n\tbob\n', 'text'],
    ['a configuration of Slurm', 'ClusterName=a\nusers:\n - a\ncontexts: 5\nNodeName=x CPUs=4\n: [', 'text'],
    ['lists of names', 'clusters: [a, b]\nusers: [bob]\n', 'another YAML document'],
    [
      'lists of other items',
      'clusters:\n- name: a\n  nodes: 3\nusers:\n- name: bob\n  user: bob\n',
      'another YAML document',
    ],
    ['a kubeconfig in comments', whole.replaceAll(/^(?=.)/gm, '# '), 'text'],
    ['settings of clusters', 'clusters: 3\nusers: 7\n', 'another YAML document'],
    ['bytes', Buffer.from('feff00010203807f', 'hex').subarray(2), 'binary data'],
    ['text before zeros', 'garbage\n\0\0\0', 'binary data'],
  ])('names %s', (_title, content, name) => {
    expect(named(content)).toBe(name);
  });

  it.each([
    ['an empty file', ''],
    ['zero bytes after a power loss', '\0\0\0\0'],
    ['a kubeconfig', whole],
    ['a kubeconfig in JSON', json({ kind: 'Config', apiVersion: 'v1', clusters: [], contexts: [], users: [] })],
    ['half a kubeconfig in JSON', '{"kind":"Config","apiVersion":"v1","clusters":[{"clus'],
    ['a kubeconfig with a damaged kind', 'apiVersion: v1\nkind: Conzig\nclusters: []\nusers: []\n'],
    ['one with a byte of another encoding', Buffer.from(whole.replace('server', 's\xffrver'), 'latin1')],
    ['one in UTF-16', Buffer.concat([Buffer.from('fffe', 'hex'), Buffer.from(whole, 'utf16le')])],
    ['one whose first part was zeroed', `${'\0'.repeat(1500)}${whole.slice(1500)}`],
    ['one whose last part was zeroed', `${whole.slice(0, 700)}${'\0'.repeat(1500)}`],
    ['one with a torn quote', whole.replace('name: kubernetes\n', 'name: "kubernetes\n')],
  ])('takes %s for a kubeconfig', (_title, content) => {
    expect(named(content)).toBeUndefined();
  });

  it('takes a kubeconfig for one that was cut off anywhere', () => {
    const lengths = Array.from({ length: whole.length }, (_, length) => length);
    expect(lengths.filter((length) => length !== 1 && named(whole.slice(0, length)) !== undefined)).toEqual([]);
  });
});
