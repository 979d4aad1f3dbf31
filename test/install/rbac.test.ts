import type { ApproverGrant } from '../../lib/install/rules.ts';
import { describe, expect, it } from 'vitest';
import { staticPods } from '../../lib/components.ts';
import { type Account, accountName } from '../../lib/install/accounts.ts';
import type { Manifest } from '../../lib/install/apply.ts';
import { hostManifests, installManifests, podSyncers, syncerOf, workerManifests } from '../../lib/install/rbac.ts';
import type { Artefact } from '../../lib/inventory/model.ts';
import { isFile } from '../../lib/inventory/places.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { codes, firstCode, page, section, tables } from '../docs/markdown.ts';
import { documentedRights } from '../support/project/documented-rights.ts';
import { grantsOf, grantText } from '../support/cluster/grants.ts';

interface Rule {
  readonly apiGroups: string[];
  readonly resources: string[];
  readonly resourceNames?: string[];
  readonly verbs: string[];
}

const { artefacts } = loadPreset('kubernetes');
const manifests = installManifests({ artefacts, namespace: 'kube-cert-recovery' });
const rulesOf = (name: string, namespace: string, from: readonly Manifest[] = manifests): Rule[] => {
  const role = from.find(
    ({ kind, metadata }) => kind === 'Role' && metadata.name === name && metadata.namespace === namespace,
  );
  return (role?.['rules'] ?? []) as Rule[];
};
const namesOf = (rules: readonly Rule[], resource: string): string[] =>
  rules.filter(({ resources }) => resources.includes(resource)).flatMap(({ resourceNames = [] }) => resourceNames);

const bound = (from: readonly Manifest[]): boolean => JSON.stringify(from).includes('system:kubelet-api-admin');

