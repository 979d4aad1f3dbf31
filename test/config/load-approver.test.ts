import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import type { Config } from '../../lib/config/load.ts';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { errorText } from '../../lib/errors.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';

interface Given {
  readonly flags?: ConfigFlags;
  readonly lines?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

function parse({ flags = {}, lines = [], env = {} }: Given): Config {
  const text = ['apiVersion: kube-cert-recovery/v1alpha1', 'kind: Configuration', ...lines, ''].join('\n');
  return parseConfig({ flags, file: { path: '/c.yaml', text }, env, cwd: '/home', presets: installedPresets });
}

function problemOf(given: Given): string {
  try {
    parse(given);
    return '';
  } catch (err) {
    return errorText(err);
  }
}

const defaults = {
  mode: 'approver',
  kubeconfig: '/k',
  nodeCertificate: '/var/lib/kubelet/pki/kubelet-client-current.pem',
  longestLife: 365 * 86_400_000,
  signers: ['kubelet-client'],
  addresses: [],
  requesters: ['kube-cert-recovery', 'worker'],
  expectedNodes: [],
  bootstrapNamespace: 'kube-cert-recovery',
  clockSynchronised: 'auto',
};

describe('parseConfig() of mode approver', () => {
  it('needs a credential alone, and no inventory', () => {
    const { modes, inventory } = parse({ flags: { mode: 'approver', kubeconfig: '/k' } });
    expect(modes).toEqual([defaults]);
    expect(inventory).toMatchObject({ artefacts: [], parameters: {} });
  });

  it('reads every field of the file', () => {
    const lines = [
      'modes: [approver]',
      'approver:',
      '  kubeconfig: /a',
      '  nodeCertificate: /pki/current.pem',
      '  longestLife: 30d',
      '  signers: [kubelet-serving, kubelet-client]',
      '  addresses: [{ nodes: { worker-1: [192.0.2.1, 2001:DB8:0::1, Worker-1.example.] } }]',
      '  requesters: [openshift, kubeadm, { username: "system:serviceaccount:a:b", groups: [c, d] }]',
      '  expectedNodes: [worker-1, worker-2.example]',
      '  bootstrapNamespace: ns',
      'regen: { clockSynchronised: true }',
    ];
    expect(parse({ lines }).modes).toEqual([
      {
        mode: 'approver',
        kubeconfig: '/a',
        nodeCertificate: '/pki/current.pem',
        longestLife: 30 * 86_400_000,
        signers: ['kubelet-serving', 'kubelet-client'],
        addresses: [{ kind: 'nodes', nodes: { 'worker-1': ['192.0.2.1', '2001:db8::1', 'worker-1.example'] } }],
        requesters: ['openshift', 'kubeadm', { username: 'system:serviceaccount:a:b', groups: ['c', 'd'] }],
        expectedNodes: ['worker-1', 'worker-2.example'],
        bootstrapNamespace: 'ns',
        clockSynchronised: true,
      },
    ]);
  });

  it('lets its flag beat the file, field by field', () => {
    const lines = ['modes: [approver]', 'approver: { kubeconfig: /a, bootstrapNamespace: ns }'];
    const { modes } = parse({ flags: { approverKubeconfig: 'b' }, lines });
    expect(modes).toEqual([{ ...defaults, kubeconfig: '/home/b', bootstrapNamespace: 'ns' }]);
  });

  it('runs beside the others, each with its own credential', () => {
    const lines = ['preset: kubernetes', 'parameters: { apiServerHostnames: [a] }'];
    const flags = { mode: 'syncer,regen,approver', destinationDir: '/d' };
    const own = { syncerKubeconfig: '/s', regenKubeconfig: '/r', approverKubeconfig: '/a' };
    expect(parse({ flags: { ...flags, ...own }, lines }).modes).toMatchObject([
      { mode: 'syncer', kubeconfig: '/s' },
      { mode: 'regen', kubeconfig: '/r' },
      { mode: 'approver', kubeconfig: '/a' },
    ]);
  });

  it('knows the node of its machine from NODE_NAME', () => {
    const flags = { mode: 'approver', kubeconfig: '/k' };
    expect(parse({ flags, env: { NODE_NAME: 'panda' } }).identity).toEqual({ nodeName: 'panda' });
    expect(parse({ flags, env: { NODE_NAME: '' } }).identity).toEqual({});
  });

  it.each<[string, Given, string]>([
    ['no credential', { flags: { mode: 'approver' } }, '--kubeconfig: is required in mode approver'],
    [
      'its credential without the mode',
      {
        flags: {
          mode: 'syncer',
          preset: 'kubernetes',
          kubeconfig: '/k',
          destinationDir: '/d',
          approverKubeconfig: '/a',
        },
      },
      '--approver-kubeconfig: must be left out without mode approver',
    ],
    [
      'an inventory that is not there',
      { flags: { mode: 'approver', kubeconfig: '/k', preset: 'x' } },
      'a known preset',
    ],
    ['no inventory for the others', { flags: { mode: 'approver,regen', kubeconfig: '/k' } }, '--preset: is required'],
    [
      'a name that no Node can have',
      { flags: { mode: 'approver', kubeconfig: '/k' }, lines: ['approver: { expectedNodes: [A_b] }'] },
      'approver.expectedNodes[0]',
    ],
    [
      'a life that is none',
      { flags: { mode: 'approver', kubeconfig: '/k' }, lines: ['approver: { longestLife: 1y }'] },
      'approver.longestLife',
    ],
    [
      'a relative path',
      { flags: { mode: 'approver', kubeconfig: '/k' }, lines: ['approver: { nodeCertificate: pki/a.pem }'] },
      'approver.nodeCertificate',
    ],
    ...['ours', '{ username: a }', '{ username: a, groups: [] }', '{ username: "system:node:a", groups: [b] }'].map(
      (one): [string, Given, string] => [
        `the requester ${one}`,
        { flags: { mode: 'approver', kubeconfig: '/k' }, lines: [`approver: { requesters: [${one}] }`] },
        'approver.requesters[0]',
      ],
    ),
    [
      'a field that does not exist',
      { flags: { mode: 'approver', kubeconfig: '/k' }, lines: ['approver: { expectedNode: [a] }'] },
      'expectedNodes',
    ],
  ])('refuses %s', (_what, given, problem) => {
    expect(problemOf(given)).toContain(problem);
  });
});
