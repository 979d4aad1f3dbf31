import { describe, expect, it } from 'vitest';
import type { Artefact } from '../../lib/inventory/model.ts';
import { placedInventory } from '../../lib/inventory/load.ts';
import { checkedPreset, loadPreset, presetNames, presetText, withPreset } from '../../lib/inventory/preset.ts';
import { presetChoice } from '../../lib/inventory/preset-choice.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const parameters: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  kubernetes: { apiServerHostnames: ['api.example.com'] },
};

function counts(name: string): { secrets: number[]; configMaps: number[] } {
  const { artefacts } = loadPreset(name);
  const count = (kind: string): number[] =>
    (['required', 'optional'] as const).map(
      (want) => artefacts.filter(({ location, published }) => location.kind === kind && published === want).length,
    );
  return { secrets: count('secret'), configMaps: count('configMap') };
}

describe('presets', () => {
  it('are those that the documentation lists', () => {
    expect(presetNames()).toEqual([
      'eks-anywhere',
      'eks-anywhere-bottlerocket',
      'etcdadm',
      'kubeadm',
      'kubeadm-worker',
      'kubernetes',
      'node-ca',
      'openshift-kube-apiserver',
      'openshift-kube-controller-manager',
      'openshift-kube-scheduler',
      'openshift-node-ca',
    ]);
  });

  it.each(presetNames())('%s serves the name of recovery with a certificate that has no other', (name) => {
    const served = loadPreset(name).artefacts.filter((one) => one.kind === 'target' && one.usage === 'serving');
    for (const one of served) {
      const { hostnames = [] } = one as { hostnames?: readonly string[] };
      if (hostnames.includes('localhost-recovery')) expect(hostnames).toEqual(['localhost-recovery']);
    }
  });

  it.each(presetNames())('%s is as its YAML after the build has written it as JSON', (name) => {
    const built = JSON.parse(JSON.stringify(checkedPreset(name))) as ReturnType<typeof checkedPreset>;
    if (built.kind === 'PresetChoice') {
      expect(built).toEqual(presetChoice(presetText(name)));
      return;
    }
    for (const options of [{}, { namespace: 'elsewhere' }, { podNamespace: 'of-the-pod' }])
      expect(placedInventory(built, options)).toEqual(loadPreset(name, options));
  });

  it.each(presetNames())('%s loads and resolves', (name) => {
    const inventory = loadPreset(name);
    expect(inventory.name).toBe(name);
    const files = Object.fromEntries(Object.keys(inventory.files ?? {}).map((file) => [file, `/elsewhere/${file}`]));
    expect(resolve(inventory, { parameters: parameters[name] ?? {}, files }).artefacts).toHaveLength(
      inventory.artefacts.length,
    );
  });

  // [required, optional]
  it.each([
    ['kubernetes', { secrets: [10, 0], configMaps: [4, 0] }],
    ['openshift-kube-apiserver', { secrets: [10, 11], configMaps: [4, 1] }],
    ['openshift-kube-controller-manager', { secrets: [2, 0], configMaps: [2, 1] }],
    ['openshift-kube-scheduler', { secrets: [1, 0], configMaps: [0, 0] }],
  ])('%s publishes as many objects as the components read', (name, expected) => {
    expect(counts(name)).toEqual(expected);
  });

  it('names every user-serving certificate of OpenShift as optional', () => {
    const { artefacts } = loadPreset('openshift-kube-apiserver');
    const found = artefacts.filter(
      ({ name, published }) => /^user-serving-cert(-00\d)?$/.test(name) && published === 'optional',
    );
    expect(found).toHaveLength(11);
  });

  it('load with another namespace', () => {
    const { artefacts } = loadPreset('kubernetes', { namespace: 'other' });
    const spaces = new Set(artefacts.flatMap(({ location }) => ('namespace' in location ? [location.namespace] : [])));
    expect([...spaces]).toEqual(['other']);
  });

  it('refuse an unknown name', () => {
    expect(() => loadPreset('kubernets')).toThrow(
      'Cannot load preset "kubernets": unknown (did you mean "kubernetes"?)',
    );
    expect(() => loadPreset('../presets/kubernetes')).toThrow('Cannot load preset "../presets/kubernetes": unknown');
  });
});

function isOnDisk({ location }: Pick<Artefact, 'location'>): boolean {
  return location.kind === 'pemPair' || location.kind === 'pemFile';
}