describe('installManifests()', () => {
  it('names every object in every rule but those of Events', () => {
    const roles = manifests.filter(({ kind }) => kind === 'Role');
    expect(roles.length).toBeGreaterThan(3);
    for (const rule of roles.flatMap((role) => role['rules'] as Rule[])) {
      if (rule.resources.includes('events')) expect(rule.verbs).toEqual(['create']);
      else expect(rule.resourceNames?.length, JSON.stringify(rule)).toBeGreaterThan(0);
    }
  });

  it('uses no wildcard and no cluster-admin', () => {
    expect(JSON.stringify(manifests)).not.toContain('*');
    expect(JSON.stringify(manifests)).not.toContain('cluster-admin');
  });

  it('lets regen write what it renews, and only read a key pair', () => {
    const rules = rulesOf('kube-cert-recovery-regen', 'kube-cert-recovery');
    const writable = rules.filter(({ verbs }) => verbs.includes('update'));
    expect(namesOf(writable, 'secrets')).toContain('kube-apiserver-serving-signer');
    expect(namesOf(writable, 'configmaps')).toContain('client-ca');
    expect(namesOf(writable, 'secrets')).not.toContain('service-account-key');
    expect(namesOf(rules, 'secrets')).toContain('service-account-key');
    expect(rules.flatMap(({ verbs }) => verbs)).not.toContain('delete');
  });

  it('lets syncer read exactly the published objects', () => {
    const rules = rulesOf('kube-cert-recovery-syncer', 'kube-cert-recovery');
    const published = artefacts.flatMap(({ location, published: how }) =>
      how !== undefined && location.kind === 'secret' ? [location.name] : [],
    );
    expect(namesOf(rules, 'secrets')).toEqual(published.toSorted());
    const ofObjects = rules.filter(({ apiGroups }) => apiGroups.includes(''));
    expect([...new Set(ofObjects.flatMap(({ verbs }) => verbs))].toSorted()).toEqual(['get', 'list', 'watch']);
  });

  it('lets syncer take the turn to restart kube-apiserver, where that must ever be restarted', () => {
    const turn = {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      resourceNames: ['kube-apiserver-restart'],
    };
    const verbs = ['get', 'create', 'patch', 'update'];
    expect(rulesOf('kube-cert-recovery-syncer', 'kube-cert-recovery')).toContainEqual({ ...turn, verbs });
    const reloading = artefacts.map((one) => ({
      ...one,
      readers: one.readers.filter(({ needs }) => needs === 'nothing'),
    }));
    const without = installManifests({ artefacts: reloading, namespace: 'kube-cert-recovery' });
    expect(JSON.stringify(without)).not.toContain('kube-apiserver-restart');
    expect(namesOf(rulesOf('kube-cert-recovery-regen', 'kube-cert-recovery'), 'leases')).toEqual([]);
  });

  it('lets nobody but regen touch the leases that prove use', () => {
    expect(rulesOf('kube-cert-recovery-regen', 'kube-system')).toEqual([
      {
        apiGroups: ['coordination.k8s.io'],
        resources: ['leases'],
        resourceNames: ['kube-controller-manager', 'kube-scheduler'],
        verbs: ['get', 'update'],
      },
    ]);
    expect(rulesOf('kube-cert-recovery-syncer', 'kube-system').flatMap(({ verbs }) => verbs)).toEqual(['get']);
  });

  it('lets regen list Nodes and their Leases where a signer waits for nodes, and else nobody', () => {
    const namespace = 'kube-cert-recovery';
    const policy = { waitForNodes: new Map([['csr-signer-signer', ['kubelet.conf']]]) };
    const texts = (from: readonly Manifest[]) => grantsOf(from).map(grantText);
    const usual = new Set(texts(manifests));
    const more = texts(installManifests({ artefacts, namespace, policy })).filter((one) => !usual.has(one));
    expect(more).toEqual([
      'kube-cert-recovery-regen: list leases.coordination.k8s.io in kube-node-lease',
      'kube-cert-recovery-regen: list nodes',
    ]);
    expect(installManifests({ artefacts, namespace, policy: {} })).toEqual(manifests);
  });

  it('gives a Role in each namespace that an inventory spans', () => {
    const elsewhere: Artefact = {
      kind: 'opaque',
      name: 'other',
      location: { kind: 'configMap', namespace: 'elsewhere', name: 'other' },
      published: 'optional',
      readers: [],
    };
    const spanning = installManifests({ artefacts: [...artefacts, elsewhere], namespace: 'own' });
    expect(namesOf(rulesOf('kube-cert-recovery-syncer', 'elsewhere', spanning), 'configmaps')).toEqual(['other']);
    const made = spanning.filter(({ kind }) => kind === 'Namespace').map(({ metadata }) => metadata.name);
    expect(made).toEqual(['elsewhere', 'kube-cert-recovery', 'own']);
  });

  it.each(['openshift-kube-apiserver', 'openshift-kube-controller-manager', 'openshift-kube-scheduler'])(
    'names every object of %s in its namespace, and writes nothing that is given',
    (name) => {
      const preset = resolve(loadPreset(name), {});
      const own = installManifests({ ...preset, namespace: name });
      for (const { kind, location } of preset.artefacts) {
        if (!('namespace' in location)) throw new Error('not in the API');
        const rules = rulesOf(`kube-cert-recovery-regen-${name}`, location.namespace, own);
        const resource = location.kind === 'secret' ? 'secrets' : 'configmaps';
        const verbs = rules
          .filter(
            ({ resources, resourceNames }) => resources.includes(resource) && resourceNames?.includes(location.name),
          )
          .flatMap((rule) => rule.verbs);
        const onlyRead = ['external', 'keyPair', 'opaque'].includes(kind);
        expect(verbs, location.name).toEqual(onlyRead ? ['get'] : ['get', 'update', 'patch', 'create']);
      }
      const names = own.filter(({ metadata }) => metadata.name.startsWith('kube-cert-recovery-regen-names'));
      expect(names).toHaveLength(name === 'openshift-kube-apiserver' ? 2 : 0);
    },
  );

  it('binds the API server to kubelets only where the inventory has that client', () => {
    expect(bound(manifests)).toBe(true);
    expect(bound(installManifests({ artefacts: [], namespace: 'n' }))).toBe(false);
  });
});

