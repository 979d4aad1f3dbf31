import { describe, expect, it } from 'vitest';
import { loadInventory } from '../../lib/inventory/load.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { checkEnvironment, resolve } from '../../lib/inventory/resolve.ts';

const inventory = loadInventory(`apiVersion: kube-cert-recovery/v1alpha1
kind: Inventory
name: test
namespace: certs
parameters:
  names: { description: the load balancer }
  more: { description: more names, default: [z.example.com] }
directories:
  pki: { description: where, default: /etc/pki }
  other: { description: where else }
artefacts:
  - kind: target
    name: serving
    location: { pemPair: { certFile: '{pki}/a.crt', keyFile: '{other}/a.key' } }
    issuer: intermediate
    usage: serving
    hostnames: [LocalHost., 10.0.0.1, { parameter: more }, { parameter: names }]
    validity: 2d
    refresh: 1d
  - { kind: caBundle, name: ca, location: { pemFile: '{pki}/ca.crt' }, signers: [intermediate, signer] }
  - kind: signer
    name: intermediate
    location: { secret: intermediate }
    issuer: signer
    validity: 2d
    refresh: 1d
  - { kind: signer, name: signer, location: { secret: signer }, validity: 2d, refresh: 1d }
`);
const complete = { parameters: { names: ['b.example.com'] }, directories: { other: '/srv' } };

describe('resolve()', () => {
  it('flattens host names: one spelling, sorted, none twice', () => {
    const parameters = {
      names: ['b.example.com', 'B.example.com.', 'localhost', '2001:DB8:0::1', '*.c.example.com'],
      more: [],
    };
    const { artefacts } = resolve(inventory, { ...complete, parameters });
    expect(artefacts.find(({ name }) => name === 'serving')).toMatchObject({
      hostnames: ['*.c.example.com', '10.0.0.1', '2001:db8::1', 'b.example.com', 'localhost'],
    });
  });

  it('takes the default of a parameter and of a directory that is not given', () => {
    const { artefacts } = resolve(inventory, complete);
    expect(artefacts.find(({ name }) => name === 'serving')).toMatchObject({
      hostnames: ['10.0.0.1', 'b.example.com', 'localhost', 'z.example.com'],
      location: { kind: 'pemPair', certFile: '/etc/pki/a.crt', keyFile: '/srv/a.key' },
    });
  });

  it('lets a directory follow the one that its default lies below, unless it is given itself', () => {
    const preset = loadPreset('kubeadm');
    const caAt = (directories: Readonly<Record<string, string>>): unknown =>
      resolve(preset, { directories }).artefacts.find(({ name }) => name === 'ca')?.location;
    expect(caAt({})).toMatchObject({ certFile: '/etc/kubernetes/pki/ca.crt' });
    expect(caAt({ kubernetesDir: '/k' })).toMatchObject({ certFile: '/k/pki/ca.crt' });
    expect(caAt({ kubernetesDir: '/k', pkiDir: '/p' })).toMatchObject({ certFile: '/p/ca.crt' });
  });

  it('puts signers first, an issuer before what it signs, then bundles, then targets', () => {
    const { artefacts } = resolve(inventory, complete);
    expect(artefacts.map(({ name }) => name)).toEqual(['signer', 'intermediate', 'ca', 'serving']);
  });

  it('tells everything that is missing or wrong in one error', () => {
    const environment = { parameters: { name: ['a'], more: ['a b', '10.0.0.300'] }, directories: { pkis: '/a' } };
    expect(() => resolve(inventory, environment)).toThrow(
      [
        'Cannot resolve inventory "test": 6 problems',
        '  parameters.name: must be declared by the inventory (did you mean "names"?)',
        '  parameters.names: is required: the load balancer',
        '  directories.pkis: must be declared by the inventory (did you mean "pki"?)',
        '  directories.other: is required: where else',
        '  parameters.more[0]: must be a DNS name or an IP address, got "a b"',
        '  parameters.more[1]: must be a DNS name or an IP address, got "10.0.0.300"',
      ].join('\n'),
    );
  });

  it('leaves open what may lack, for a process that makes no certificate', () => {
    const { artefacts } = resolve(inventory, { mayLack: true });
    expect(artefacts.find(({ name }) => name === 'serving')).toMatchObject({
      hostnames: ['10.0.0.1', 'localhost', 'z.example.com'],
      location: { certFile: '/etc/pki/a.crt', keyFile: '{other}/a.key' },
    });
    expect(() => resolve(inventory, { mayLack: true, parameters: { name: [] } })).toThrow(
      'parameters.name: must be declared',
    );
  });

  it('refuses two paths that become one by the directories given', () => {
    const environment = { ...complete, directories: { pki: '/srv/', other: '/srv' } };
    expect(checkEnvironment(inventory, environment)).toEqual([]);
    const same = {
      ...inventory,
      artefacts: inventory.artefacts.map((one) =>
        one.name === 'ca' ? { ...one, location: { kind: 'pemFile' as const, file: '{other}/a.crt' } } : one,
      ),
    };
    expect(checkEnvironment(same, environment)).toMatchObject([{ path: 'artefacts[ca]', kind: 'duplicate' }]);
  });

  it('refuses a serving target that is left without any name', () => {
    const artefacts = inventory.artefacts.map((one) =>
      one.kind === 'target' ? { ...one, hostnames: [{ parameter: 'names' }] } : one,
    );
    const environment = { ...complete, parameters: { names: [] } };
    expect(checkEnvironment({ ...inventory, artefacts }, environment)).toMatchObject([
      { path: 'parameters.names', kind: 'required' },
    ]);
  });
});

describe('groups of a client', () => {
  it('are those of an earlier kubeadm where nothing binds the later ones', () => {
    const kubeadm = loadPreset('kubeadm');
    const parameters = { nodeName: ['node1'], advertiseAddress: ['192.0.2.10'], serviceIP: ['10.96.0.1'] };
    const groups = (lacks: readonly 'clusterAdmins'[]) =>
      resolve(kubeadm, { parameters, lacks }).artefacts.flatMap((one) =>
        one.kind === 'target' && ['admin.conf', 'apiserver-kubelet-client'].includes(one.name) ? one.organizations : [],
      );
    expect(groups([])).toEqual(['kubeadm:cluster-admins', 'kubeadm:cluster-admins']);
    expect(groups(['clusterAdmins'])).toEqual(['system:masters', 'system:masters']);
  });
});
