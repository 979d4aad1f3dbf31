// The preset against what kubeadm makes: file names, identities and lives of cmd/kubeadm/app/phases/certs/certlist.go and
// phases/kubeconfig/kubeconfig.go.
import { describe, expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { kubeadmAuthorities, kubeadmCertificates } from '../support/kubeadm-names.ts';

const parameters = {
  nodeName: ['node-1'],
  advertiseAddress: ['192.0.2.1'],
  serviceIP: ['10.96.0.1'],
  clusterServiceNames: ['kubernetes.default.svc.cluster.local'],
  apiServerHostnames: ['api.example.com'],
};
const { artefacts } = resolve(loadPreset('kubeadm'), { parameters });
const row = (name: string) => artefacts.find((one) => one.name === name);
const day = 86_400_000;

describe('rows of the kubelet', () => {
  it('are left to it while they are valid, and the self-signed one while there is a signed one', () => {
    expect(row('kubelet.conf')).toMatchObject({ rotatedBy: 'kubelet' });
    expect(row('kubelet-server-current')).toMatchObject({ rotatedBy: 'kubelet' });
    expect(row('kubelet-server')).toMatchObject({ supersededBy: 'kubelet-server-current' });
    expect(artefacts.filter((one) => one.kind === 'target' && one.rotatedBy !== undefined)).toHaveLength(2);
  });
});

describe('preset kubeadm', () => {
  it('has the certificates and CAs of kubeadm under their names, the identities of the kubelet, and the keys of tokens', () => {
    const kubelet = ['kubelet-server', 'kubelet-server-current', 'kubelet.conf'];
    expect(artefacts.map(({ name }) => name).toSorted()).toEqual(
      [...kubeadmCertificates, ...kubeadmAuthorities, ...kubelet, 'service-account-key'].toSorted(),
    );
  });

  it('comes in the order in which a machine needs it: etcd, API server, clients, kubelet', () => {
    const order = artefacts.filter(({ kind }) => kind === 'target').map(({ name }) => name);
    const places = ['etcd-server', 'apiserver-etcd-client', 'apiserver', 'controller-manager.conf', 'kubelet.conf'];
    expect(order.filter((name) => places.includes(name))).toEqual(places);
  });

  it('leaves out every row of etcd where etcd is elsewhere, as kubeadm does', () => {
    const external = resolve(loadPreset('kubeadm'), { parameters, lacks: ['stackedEtcd'] });
    expect(external.artefacts).toHaveLength(artefacts.length - 5);
    expect(external.artefacts.filter(({ name }) => name.includes('etcd'))).toEqual([]);
  });

  it.each([
    ['etcd-server', 'peer', 'node-1', [], '/etc/kubernetes/pki/etcd/server'],
    ['etcd-peer', 'peer', 'node-1', [], '/etc/kubernetes/pki/etcd/peer'],
    [
      'etcd-healthcheck-client',
      'client',
      'kube-etcd-healthcheck-client',
      [],
      '/etc/kubernetes/pki/etcd/healthcheck-client',
    ],
    ['apiserver-etcd-client', 'client', 'kube-apiserver-etcd-client', [], '/etc/kubernetes/pki/apiserver-etcd-client'],
    ['apiserver', 'serving', 'kube-apiserver', [], '/etc/kubernetes/pki/apiserver'],
    [
      'apiserver-kubelet-client',
      'client',
      'kube-apiserver-kubelet-client',
      ['kubeadm:cluster-admins'],
      '/etc/kubernetes/pki/apiserver-kubelet-client',
    ],
    ['front-proxy-client', 'client', 'front-proxy-client', [], '/etc/kubernetes/pki/front-proxy-client'],
  ])('%s is the %s %s', (name, usage, commonName, organizations, base) => {
    const location = { kind: 'pemPair', certFile: `${base}.crt`, keyFile: `${base}.key` };
    expect(row(name)).toMatchObject({
      usage,
      commonName,
      organizations,
      location,
      template: 'present',
      validity: 365 * day,
    });
  });

  it.each([
    ['admin.conf', 'kubernetes-admin', ['kubeadm:cluster-admins'], 'controlPlane'],
    ['super-admin.conf', 'kubernetes-super-admin', ['system:masters'], 'controlPlane'],
    ['controller-manager.conf', 'system:kube-controller-manager', [], 'local'],
    ['scheduler.conf', 'system:kube-scheduler', [], 'local'],
    ['kubelet.conf', 'system:node:node-1', ['system:nodes'], 'local'],
  ])('%s is the user %s', (name, commonName, organizations, endpoint) => {
    const location = { kind: 'kubeconfig', file: `/etc/kubernetes/${name}`, endpoint };
    expect(row(name)).toMatchObject({
      usage: 'client',
      commonName,
      organizations,
      location,
      issuer: 'ca',
      template: 'present',
    });
  });

  it.each([
    [
      'apiserver',
      [
        '10.96.0.1',
        '192.0.2.1',
        'api.example.com',
        'kubernetes',
        'kubernetes.default',
        'kubernetes.default.svc',
        'kubernetes.default.svc.cluster.local',
        'node-1',
      ],
    ],
    ['etcd-server', ['127.0.0.1', '192.0.2.1', '::1', 'localhost', 'node-1']],
    ['etcd-peer', ['127.0.0.1', '192.0.2.1', '::1', 'localhost', 'node-1']],
    ['kubelet-server', ['node-1']],
  ])('%s made from nothing holds the names that kubeadm gives it', (name, hostnames) => {
    expect(row(name)).toMatchObject({ hostnames });
  });

  it('holds the kubelet in its directory, self-signed or signed, neither of them on every machine', () => {
    expect(row('kubelet-server')).toMatchObject({
      presence: 'optional',
      location: { certFile: '/var/lib/kubelet/pki/kubelet.crt' },
    });
    expect(row('kubelet-server')).not.toHaveProperty('issuer');
    expect(row('kubelet-server-current')).toMatchObject({
      presence: 'optional',
      issuer: 'ca',
      location: { kind: 'combinedPem', file: '/var/lib/kubelet/pki/kubelet-server-current.pem' },
    });
    expect(row('kubelet.conf')).toMatchObject({
      location: { credentials: '/var/lib/kubelet/pki/kubelet-client-current.pem' },
    });
  });

  it('makes no CA, and needs nothing to be given', () => {
    const cas = artefacts.filter(({ kind }) => kind === 'signer');
    expect(cas.map(({ name }) => name)).toEqual(['etcd-ca', 'ca', 'front-proxy-ca']);
    for (const ca of cas) expect(ca).toMatchObject({ owned: false });
    expect(() => resolve(loadPreset('kubeadm'), {})).not.toThrow();
  });
});