describe('installManifests() with the approver', () => {
  const own = installManifests({ artefacts: [], namespace: 'ns', approver: true });
  const named = (kind: string, name: string): Manifest | undefined =>
    own.find((one) => one.kind === kind && one.metadata.name === name);
  const approver = 'kube-cert-recovery-approver';
  const bootstrapper = 'kube-cert-recovery-node-bootstrapper';

  it('is what is asked for, and nothing of it is there unasked', () => {
    const unasked = installManifests({ artefacts: [], namespace: 'ns' });
    expect(JSON.stringify(unasked)).not.toMatch(/approver|bootstrapper/);
    expect(own.slice(0, unasked.length)).toEqual(unasked);
  });

  it('may approve the requests of one signer', () => {
    const rules = named('ClusterRole', approver)?.['rules'] as Rule[];
    expect(rules.map(({ resources, verbs }) => `${verbs.join()} ${resources.join()}`)).toEqual([
      'list,watch certificatesigningrequests',
      'update certificatesigningrequests/approval',
      'approve signers',
      'get nodes',
    ]);
    expect(namesOf(rules, 'signers')).toEqual(['kubernetes.io/kube-apiserver-client-kubelet']);
    expect(rulesOf(approver, 'kube-node-lease', own).map(({ verbs }) => verbs)).toEqual([['get']]);
    expect(rulesOf(approver, 'default', own).map(({ verbs }) => verbs)).toEqual([['create']]);
  });

  it('may approve the requests of exactly the signers that are asked for, and read what their sources need', () => {
    const rightsFor = (grant: ApproverGrant) => {
      const made = installManifests({ artefacts: [], namespace: 'ns', approver: grant });
      const role = made.find(({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === approver);
      const rules = role?.['rules'] as Rule[];
      return {
        signers: namesOf(rules, 'signers'),
        nodes: rules.filter(({ resources }) => resources.includes('nodes')).flatMap(({ verbs }) => verbs),
        machines: rules.filter(({ resources }) => resources.includes('machines')).map(({ apiGroups }) => apiGroups),
        text: JSON.stringify(made),
      };
    };
    const serving = 'kubernetes.io/kubelet-serving';
    const alone = rightsFor({ signers: ['kubelet-serving'], addresses: [{ kind: 'served', caFile: '/ca' }] });
    expect(alone).toMatchObject({ signers: [serving], nodes: ['get'], machines: [] });
    expect(alone.text).not.toMatch(/bootstrapper|first-approvals|kube-node-lease|secrets/);
    const addresses = [
      { kind: 'cidrs', cidrs: ['192.0.2.0/24'] },
      { kind: 'machines', api: 'openshift' },
      { kind: 'machines', api: 'clusterAPI', kubeconfig: '/elsewhere' },
    ] as const;
    expect(rightsFor({ signers: ['kubelet-client', 'kubelet-serving'], addresses })).toMatchObject({
      signers: ['kubernetes.io/kube-apiserver-client-kubelet', serving],
      nodes: ['get', 'list'],
      machines: [['machine.openshift.io']],
    });
  });

  it('binds the bootstrap identity to the role of asking, and to that alone', () => {
    const to = own.filter((one) => JSON.stringify(one['subjects'] ?? []).includes(bootstrapper));
    expect(to.map((one) => one['roleRef'])).toMatchObject([{ kind: 'ClusterRole', name: 'system:node-bootstrapper' }]);
    expect(JSON.stringify(own)).not.toContain('nodeclient');
  });

  it.each([approver, bootstrapper])('gives %s an account and a token without an end', (name) => {
    expect(named('ServiceAccount', name)?.metadata.namespace).toBe('ns');
    expect(named('Secret', `${name}-token`)).toMatchObject({
      type: 'kubernetes.io/service-account-token',
      metadata: { namespace: 'ns', annotations: { 'kubernetes.io/service-account.name': name } },
    });
  });
});

describe('installManifests() with a syncer for each static pod', () => {
  const namespace = 'kube-cert-recovery';
  const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
  const own = installManifests({ artefacts, namespace, syncers: podSyncers(resolved) });
  const accountOf = (pod: string): string => `kube-cert-recovery-syncer-${pod}`;
  const mayRead = (pod: string): string[] => {
    const rules = rulesOf(accountOf(pod), namespace, own);
    return [...namesOf(rules, 'secrets'), ...namesOf(rules, 'configmaps')];
  };
  const proofsOf = (pod: string): string[] => {
    const role = own.find(
      ({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === `kube-cert-recovery-proofs-${pod}`,
    );
    return ((role?.['rules'] ?? []) as Rule[]).flatMap(({ resources, verbs }) => `${verbs.join()} ${resources.join()}`);
  };

  it('has no account that serves more than one pod', () => {
    const accounts = own.flatMap(({ kind, metadata }) => (kind === 'ServiceAccount' ? [metadata.name] : []));
    expect(accounts).toEqual([
      'kube-cert-recovery-regen',
      accountOf('kube-apiserver'),
      accountOf('kube-controller-manager'),
      accountOf('kube-scheduler'),
    ]);
    for (const account of accounts) {
      expect(
        own.filter(({ kind, metadata }) => kind === 'Secret' && metadata.name === `${account}-token`),
      ).toHaveLength(1);
    }
  });

  it('lets each read what is published in its pod', () => {
    expect(mayRead('kube-scheduler')).toEqual(['kube-scheduler-client', 'kube-apiserver-server-ca']);
    expect(mayRead('kube-controller-manager')).toEqual([
      'csr-signer',
      'kube-controller-manager-client',
      'service-account-key',
      'client-ca',
      'kube-apiserver-server-ca',
    ]);
    expect(mayRead('kube-apiserver')).toEqual([
      'admin-client',
      'aggregator-client',
      'kube-apiserver-serving',
      'kubelet-client',
      'localhost-recovery-serving',
      'localhost-serving',
      'service-account-key',
      'aggregator-client-ca',
      'client-ca',
      'kube-apiserver-server-ca',
    ]);
  });

  it('lets each ask for the proofs of its own component', () => {
    const leasesOf = (pod: string): string[] => namesOf(rulesOf(accountOf(pod), 'kube-system', own), 'leases');
    expect(leasesOf('kube-scheduler')).toEqual(['kube-scheduler']);
    expect(leasesOf('kube-controller-manager')).toEqual(['kube-controller-manager']);
    expect(leasesOf('kube-apiserver')).toEqual([]);
    expect(proofsOf('kube-scheduler')).toEqual([]);
    expect(proofsOf('kube-controller-manager')).toEqual(['list certificatesigningrequests']);
    expect(proofsOf('kube-apiserver')).toEqual(['list apiservices']);
  });

  it('gives nobody the turn to restart kube-apiserver, which no pod restarts', () => {
    expect(JSON.stringify(own)).not.toContain('kube-apiserver-restart');
    const reacting = podSyncers(resolved).map((one) => ({ ...one, reacts: true }));
    const some = installManifests({ artefacts, namespace, syncers: reacting });
    const turn = (pod: string): string[] => namesOf(rulesOf(accountOf(pod), namespace, some), 'leases');
    expect(turn('kube-apiserver')).toEqual(['kube-apiserver-restart']);
    expect(turn('kube-scheduler')).toEqual([]);
  });
});

describe('docs/security.md and docs/static-pods.md', () => {
  const namespace = 'kube-cert-recovery';
  const inApi = artefacts.filter(({ location }) => !isFile(location));
  const resolved = resolve(
    { ...loadPreset('kubernetes'), artefacts: inApi },
    { parameters: { apiServerHostnames: [] } },
  );
  const all = [
    ...installManifests({ artefacts: inApi, namespace }),
    ...installManifests({ artefacts: inApi, namespace, syncers: podSyncers(resolved), approver: true }),
    ...workerManifests(namespace),
  ];
  const pods = staticPods.map((pod) => `syncer-${pod}` as const);

  it.each(['regen', 'syncer', ...pods, 'approver', 'worker'] as const)('tell every right of %s', (account) => {
    const granted = grantsOf(all).filter((grant) => grant.account === accountName(account));
    const documented = documentedRights(account).map(grantText);
    expect(documented.toSorted()).toEqual([...new Set(granted.map(grantText))].toSorted());
  });
});

describe('what docs/security.md says of a stolen token', () => {
  const inventory = loadPreset('kubernetes').artefacts;
  const named = (is: (artefact: Artefact) => boolean): string[] =>
    inventory.flatMap((one) => (one.location.kind === 'secret' && is(one) ? [one.location.name] : []));
  const adopted = installManifests({
    artefacts: inventory,
    namespace: 'kube-cert-recovery',
    syncers: podSyncers(resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } })),
    approver: true,
  });
  const grants = grantsOf([
    ...installManifests({ artefacts: inventory, namespace: 'kube-cert-recovery' }),
    ...adopted,
    ...workerManifests('kube-cert-recovery'),
  ]);
  const readable = (account: Account): ReadonlySet<string | undefined> =>
    new Set(
      grants
        .filter((one) => one.account === accountName(account) && one.resource === 'secrets' && one.verb === 'get')
        .map(({ name }) => name),
    );
  const signers = named(({ kind }) => kind === 'signer');
  // A copy of a signer is one; the API server believes what it signs for clients (client-ca).
  const csrSigner = named(
    (one) => one.kind === 'copy' && inventory.some((of) => of.name === one.of && of.kind === 'signer'),
  );
  const masters = named((one) => one.kind === 'target' && one.organizations.includes('system:masters'));
  const tokenKeys = named(({ kind }) => kind === 'keyPair');
  const rows = tables(section(page('docs/security.md'), 'What a stolen token can do'))[0] ?? [];

  it('names each account once', () => {
    const accounts = new Set(grants.map(({ account }) => account));
    expect(rows.map(([who = '']) => accountName(firstCode(who) as Account)).toSorted()).toEqual(
      [...accounts, accountName('node-bootstrapper')].toSorted(),
    );
    expect([csrSigner, masters, tokenKeys].map((list) => list.length)).toEqual([1, 1, 1]);
  });

  it.each(rows.map(([who = '', power = '', why = '']) => [firstCode(who) as Account, power, why] as const))(
    'holds for %s',
    (account, power, why) => {
      const can = readable(account);
      const powerful = [...signers, ...csrSigner, ...masters, ...tokenKeys].filter((name) => can.has(name));
      expect(power === 'cluster-admin').toBe(powerful.length > 0);
      if (account === 'regen') expect(signers.every((name) => can.has(name))).toBe(true);
      else if (powerful.length > 0) expect(codes(why).toSorted()).toEqual(powerful.toSorted());
    },
  );
});

describe('syncerOf()', () => {
  const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
  const secretsOf = (components: readonly string[] | undefined): readonly (string | undefined)[] => {
    const { account, ...rest } = syncerOf(resolved, components);
    const own = installManifests({ ...resolved, namespace: 'ns', syncers: [{ account, ...rest }] });
    return grantsOf(own).flatMap((one) =>
      one.account === accountName(account) && one.resource === 'secrets' && one.verb === 'get' ? [one.name] : [],
    );
  };

  it('lets the syncer read what its components read, with the account of their pod', () => {
    expect(secretsOf(['kube-scheduler'])).toEqual(['kube-scheduler-client']);
    expect(syncerOf(resolved, ['kube-scheduler']).account).toBe('syncer-kube-scheduler');
    expect(syncerOf(resolved, ['kubelet', 'kube-apiserver']).account).toBe('syncer-kube-apiserver');
    expect(secretsOf(['kube-apiserver'])).not.toContain('csr-signer');
  });

  it('has the account of all where they are in several pods, or none is named', () => {
    expect(syncerOf(resolved, undefined).account).toBe('syncer');
    expect(secretsOf(undefined)).toContain('csr-signer');
    const two = ['kube-apiserver', 'kube-scheduler'];
    expect(syncerOf(resolved, two).account).toBe('syncer');
    expect(secretsOf(two)).not.toContain('csr-signer');
  });
});

describe('hostManifests()', () => {
  const given = (preset: string, renewsAhead: boolean) => hostManifests({ inventory: loadPreset(preset), renewsAhead });
  const rights = (from: readonly Manifest[]): readonly string[] =>
    from.flatMap(({ kind, metadata, rules = [] }) =>
      kind === 'Role'
        ? (rules as Rule[]).map(
            ({ resources, resourceNames = [], verbs }) =>
              `${metadata.namespace} ${resources.join()} ${resourceNames.join()} ${verbs.join()}`,
          )
        : [],
    );
  const always = [
    'kube-public configmaps cluster-info get,update',
    'kube-system leases kube-controller-manager,kube-scheduler get,update',
    'kube-system configmaps kubeadm-config get',
  ];

  it('names two leader Leases and two ConfigMaps, and the Lease of renewals where that is asked for', () => {
    expect(rights(given('kubeadm', false))).toEqual(always);
    expect(rights(given('kubeadm', true))).toEqual([
      'kube-cert-recovery leases control-plane-renewal get,create,patch,update',
      ...always,
    ]);
  });

  it('makes no namespace but its own', () => {
    const made = given('kubeadm', true).flatMap(({ kind, metadata }) => (kind === 'Namespace' ? [metadata.name] : []));
    expect(made).toEqual(['kube-cert-recovery']);
    expect(given('kubeadm', false).map(({ kind }) => kind)).not.toContain('Namespace');
  });

  it('grants a machine of etcd nothing that it does not ask for', () => {
    expect(given('etcdadm', false)).toEqual([]);
  });
});
