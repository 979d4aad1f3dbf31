// What a stolen token of ours can do: what docs/security.md and docs/static-pods.md say, and nothing else. Asked in two ways:
// the API server's own account of the rights of whoever asks, and real requests for everything that it has.
import { Agent } from 'node:https';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { staticPods } from '../../lib/components.ts';
import { type Account, accountName, defaultNamespace as own } from '../../lib/install/accounts.ts';
import { apiRequest, type ApiTarget } from '../support/cluster/api-client.ts';
import { type ApiResource, apiResources, type Asked, forEach, isRefused, waysToAsk } from './api-sweep.ts';
import { documentedRights } from '../support/project/documented-rights.ts';
import { createGrantedWorld, type GrantedWorld } from '../support/cluster/granted-world.ts';
import { type Grant, grantsOf, grantText } from '../support/cluster/grants.ts';

const accounts: readonly Account[] = [
  'regen',
  'syncer',
  ...staticPods.map((pod) => `syncer-${pod}` as const),
  'approver',
  'node-bootstrapper',
];
const namespaces = [own, 'default', 'kube-system', 'kube-node-lease', 'others'];
const agent = new Agent({ keepAlive: true, maxSockets: 8 });

let world: GrantedWorld;
let resources: readonly ApiResource[];
const targets = new Map<Account, ApiTarget>();

const targetOf = (account: Account): ApiTarget => {
  const target = targets.get(account);
  if (target === undefined) throw new Error(`${account} has no token`);
  return target;
};

