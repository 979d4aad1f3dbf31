// Rows in files of this host that are taken from what is there: kubeconfigs, combined PEM files, rows of some machines
// only, names from parameters.
import { describe, expect, it } from 'vitest';
import { checkInventoryText, loadInventory } from '../../lib/inventory/load.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const sound = `apiVersion: kube-cert-recovery/v1alpha1
kind: Inventory
name: host
discover: kubeadm
parameters:
  node: { description: this node, default: [] }
directories:
  conf: { description: where, default: /etc/conf }
artefacts:
  - kind: signer
    name: ca
    location: { pemPair: { certFile: '{conf}/ca.crt', keyFile: '{conf}/ca.key' } }
    validity: 30d
    refresh: 15d
  - kind: signer
    name: etcd
    when: stackedEtcd
    location: { pemPair: { certFile: '{conf}/etcd.crt', keyFile: '{conf}/etcd.key' } }
    validity: 30d
    refresh: 15d
  - kind: target
    name: kubelet.conf
    location: { kubeconfig: { file: '{conf}/kubelet.conf', endpoint: controlPlane, credentials: '{conf}/current.pem' } }
    issuer: ca
    template: present
    usage: client
    commonName: system:node:{node}
    validity: 3d
    refresh: 2d
  - kind: target
    name: etcd-peer
    when: stackedEtcd
    location: { combinedPem: '{conf}/peer.pem' }
    issuer: etcd
    usage: peer
    hostnames: [localhost]
    validity: 3d
    refresh: 2d
  - kind: target
    name: own
    location: { pemPair: { certFile: '{conf}/own.crt', keyFile: '{conf}/own.key' } }
    template: present
    presence: optional
    usage: serving
    hostnames: [parameter: node]
    validity: 3d
    refresh: 2d
