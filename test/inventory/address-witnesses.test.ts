import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type AddressWitnesses,
  witnessedAddresses,
  witnessedPort,
} from '../../lib/inventory/discover/address-witnesses.ts';
import { decideKubeadm } from '../../lib/inventory/discover/kubeadm.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

let directory = '';
let etcdCertificate = '';
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'address-witnesses-'));
  const ca = await createAuthority(join(directory, 'ca'), { commonName: 'etcd-ca' });
  const names = { commonName: 'node1', dnsNames: ['node1'], ipAddresses: ['127.0.0.1', '192.0.2.10'] };
  etcdCertificate = await readFile((await createLeaf(join(directory, 'etcd'), ca, names)).cert, 'utf8');
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const kubeconfig = (server: string): string =>
  `clusters: [{ name: c, cluster: { server: "${server}" } }]\nusers: [{ name: u, user: {} }]\n` +
  'contexts: [{ name: x, context: { cluster: c, user: u } }]\ncurrent-context: x\n';
const witnessed = (more: Partial<AddressWitnesses>): readonly string[] =>
  witnessedAddresses({ kubeconfigs: [], etcdCertificates: [], apiServerCertificate: undefined, own: [], ...more });

describe('the address of a machine whose manifests cannot be read', () => {
  it('is the one of its own that a kubeconfig names as the server', () => {
    const kubeconfigs = [undefined, 'torn: {', kubeconfig('https://192.0.2.10:8443')];
    expect(witnessed({ kubeconfigs, own: ['10.0.2.15', '192.0.2.10'] })).toEqual(['192.0.2.10']);
    expect(witnessedPort(kubeconfigs, '192.0.2.10')).toBe('8443');
  });

  it('is the one of its own that a certificate names', () => {
    expect(witnessed({ apiServerCertificate: etcdCertificate, own: ['192.0.2.10'] })).toEqual(['192.0.2.10']);
    expect(witnessed({ etcdCertificates: [etcdCertificate], own: ['192.0.2.10'] })).toEqual(['192.0.2.10']);
  });

  it('is the one on which a kubeconfig and a certificate of etcd agree while no interface has it yet', () => {
    const kubeconfigs = [kubeconfig('https://192.0.2.10:6443')];
    expect(witnessed({ kubeconfigs, etcdCertificates: [etcdCertificate] })).toEqual(['192.0.2.10']);
  });

  it('is no address of a load balancer, of a name or of the loopback interface', () => {
    const kubeconfigs = ['https://192.0.2.99:6443', 'https://api.example.com', 'https://127.0.0.1:6443'].map(
      kubeconfig,
    );
    const own = ['10.0.2.15', '127.0.0.1'];
    expect(witnessed({ kubeconfigs, etcdCertificates: [etcdCertificate], apiServerCertificate: 'torn', own })).toEqual(
      [],
    );
  });

  it('stands before the address of the default route, in names and in servers of kubeconfigs', () => {
    const { parameters, endpoints } = decideKubeadm(
      {
        files: { otherKubeconfigs: [kubeconfig('https://192.0.2.10:8443')] },
        etcdAuthority: '/ca.crt',
        hasEtcdAuthority: true,
        address: '10.0.2.15',
        ownAddresses: ['10.0.2.15', '192.0.2.10'],
      },
      {},
    );
    expect(parameters['advertiseAddress']).toEqual(['192.0.2.10']);
    expect(endpoints.local).toBe('https://192.0.2.10:8443');
  });
});