beforeAll(async () => {
  world = await createGrantedWorld();
  const { controlPlane, resolved } = world;
  const { port, recoveryCa: caFile } = controlPlane;
  for (const account of accounts) {
    const token = await world.tokenOf(account);
    targets.set(account, { port, caFile, serverName: 'localhost-recovery', token, agent });
  }
  // Something of everything: objects of the inventory, and of others.
  await controlPlane.kubectl('create', 'namespace', 'others');
  const objects = resolved.artefacts.map(({ location }) => ({
    apiVersion: 'v1',
    kind: location.kind === 'secret' ? 'Secret' : 'ConfigMap',
    metadata: 'namespace' in location ? { namespace: location.namespace, name: location.name } : {},
  }));
  const foreign = namespaces.flatMap((namespace) =>
    ['Secret', 'ConfigMap'].map((kind) => ({ apiVersion: 'v1', kind, metadata: { namespace, name: 'foreign' } })),
  );
  const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
  const leases = [
    ['kube-system', 'kube-scheduler'],
    ['kube-system', 'kube-controller-manager'],
    ['kube-node-lease', 'worker'],
    [own, 'kube-apiserver-restart'],
    [own, 'foreign'],
  ].map(([namespace, name]) => ({ ...lease, metadata: { namespace, name }, spec: {} }));
  const items = [...objects, ...foreign, ...leases];
  await controlPlane.apply(JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  const ask = async (path: string): Promise<unknown> => (await controlPlane.admin(path)).body;
  resources = await apiResources(ask);
});
afterAll(async () => {
  agent.destroy();
  await world?.[Symbol.asyncDispose]();
});

const text = (asked: Asked): string => grantText({ ...asked, account: '' });
const isSame = (asked: Asked, grant: Grant): boolean =>
  asked.verb === grant.verb && asked.group === grant.group && asked.resource === grant.resource;
/** Whether a right covers what is asked. One by name covers only that name. */
const covers = (grant: Grant, asked: Asked): boolean =>
  isSame(asked, grant) &&
  (grant.namespace === undefined || grant.namespace === asked.namespace) &&
  (grant.name === undefined || grant.name === asked.name);

/** What every ServiceAccount may: system:basic-user. */
const ofEverybody = [
  ['authentication.k8s.io', 'selfsubjectreviews'],
  ['authorization.k8s.io', 'selfsubjectaccessreviews'],
  ['authorization.k8s.io', 'selfsubjectrulesreviews'],
].map(([group = '', resource = '']): Grant => {
  return { account: '', verb: 'create', group, resource, name: undefined, namespace: undefined };
});

const documented = (account: Account): Grant[] => [...ofEverybody, ...documentedRights(account)];

describe.each(accounts)('%s', (account) => {
  it('has, by the API server’s own account, the documented rights and no other', async () => {
    for (const namespace of namespaces) {
      const wanted = documented(account).filter(({ namespace: in_ = namespace }) => in_ === namespace);
      const { resourceRules } = await rulesOf(account, namespace);
      const rights = resourceRules.flatMap(({ verbs, apiGroups, resources: of, resourceNames = [undefined] }) =>
        verbs.flatMap((verb) =>
          apiGroups.flatMap((group) =>
            of.flatMap((resource) =>
              resourceNames.map((name) => text({ verb, group, resource, name, namespace: undefined })),
            ),
          ),
        ),
      );
      const expected = wanted.map((grant) => text({ ...grant, namespace: undefined }));
      expect([...new Set(rights)].toSorted(), namespace).toEqual([...new Set(expected)].toSorted());
    }
  });

  it('reads discovery and health beside resources, and nothing else', async () => {
    const { nonResourceRules } = await rulesOf(account, own);
    expect([...new Set(nonResourceRules.flatMap(({ verbs }) => verbs))]).toEqual(['get']);
    const paths = [...new Set(nonResourceRules.flatMap(({ nonResourceURLs }) => nonResourceURLs))];
    expect(
      paths.filter((path) => !/^\/(api|apis|openapi|healthz|livez|readyz|version|\.well-known|openid)\b/.test(path)),
    ).toEqual([]);
    for (const path of ['/metrics', '/metrics/slis', '/logs/', '/debug/pprof/', '/configz', '/flagz', '/statusz']) {
      expect((await apiRequest(targetOf(account), path)).status, path).toBe(403);
    }
  });

  it('is refused whatever else it asks of any resource', async () => {
    const ways = resources.flatMap((resource) => waysToAsk(resource, namespaces).map((asked) => ({ resource, asked })));
    expect(ways.length).toBeGreaterThan(1000);
    await expectRights(account, ways);
  });

  it('is refused whatever else it asks of each Secret, ConfigMap, Lease, Role and account that is there', async () => {
    const kinds = [
      'secrets',
      'configmaps',
      'leases',
      'serviceaccounts',
      'roles',
      'clusterroles',
      'clusterrolebindings',
    ];
    const ways: Way[] = [];
    for (const resource of resources.filter((one) => kinds.includes(one.resource))) {
      const { body } = await world.controlPlane.admin(`${resource.root}/${resource.resource}`);
      for (const { metadata } of (body as { items: { metadata: { name: string; namespace?: string } }[] }).items) {
        const places = metadata.namespace === undefined ? [] : [metadata.namespace];
        if (resource.isNamespaced && !namespaces.includes(places[0] ?? '')) continue;
        ways.push(...waysToAsk(resource, places, metadata.name).map((asked) => ({ resource, asked })));
      }
    }
    expect(ways.length).toBeGreaterThan(400);
    await expectRights(account, ways);
  });

  it('becomes nobody else', async () => {
    const target = targetOf(account);
    for (const other of accounts) {
      const path = `/api/v1/namespaces/${own}/serviceaccounts/${accountName(other)}/token`;
      const spec = { audiences: ['https://kubernetes.default.svc'] };
      expect((await apiRequest(target, path, { method: 'POST', body: { spec } })).status, other).toBe(403);
    }
    const binding = {
      metadata: { name: 'greedy' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', namespace: own, name: accountName(account) }],
    };
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    for (const path of [`${rbac}/clusterrolebindings`, `${rbac}/namespaces/${own}/rolebindings`]) {
      expect((await apiRequest(target, path, { method: 'POST', body: binding })).status, path).toBe(403);
    }
    for (const header of impersonations) {
      expect(await as(target, header), JSON.stringify(header)).toBe(403);
    }
  });
});

it('every account that is made has been asked', () => {
  const made = [...world.plain, ...world.adopted].filter(({ kind }) => kind === 'ServiceAccount');
  expect(new Set(made.map(({ metadata }) => metadata.name))).toEqual(new Set(accounts.map(accountName)));
  expect(grantsOf(world.adopted).length).toBeGreaterThan(100);
});

interface Way {
  readonly resource: ApiResource;
  readonly asked: Asked;
}

async function expectRights(account: Account, ways: readonly Way[]): Promise<void> {
  const rights = documented(account);
  const granted: string[] = [];
  await forEach(ways, agent, async ({ resource, asked }) => {
    if (!(await isRefused(targetOf(account), resource, asked))) granted.push(text(asked));
  });
  const wanted = ways.filter(({ asked }) => rights.some((grant) => covers(grant, asked)));
  expect(granted.toSorted()).toEqual(wanted.map(({ asked }) => text(asked)).toSorted());
}

interface Rules {
  readonly resourceRules: readonly {
    readonly verbs: readonly string[];
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly resourceNames?: readonly string[];
  }[];
  readonly nonResourceRules: readonly {
    readonly verbs: readonly string[];
    readonly nonResourceURLs: readonly string[];
  }[];
}

async function rulesOf(account: Account, namespace: string): Promise<Rules> {
  const path = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews';
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const answer = await apiRequest(targetOf(account), path, { method: 'POST', body });
  expect(answer.status).toBe(201);
  return (answer.body as { status: Rules }).status;
}

const impersonations: readonly Readonly<Record<string, string>>[] = [
  { 'impersonate-user': 'kubernetes-admin', 'impersonate-group': 'system:masters' },
  { 'impersonate-user': `system:serviceaccount:${own}:kube-cert-recovery-regen` },
  { 'impersonate-user': 'system:node:panda' },
];

/** Status of a request in the name of somebody else. */
async function as(target: ApiTarget, headers: Readonly<Record<string, string>>): Promise<number> {
  const { status } = await apiRequest(target, '/api/v1/namespaces', { headers });
  return status;
}