`;
const changed = (from: string | RegExp, to: string): string => {
  const text = sound.replace(from, to);
  if (text === sound) throw new Error(`nothing to change: ${String(from)}`);
  return text;
};
const problemsOf = (text: string): string[] =>
  checkInventoryText(text).problems.map(({ path, message }) => `${path}: ${message}`);

describe('rows of this host', () => {
  it('are read: kubeconfig, combined PEM, template, presence, condition', () => {
    const { discover, artefacts } = loadInventory(sound);
    expect(discover).toBe('kubeadm');
    expect(artefacts.map(({ name, location, when }) => [name, location, when])).toEqual([
      ['ca', { kind: 'pemPair', certFile: '{conf}/ca.crt', keyFile: '{conf}/ca.key' }, undefined],
      ['etcd', { kind: 'pemPair', certFile: '{conf}/etcd.crt', keyFile: '{conf}/etcd.key' }, 'stackedEtcd'],
      [
        'kubelet.conf',
        {
          kind: 'kubeconfig',
          file: '{conf}/kubelet.conf',
          endpoint: 'controlPlane',
          credentials: '{conf}/current.pem',
        },
        undefined,
      ],
      ['etcd-peer', { kind: 'combinedPem', file: '{conf}/peer.pem' }, 'stackedEtcd'],
      ['own', { kind: 'pemPair', certFile: '{conf}/own.crt', keyFile: '{conf}/own.key' }, undefined],
    ]);
    expect(artefacts[2]).toMatchObject({ template: 'present' });
    expect(artefacts[4]).toMatchObject({ presence: 'optional' });
    expect(artefacts[4]).not.toHaveProperty('issuer');
  });

  it.each([
    [
      'two rows with the same credentials',
      changed('{conf}/peer.pem', '{conf}/current.pem'),
      'artefacts[etcd-peer].location.combinedPem: must be a place of its own, got file "{conf}/current.pem", which "kubelet.conf" has already',
    ],
    [
      'a kubeconfig that keeps its credentials in itself by name',
      changed('{conf}/current.pem', '{conf}/kubelet.conf'),
      'artefacts[kubelet.conf].location.kubeconfig.credentials: must be a place of its own, got file "{conf}/kubelet.conf", which it has itself already',
    ],
    [
      'a directory that is not declared',
      changed('{conf}/current.pem', '{pki}/current.pem'),
      'artefacts[kubelet.conf].location.kubeconfig.credentials: must begin with a declared directory, got "{pki}"',
    ],
    [
      'a kubeconfig of a server',
      changed('usage: client', 'usage: peer'),
      'artefacts[kubelet.conf].usage: must be client for a kubeconfig, got peer',
    ],
    [
      'a kubeconfig without an address to name',
      changed('endpoint: controlPlane, ', ''),
      'artefacts[kubelet.conf].location.kubeconfig.endpoint: is required: one of controlPlane, local',
    ],
    [
      'a client without issuer',
      changed('    issuer: ca\n', ''),
      'artefacts[kubelet.conf].issuer: is required: the signer that signs it',
    ],
    [
      'a server without issuer that is not copied from what is there',
      changed('    template: present\n    presence', '    presence'),
      'artefacts[own].issuer: is required: the signer that signs it',
    ],
    [
      'a name with a parameter that is not declared',
      changed('system:node:{node}', 'system:node:{nod}'),
      'artefacts[kubelet.conf].commonName: must hold declared parameters only, got "{nod}" (did you mean "node"?)',
    ],
    [
      'a condition that nobody finds out',
      changed('discover: kubeadm\n', ''),
      'artefacts[etcd].when: must be left out: the inventory has no `discover`',
    ],
    [
      'a row that names one which may not be there',
      changed('when: stackedEtcd\n    location: { combinedPem', 'location: { combinedPem'),
      'artefacts[etcd-peer].issuer: must name what is there wherever this is, got "etcd", which is there only with stackedEtcd',
    ],
    [
      'a successor that is not there',
      changed('    presence: optional', '    supersededBy: kubelet.cnf\n    presence: optional'),
      'artefacts[own].supersededBy: must name a target of this inventory, got "kubelet.cnf" (did you mean "kubelet.conf"?)',
    ],
    [
      'a successor that is no target',
      changed('    presence: optional', '    supersededBy: ca\n    presence: optional'),
      'artefacts[own].supersededBy: must name a target, got "ca", a signer',
    ],
    [
      'somebody unknown who rotates',
      changed('    presence: optional', '    rotatedBy: somebody\n    presence: optional'),
      'artefacts[own].rotatedBy: must be "kubelet", got "somebody"',
    ],
    [
      'an unknown machine',
      changed('discover: kubeadm', 'discover: kubeadmin'),
      'discover: must be one of kubeadm, etcd, kubelet, openshift, got "kubeadmin" (did you mean "kubeadm"?)',
    ],
  ])('refuse %s', (_title, text, problem) => {
    expect(problemsOf(text)).toEqual(expect.arrayContaining([expect.stringContaining(problem) as unknown]));
  });

  it('need a bundle for a signer in the API, and none for one on this host', () => {
    const inApi = changed(
      "{ pemPair: { certFile: '{conf}/ca.crt', keyFile: '{conf}/ca.key' } }",
      '{ secret: ca, namespace: a }',
    );
    expect(problemsOf(inApi)).toEqual([
      'artefacts[kubelet.conf].issuer: must name a signer that a caBundle holds, got "ca", which none holds',
    ]);
    expect(problemsOf(sound)).toEqual([]);
  });
});

describe('resolve() of rows of this host', () => {
  const inventory = loadInventory(sound);
  const row = (name: string, environment: Parameters<typeof resolve>[1]) =>
    resolve(inventory, environment).artefacts.find((one) => one.name === name);

  it('leaves out what the machine has no use for', () => {
    const names = resolve(inventory, { lacks: ['stackedEtcd'] }).artefacts.map(({ name }) => name);
    expect(names).toEqual(['ca', 'kubelet.conf', 'own']);
    expect(resolve(inventory, {}).artefacts).toHaveLength(5);
  });

  it('puts the value of a parameter into a name, and directories into every path', () => {
    const environment = { parameters: { node: ['Node-1'] }, directories: { conf: '/srv' } };
    expect(row('kubelet.conf', environment)).toMatchObject({
      commonName: 'system:node:node-1',
      location: { file: '/srv/kubelet.conf', credentials: '/srv/current.pem' },
    });
    expect(row('etcd-peer', environment)).toMatchObject({ location: { file: '/srv/peer.pem' } });
    expect(row('own', environment)).toMatchObject({ hostnames: ['node-1'] });
  });

  it('leaves a name open that a template must tell, and refuses it where there is no template', () => {
    expect(row('kubelet.conf', {})).not.toHaveProperty('commonName');
    const declared = loadInventory(changed('    template: present\n    usage: client', '    usage: client'));
    expect(() => resolve(declared, {})).toThrow(
      'parameters.node: must have one value, which "kubelet.conf" carries in its name, got 0',
    );
  });

  it('refuses two values where one is needed', () => {
    expect(() => resolve(inventory, { parameters: { node: ['a', 'b'] } })).toThrow(
      'parameters.node: must have one value, which "kubelet.conf" carries in its name, got 2',
    );
  });

  it('hands on where the API server is', () => {
    const endpoints = { controlPlane: 'https://api:6443', local: 'https://10.0.0.1:6443' };
    expect(resolve(inventory, { endpoints }).endpoints).toEqual(endpoints);
    expect(resolve(inventory, {})).not.toHaveProperty('endpoints');
  });
});
