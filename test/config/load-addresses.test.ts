// Whose names are whose, as it is configured for serving certificates of kubelets.
import { describe, expect, it } from 'vitest';
import { type AddressSettings, checkNodeAddresses, inRanges } from '../../lib/config/address-settings.ts';
import { parseConfig } from '../../lib/config/load.ts';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { errorText } from '../../lib/errors.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';

const header = 'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\nmodes: [approver]\n';

function addressesIn(sources: string, flags: ConfigFlags = {}): readonly AddressSettings[] {
  const text = `${header}approver: { kubeconfig: /k, signers: [kubelet-serving], addresses: ${sources} }\n`;
  const file = { path: '/c.yaml', text };
  const { modes } = parseConfig({ flags, file, env: {}, cwd: '/', presets: installedPresets });
  return modes.flatMap((mode) => (mode.mode === 'approver' ? mode.addresses : []));
}

function problemIn(sources: string): string {
  try {
    addressesIn(sources);
    return '';
  } catch (err) {
    return errorText(err);
  }
}

describe('approver.addresses', () => {
  it('takes every kind of source, names and addresses in one written form', () => {
    const sources = [
      '{ nodes: { node-1: [192.0.2.11, "2001:DB8::0:1", Node-1.Example.com., "::ffff:192.0.2.12"] } }',
      '{ file: /etc/addresses.yaml }',
      '{ machines: clusterAPI, kubeconfig: /m, namespace: fleet }',
      '{ machines: openshift }',
      '{ served: { caFile: /ca.crt } }',
      '{ cidrs: [192.0.2.0/24, "2001:db8::/64"] }',
    ];
    expect(addressesIn(`[${sources.join(', ')}]`)).toEqual([
      { kind: 'nodes', nodes: { 'node-1': ['192.0.2.11', '2001:db8::1', 'node-1.example.com', '192.0.2.12'] } },
      { kind: 'file', file: '/etc/addresses.yaml' },
      { kind: 'machines', api: 'clusterAPI', kubeconfig: '/m', namespace: 'fleet' },
      { kind: 'machines', api: 'openshift', kubeconfig: undefined, namespace: undefined },
      { kind: 'served', caFile: '/ca.crt' },
      { kind: 'cidrs', cidrs: ['192.0.2.0/24', '2001:db8::/64'] },
    ]);
  });

  it.each([
    ['[{}]', 'must be a mapping with one of nodes, file, machines, served, cidrs'],
    ['[{ file: /a, cidrs: [192.0.2.0/24] }]', 'must be a mapping with one of nodes, file, machines, served, cidrs'],
    ['[{ cidrs: [192.0.2.0/33] }]', 'approver.addresses[0].cidrs[0]: must be an address range such as "192.0.2.0/24"'],
    ['[{ cidrs: [0.0.0.0/0] }]', 'approver.addresses[0].cidrs[0]: must be an address range'],
    ['[{ cidrs: ["::/0"] }]', 'approver.addresses[0].cidrs[0]: must be an address range'],
    ['[{ cidrs: [192.0.2.1] }]', 'approver.addresses[0].cidrs[0]: must be an address range'],
    ['[{ cidrs: [] }]', 'approver.addresses[0].cidrs: must be a list of at least 1'],
    ['[{ nodes: { a: ["*.example.com"] } }]', 'nodes.a[0]: must be a DNS name without wildcard or an IP address'],
    ['[{ nodes: { a: [192.0.2.300] } }]', 'nodes.a[0]: must be a DNS name without wildcard or an IP address'],
    ['[{ nodes: { A: [192.0.2.1] } }]', 'a key that is a Kubernetes object name'],
    [
      '[{ nodes: { a: [192.0.2.1], b: [x, 192.0.2.1] } }]',
      'nodes.b[1]: must be an address of one node (it is one of "a"',
    ],
    ['[{ file: a.yaml }]', 'approver.addresses[0].file: must be an absolute path'],
    ['[{ machines: capi }]', 'approver.addresses[0].machines: must be one of clusterAPI, openshift'],
    ['[{ file: /a, namespace: b }]', 'approver.addresses[0].namespace: must be left out without machines'],
    ['[{ served: {} }]', 'approver.addresses[0].served.caFile: is required'],
    ['[{ dns: true }]', 'approver.addresses[0].dns: unknown key'],
    ['[]', 'approver.addresses: is required with approver.signers: [kubelet-serving]'],
  ])('refuses %s', (sources, problem) => expect(problemIn(sources)).toContain(problem));

  it('refuses sources that nobody asks, and unknown signers', () => {
    const parse = (flags: ConfigFlags) => () => addressesIn('[{ cidrs: [192.0.2.0/24] }]', flags);
    expect(parse({ signers: ['kubelet-client'] })).toThrow('approver.addresses: must be left out without');
    expect(parse({ signers: ['kubelet-server'] })).toThrow('must be one of kubelet-client, kubelet-serving');
    expect(parse({ signers: ['kubelet-serving,kubelet-client'] })).not.toThrow();
  });
});

describe('inRanges()', () => {
  it.each([
    ['192.0.2.255', true],
    ['192.0.3.0', false],
    ['2001:db8::ffff', true],
    ['2001:db8:0:1::', false],
    ['node-1', false],
    ['', false],
  ])('%s: %s', (ip, isIn) => expect(inRanges(['192.0.2.0/24', '2001:db8::/64'])(ip)).toBe(isIn));
});

describe('checkNodeAddresses()', () => {
  it('takes a mapping, and names what is wrong in another', () => {
    expect(checkNodeAddresses({ a: ['B.'] })).toEqual({ value: { a: ['b'] } });
    for (const wrong of [undefined, null, [], 'a', { a: 'b' }, { a: ['*'] }, { 'A B': [] }]) {
      expect(checkNodeAddresses(wrong), JSON.stringify(wrong)).toHaveProperty('problems');
    }
  });
});
