import { describe, expect, it } from 'vitest';
import { checkInventoryText } from '../../lib/inventory/load.ts';
import { allDirectories, pathHere } from '../../lib/inventory/places.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const kubeadm = loadPreset('kubeadm');
const files = {
  etcdCaFile: '/e/ca.pem',
  etcdCaKeyFile: '/e/ca-key.pem',
  etcdCertFile: '/e/client.pem',
  etcdKeyFile: '/e/client-key.pem',
};
const external = (named: Readonly<Record<string, string>>) =>
  resolve(kubeadm, { lacks: ['stackedEtcd'], files: named }).artefacts.filter(({ name }) => name.includes('etcd'));

describe('pathHere()', () => {
  it.each([
    ['/a/b', '/a/b'],
    ['{dir}/b', '/d/b'],
    ['{file}', '/f.crt'],
    ['{unknown}/b', '{unknown}/b'],
    ['{unknown}', '{unknown}'],
  ])('%s is %s', (written, path) => {
    expect(pathHere(written, { directories: { dir: '/d/' }, files: { file: '/f.crt' } })).toBe(path);
  });
});

it('allDirectories() moves what lies below another directory with it', () => {
  expect(allDirectories(kubeadm, { kubernetesDir: '/k' })).toMatchObject({ pkiDir: '/k/pki' });
});

describe('files that flags name', () => {
  it('are where their entries lie', () => {
    expect(external(files)).toMatchObject([
      { name: 'external-etcd-ca', location: { certFile: '/e/ca.pem', keyFile: '/e/ca-key.pem' } },
      { name: 'external-etcd-client', issuer: 'external-etcd-ca', location: { certFile: '/e/client.pem' } },
    ]);
  });

  it('are none on a machine with the etcd of kubeadm', () => {
    const { artefacts } = resolve(kubeadm, { lacks: ['externalEtcd'], files });
    expect(artefacts.filter(({ name }) => name.startsWith('external'))).toEqual([]);
  });

  it.each<readonly [string, Readonly<Record<string, string>>, readonly string[]]>([
    ['nothing named', {}, []],
    [
      'an etcd that wants no client certificate',
      { etcdCaFile: '/e/ca.pem', etcdCaKeyFile: '/e/ca-key.pem' },
      ['external-etcd-ca'],
    ],
    ['a client without a CA', { etcdCertFile: '/e/client.pem', etcdKeyFile: '/e/client-key.pem' }, []],
    [
      'a client that is another entry',
      { ...files, etcdCertFile: '/etc/kubernetes/pki/apiserver-kubelet-client.crt' },
      ['external-etcd-ca'],
    ],
  ])('%s', (_title, named, names) => {
    expect(external(named).map(({ name }) => name)).toEqual(names);
  });

  it('may be those of another entry, which then stands for it: one CA for all', () => {
    const shared = { ...files, etcdCaFile: '/etc/kubernetes/pki/ca.crt', etcdCaKeyFile: '/etc/kubernetes/pki/ca.key' };
    expect(external(shared)).toMatchObject([{ name: 'external-etcd-client', issuer: 'ca' }]);
  });

  it.each([
    ['x: { description: x }', 'files.x: must have exactly one of namedBy and keyOf'],
    ['x: { description: x, keyOf: y }', 'files.x.keyOf: must name a file that a flag names, got "y"'],
    [
      'x: { description: x, namedBy: { component: c, flag: f } }',
      'files.x: must be used by an artefact, got no use of it',
    ],
    [
      'x: { description: x, namedBy: { component: c, flag: f } }',
      'files.x: must be left out without `discover: kubeadm`, which reads the flags of static pods',
    ],
  ])('%s: %s', (file, message) => {
    const text = `apiVersion: kube-cert-recovery/v1alpha1
kind: Inventory
files: { ${file} }
artefacts:
  - kind: caBundle
    name: b
    location: { pemFile: '{z}' }
    signers: [s]
`;
    const told = checkInventoryText(text).problems.map(({ path, message: what }) => `${path}: ${what}`);
    expect(told).toContain(message);
    expect(told.join('\n')).toContain('artefacts[b].location.pemFile: must be a declared file, got "{z}"');
  });
});
