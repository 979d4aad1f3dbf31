import { describe, expect, it } from 'vitest';
import {
  componentFlags,
  componentKubeconfigs,
  flagArguments,
  givenServerIn,
  kubeconfigYaml,
} from '../../lib/install/component-flags.ts';
import { hostLayout } from '../../lib/install/layout.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { readBy } from '../../lib/inventory/component-view.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { Inventory } from '../../lib/inventory/model.ts';
import { renamedPreset } from '../support/renamed-preset.ts';

const layout = hostLayout('/d');
const resolved = (inventory: Inventory) =>
  resolve(inventory, { parameters: { apiServerHostnames: ['api.example.com'] } });
const preset = resolved(loadPreset('kubernetes'));

describe('componentFlags()', () => {
  it('has the flags by which each component reads what is published, and what goes with them', () => {
    const flags = componentFlags(preset, layout);
    expect(Object.keys(flags).toSorted()).toEqual([
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
    ]);
    expect(flags['etcd']).toMatchObject({
      'cert-file': '/etc/kubernetes/pki/etcd/server.crt',
      'trusted-ca-file': '/etc/kubernetes/pki/etcd/ca-bundle.crt',
      'client-cert-auth': 'true',
    });
    expect(flags['kube-apiserver']).toMatchObject({
      'service-account-key-file': '/d/certs/secrets/service-account-key/service-account.pub',
      'tls-sni-cert-key': ['localhost', 'localhost-recovery'].map((name) => {
        const directory = `/d/certs/secrets/${name}-serving`;
        return `${directory}/tls.crt,${directory}/tls.key:${name}`;
      }),
    });
    expect(flags['kube-scheduler']).toMatchObject({ kubeconfig: '/d/kubeconfigs/kube-scheduler.kubeconfig' });
  });

  it('leaves out all flags of an artefact whose files are not there', () => {
    const flags = componentFlags(readBy(preset, ['kube-scheduler']), layout);
    expect(flags['kube-controller-manager']).not.toHaveProperty('requestheader-client-ca-file');
    expect(flags['kube-controller-manager']).not.toHaveProperty('requestheader-allowed-names');
  });

  it('does not go by names of artefacts', () => {
    const other = resolved(renamedPreset('kubernetes'));
    expect(componentFlags(other, layout)).toEqual(componentFlags(preset, layout));
    const kubeconfigs = componentKubeconfigs(other, layout, 'https://localhost:6443');
    expect(kubeconfigs).toEqual(componentKubeconfigs(preset, layout, 'https://localhost:6443'));
    expect(kubeconfigs).toHaveLength(3);
  });
});

it('flagArguments() repeats a flag that has several values', () => {
  expect(flagArguments({ a: '1', b: ['2', '3'] })).toEqual(['--a=1', '--b=2', '--b=3']);
});

describe('givenServerIn()', () => {
  const content = {
    server: 'https://api.example.com:6443',
    certificateAuthority: '/ca',
    user: { name: 'a', token: 't' },
  };

  it('is the server that was given, and none that was found', () => {
    expect(givenServerIn(kubeconfigYaml({ ...content, isServerGiven: true }))).toBe(content.server);
    expect(givenServerIn(kubeconfigYaml(content))).toBeUndefined();
  });

  it.each(['', '{', 'clusters: a', 'clusters: []', 'clusters: [{ cluster: { server: a, extensions: [b] } }]'])(
    'is none in %j',
    (text) => expect(givenServerIn(text)).toBeUndefined(),
  );
});