describe('withPreset()', () => {
  it('keeps the directories that both have, and nothing else of the former inventory', () => {
    const directories = { kubernetesDir: '/srv/k', etcdDir: '/srv/e' };
    const machine = { inventory: loadPreset('kubeadm'), environment: { directories, parameters: { nodeName: ['n'] } } };
    expect(withPreset({ ...machine, more: 1 }, 'node-ca')).toEqual({
      more: 1,
      inventory: loadPreset('node-ca'),
      environment: {
        directories: { kubernetesDir: '/srv/k', pkiDir: '/srv/k/pki', kubeletDir: '/var/lib/kubelet' },
      },
    });
  });

  it('has objects in the namespace that it is given', () => {
    const machine = { inventory: loadPreset('kubeadm'), environment: {} };
    const { artefacts } = withPreset(machine, 'node-ca', { namespace: 'other' }).inventory;
    expect(artefacts[0]?.location).toMatchObject({ kind: 'configMap', namespace: 'other' });
  });
});

describe('preset kubernetes', () => {
  const { artefacts } = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });
  const day = 86_400_000;
  const byName = new Map(artefacts.map((one) => [one.name, one]));

  it.each([
    ['aggregator-client', 'front-proxy-client', [], 30, 15],
    ['kubelet-client', 'kube-apiserver-kubelet-client', [], 30, 15],
    ['kube-controller-manager-client', 'system:kube-controller-manager', [], 30, 15],
    ['kube-scheduler-client', 'system:kube-scheduler', [], 30, 15],
    ['admin-client', 'kubernetes-admin', ['system:masters'], 30, 15],
    ['etcd-client', 'kube-apiserver-etcd-client', [], 365, 292],
  ])('%s is the client %s', (name, commonName, organizations, validity, refresh) => {
    expect(byName.get(name)).toMatchObject({
      usage: 'client',
      commonName,
      organizations,
      validity: validity * day,
      refresh: refresh * day,
    });
  });

  it.each([
    ['aggregator-client-signer', 30, 15],
    ['kube-apiserver-to-kubelet-signer', 365, 292],
    ['kube-apiserver-serving-signer', 3650, 2920],
    ['localhost-serving-signer', 3650, 2920],
    ['localhost-recovery-serving-signer', 3650, 2920],
    ['kube-control-plane-signer', 60, 30],
    ['csr-signer-signer', 60, 30],
    ['next-csr-signer', 30, 15],
    ['localhost-recovery-serving', 3650, 2920],
  ])('%s lives %i days and is refreshed after %i', (name, validity, refresh) => {
    expect(byName.get(name)).toMatchObject({ validity: validity * day, refresh: refresh * day });
  });

  it('uses a new CSR signer five minutes after it was made', () => {
    expect(byName.get('csr-signer')).toMatchObject({
      kind: 'copy',
      of: 'next-csr-signer',
      promoteAfter: 300_000,
      published: 'required',
    });
    expect(byName.get('next-csr-signer')?.published).toBeUndefined();
    expect(byName.get('csr-signer-ca')).toMatchObject({ signers: ['next-csr-signer'] });
  });

  it.each([
    [
      'kube-apiserver-serving',
      [
        '10.96.0.1',
        'api.example.com',
        'kubernetes',
        'kubernetes.default',
        'kubernetes.default.svc',
        'kubernetes.default.svc.cluster.local',
      ],
    ],
    ['localhost-serving', ['127.0.0.1', 'localhost']],
    ['localhost-recovery-serving', ['localhost-recovery']],
    ['etcd-server', ['127.0.0.1', 'localhost']],
    ['etcd-peer', ['127.0.0.1', 'localhost']],
  ])('%s serves %j', (name, hostnames) => {
    expect(byName.get(name)).toMatchObject({ hostnames });
  });

  it('proves a served certificate under a name that it has', () => {
    const served = artefacts.flatMap((one) =>
      one.readers.flatMap(({ proof }) => (proof.kind === 'served' ? [{ one, proof }] : [])),
    );
    expect(served).toHaveLength(3);
    for (const { one, proof } of served)
      expect(one).toMatchObject({ hostnames: expect.arrayContaining([proof.serverName]) as unknown });
  });

  it('keeps on disk what the API needs to answer at all, and nothing else', () => {
    const names = artefacts.filter(isOnDisk).map(({ name }) => name);
    expect(names.toSorted()).toEqual(['etcd-ca', 'etcd-client', 'etcd-peer', 'etcd-server', 'etcd-signer']);
  });
});
