import { describe, expect, it } from 'vitest';
import { isConfirmedBy } from '../../lib/inventory/discover/address-witnesses.ts';
import type { ComponentServer } from '../../lib/inventory/discover/component-servers.ts';
import { demandedHostnames } from '../../lib/inventory/discover/demanded-hostnames.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';

const { artefacts } = loadPreset('kubeadm');
const own = ['192.0.2.10', 'fd00::10'];

interface Case {
  readonly flags?: Readonly<Record<'kube-apiserver' | 'etcd', Readonly<Record<string, string>>>>;
  readonly servers?: readonly Partial<ComponentServer>[];
  readonly confirmed?: readonly string[];
}

function demanded({ flags, servers = [], confirmed = own }: Case): Readonly<Record<string, readonly string[]>> {
  const settings = Object.fromEntries(
    Object.entries(flags ?? {}).map(([component, values]) => [
      component,
      { values: new Map(Object.entries(values).map(([flag, value]) => [flag, [value]])), mounts: [], source: '' },
    ]),
  );
  return demandedHostnames(artefacts, {
    settings,
    servers: servers.map((one) => ({ url: '', endpoint: 'local', checksHost: true, ...one })),
    isConfirmed: (address) => confirmed.includes(address),
    own,
  });
}

describe('the addresses that the certificates of a machine must hold', () => {
  it('are those of its flags, each in the entry that its readers connect to', () => {
    const flags = {
      'kube-apiserver': { 'advertise-address': '192.0.2.10' },
      etcd: {
        'advertise-client-urls': 'https://192.0.2.10:2379,https://[FD00::10]:2379,https://etcd.example.com:2379',
        'initial-advertise-peer-urls': 'https://[fd00:0::10]:2380',
      },
    };
    expect(demanded({ flags })).toEqual({
      apiserver: ['192.0.2.10'],
      'etcd-server': ['192.0.2.10', 'fd00::10'],
      'etcd-peer': ['fd00::10'],
    });
  });

  it.each([
    ['that nothing confirms', '192.0.2.77'],
    ['of all interfaces', '0.0.0.0'],
    ['that is none', 'torn {'],
  ])('are none of a flag %s', (_, value) => {
    const flags = { 'kube-apiserver': { 'advertise-address': value }, etcd: {} };
    expect(demanded({ flags, confirmed: [...own, '0.0.0.0'] })).toEqual({});
  });

  it.each<readonly [string, Partial<ComponentServer>, readonly string[]]>([
    ['an address of this machine', { url: 'https://192.0.2.10:6443' }, ['192.0.2.10']],
    ['the API server on the loopback interface', { url: 'https://127.0.0.1:6443' }, ['127.0.0.1']],
    ['a load balancer on the loopback interface', { url: 'https://127.0.0.1:8443' }, []],
    ['a load balancer elsewhere', { url: 'https://192.0.2.99:6443' }, []],
    ['a server that is held against another name', { url: 'https://192.0.2.10:6443', checksHost: false }, []],
    ['the endpoint of the cluster', { url: 'https://192.0.2.10:6443', endpoint: 'controlPlane' }, []],
  ])('are those of kubeconfigs: %s', (_, server, expected) => {
    expect(demanded({ servers: [server] })['apiserver'] ?? []).toEqual(expected);
  });

  it('are confirmed by an interface of the machine, or by a second file', () => {
    const witnesses = { kubeconfigs: [], etcdCertificates: [], apiServerCertificate: undefined, own };
    expect(isConfirmedBy(witnesses, '192.0.2.10')).toBe(true);
    expect(isConfirmedBy(witnesses, '192.0.2.77')).toBe(false);
    const kubeconfig =
      'clusters: [{ name: c, cluster: { server: "https://192.0.2.77:6443" } }]\nusers: [{ name: u, user: {} }]\n' +
      'contexts: [{ name: x, context: { cluster: c, user: u } }]\ncurrent-context: x\n';
    expect(isConfirmedBy({ ...witnesses, kubeconfigs: [kubeconfig] }, '192.0.2.77')).toBe(true);
  });
});
