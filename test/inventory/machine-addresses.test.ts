import { describe, expect, it } from 'vitest';
import { decideKubeadm, type KubeadmSight } from '../../lib/inventory/discover/kubeadm.ts';
import { candidateAddresses, defaultAddress } from '../../lib/inventory/discover/machine-addresses.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';

const routes = 'Iface\tDestination\tGateway\neth0\t00000000\t0202000A\n';
const decide = (more: Partial<KubeadmSight>, given = {}): ReturnType<typeof decideKubeadm> =>
  decideKubeadm({ files: {}, etcdAuthority: '/ca.crt', hasEtcdAuthority: true, ...more }, given);

describe('addresses by which other machines reach this one', () => {
  it.each([
    'docker0',
    'br-0123456789ab',
    'cni0',
    'podman1',
    'veth12',
    'kube-ipvs0',
    'kube-bridge',
    'cali123',
    'vxlan.calico',
    'flannel.1',
    'cilium_host',
    'virbr0',
    'tailscale0',
  ])('are none of %s', (name) => {
    expect(candidateAddresses({ [name]: ['172.17.0.1'] })).toEqual([]);
  });

  it.each(['eth0', 'enp3s0', 'bond0', 'vlan10', 'br0', 'wg0', 'docks0'])('are those of %s', (name) => {
    expect(candidateAddresses({ [name]: ['10.0.2.15', 'fe80::1', '169.254.1.1', 'fd00::1'] })).toEqual([
      '10.0.2.15',
      'fd00::1',
    ]);
  });

  it('has the interface with the default route', () => {
    expect(defaultAddress(routes, { eth1: ['192.0.2.10'], eth0: ['fe80::1', '10.0.2.15'] })).toBe('10.0.2.15');
    expect(defaultAddress('', { eth0: ['10.0.2.15'] })).toBeUndefined();
  });
});

describe('the address of the API server that no file names', () => {
  const address = '10.0.2.15';

  it('is the only one of the machine', () => {
    const { parameters, endpoints, unknown } = decide({ address, candidates: [address] });
    expect(parameters['advertiseAddress']).toEqual([address]);
    expect(endpoints.local).toBe(`https://${address}:6443`);
    expect(unknown).toEqual({});
  });

  it.each([
    ['names the candidates where there are several', [address, '192.0.2.10'], `: ${address}, 192.0.2.10; give it by`],
    ['says so where there is none', [], 'this machine has none; give it by'],
  ])('%s', (_, candidates, text) => {
    const { parameters, endpoints, unknown } = decide({
      candidates,
      ...(candidates.length > 0 && { address }),
    });
    expect(parameters['advertiseAddress']).toEqual([]);
    expect(endpoints.local).toBeUndefined();
    expect(unknown['advertiseAddress']).toContain(text);
    const { artefacts } = resolve(loadPreset('kubeadm'), { parameters, unknown });
    const waiting = artefacts.filter((one) => one.kind === 'target' && one.namesUnknown !== undefined);
    expect(waiting.map(({ name }) => name)).toEqual([
      'etcd-server',
      'etcd-peer',
      'apiserver',
      'kubelet-server-current',
    ]);
  });

  it('is the one that was given', () => {
    const parameters = { advertiseAddress: ['192.0.2.10'] };
    expect(decide({ candidates: [address, '192.0.2.10'], address }, { parameters }).unknown).toEqual({});
  });
});
