// A control plane started from nothing but what `init render` wrote, then `init` and `uninstall` against it.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { type InitOutcome, renderInitManifests, runInit } from '../../lib/install/init.ts';
import { runUninstall } from '../../lib/install/uninstall.ts';
import type { ApiLocation } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { LeaseTurn, restartTurn } from '../../lib/leases/turn.ts';
import { createApiStore } from '../../lib/store/api.ts';
import { apiRequest } from '../support/api-client.ts';
import { type RenderedControlPlane, startRenderedControlPlane } from '../support/rendered-control-plane.ts';

const signal = new AbortController().signal;
const userAgent = 'install-test';
const ns = 'kube-cert-recovery';
let plane: RenderedControlPlane;
let { controlPlane, resolved, out, server, admin } = {} as RenderedControlPlane;

beforeAll(async () => {
  plane = await startRenderedControlPlane();
  ({ controlPlane, resolved, out, server, admin } = plane);
});
afterAll(() => plane?.[Symbol.asyncDispose]());

const init = (): Promise<InitOutcome> => {
  const settings = { preset: 'kubernetes', parameters: { apiServerHostnames: ['127.0.0.1'] } };
  return runInit({ connection: admin, resolved, directory: out, server, settings, clock: systemClock, signal });
};

const apiObjects = (): ApiLocation[] =>
  resolved.artefacts.flatMap(({ truth }) => (truth.kind === 'secret' || truth.kind === 'configMap' ? [truth] : []));

/** resourceVersion of every object that init makes or uploads. */
async function versions(): Promise<Record<string, string>> {
  const kinds = ['secrets', 'configmaps', 'serviceaccounts', 'roles', 'rolebindings'];
  const args = [...kinds, 'clusterroles', 'clusterrolebindings'].join(',');
  const line =
    '{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\\n"}{end}';
  const text = await controlPlane.kubectl('get', args, '-A', '-o', `jsonpath=${line}`);
  // kube-apiserver notes the day of a token's first use on its Secret
  const lines = text.split('\n').filter((each) => each.includes('kube-cert-recovery') && !each.includes('-token'));
  return Object.fromEntries(lines.map((each) => [each.slice(0, each.lastIndexOf(' ')), each]));
}

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
}

function as(identity: 'regen' | 'syncer', { path, ...request }: Request): Promise<number> {
  const token = readFileSync(join(out, 'credentials', identity, 'token'), 'utf8');
  const target = { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName: 'localhost-recovery', token };
  return apiRequest(target, path, request).then(({ status }) => status);
}

const objectPath = ({ kind, namespace, name }: ApiLocation): string =>
  `/api/v1/namespaces/${namespace}/${kind === 'secret' ? 'secrets' : 'configmaps'}/${name}`;

const inSecrets = (name: string): string => `/api/v1/namespaces/${ns}/secrets/${name}`;
const apply = 'application/apply-patch+yaml';
const configMap = (name: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: ns, name, resourceVersion: '1' },
});
const leasePath = (name: string): string => `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${name}`;

describe('a control plane of rendered files', () => {
  it('runs: every component answers, and the two leaders hold their leases', async () => {
    for (const name of ['kube-controller-manager', 'kube-scheduler']) {
      await expect
        .poll(() => controlPlane.admin(leasePath(name)).then(({ status }) => status), { timeout: 30_000 })
        .toBe(200);
    }
    expect(await admin.request<object>({ method: 'GET', path: '/api/v1/namespaces/default', signal })).toMatchObject({
      kind: 'Namespace',
    });
  });
});

describe('renderInitManifests()', () => {
  it('shows every manifest, no key, and changes nothing', async () => {
    const before = await versions();
    const text = await renderInitManifests({ resolved, directory: out });
    expect(text).toContain('kind: ClusterRoleBinding');
    expect(text).toContain('name: kube-apiserver-serving-signer');
    expect(text).not.toContain('tls.key');
    expect(text).not.toContain('PRIVATE KEY');
    expect(await versions()).toEqual(before);
    expect(existsSync(join(out, 'credentials'))).toBe(false);
  });
});

describe('runInit()', () => {
  it('stops before it deletes anything when an object with other content is there', async () => {
    const { truth } = resolved.artefacts.find(({ name }) => name === 'client-ca') ?? {};
    const pem = readFileSync(join(out, 'certs', 'configmaps', 'aggregator-client-ca', 'ca-bundle.crt'));
    await controlPlane.kubectl('create', 'namespace', ns);
    const store = createApiStore({ connection: admin, fieldManager: 'test' });
    const other = { entries: { 'ca-bundle.crt': pem }, annotations: {} };
    if (truth === undefined) throw new Error('The preset has no client-ca');
    await store.write(truth, other, 'absent', signal);
    const outcome = await init();
    expect(outcome.differing).toEqual([`ConfigMap "${ns}/client-ca"`]);
    expect(outcome.stagingRemoved).toBe(false);
    expect(outcome.stagingKept).toBe(join(out, 'staging'));
    expect((await store.read(truth, signal))?.entries['ca-bundle.crt']).toEqual(pem);
    await controlPlane.kubectl('delete', 'configmap', 'client-ca', '-n', ns);
  });

  it('completes what is missing, reads everything back, and then deletes the staging directory', async () => {
    const outcome = await init();
    expect(outcome).toMatchObject({
      created: [`ConfigMap "${ns}/client-ca"`],
      updated: [],
      differing: [],
      missing: [],
      stagingRemoved: true,
    });
    expect(existsSync(join(out, 'staging'))).toBe(false);
    const store = createApiStore({ connection: admin, fieldManager: 'test' });
    for (const location of apiObjects()) expect(await store.read(location, signal), location.name).toBeDefined();
    const published = join(out, 'certs', 'secrets', 'kube-apiserver-serving', 'tls.crt');
    const serving = apiObjects().find(({ name }) => name === 'kube-apiserver-serving');
    const found = serving && (await store.read(serving, signal));
    expect(Buffer.from(found?.entries['tls.crt'] ?? []).toString()).toBe(readFileSync(published, 'utf8'));
  });

  it('changes nothing the second time', async () => {
    const before = await versions();
    const outcome = await init();
    expect(outcome).toMatchObject({ created: [], updated: [], differing: [], missing: [], files: [] });
    expect(outcome.unchanged.length).toBeGreaterThan(apiObjects().length);
    expect(await versions()).toEqual(before);
  });

  it("leaves tokens in nobody's list and files only their owner can read", async () => {
    for (const identity of ['regen', 'syncer'] as const) {
      const { body } = await controlPlane.admin(
        `/api/v1/namespaces/${ns}/serviceaccounts/kube-cert-recovery-${identity}`,
      );
      expect(body).not.toHaveProperty('secrets');
      const directory = join(out, 'credentials', identity);
      expect(statSync(directory).mode & 0o777).toBe(0o700);
      for (const name of readdirSync(directory)) expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600);
    }
  });

  it('writes kubeconfigs that connect by the recovery name', async () => {
    for (const identity of ['regen', 'syncer'] as const) {
      const kubeconfigFile = join(out, 'credentials', identity, 'kubeconfig');
      const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent });
      expect(connection.serverName).toBe('localhost-recovery');
      const path = inSecrets('kube-apiserver-serving');
      expect(await connection.request({ method: 'GET', path, signal })).toMatchObject({ kind: 'Secret' });
      await connection.close();
    }
  });

  it('names a webhook that could stop recovery, and the exemption', async () => {
    await controlPlane.apply(
      JSON.stringify({
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'ValidatingWebhookConfiguration',
        metadata: { name: 'policy' },
        webhooks: [
          {
            name: 'policy.example.com',
            clientConfig: { url: 'https://127.0.0.1:1/' },
            rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['secrets'] }],
            admissionReviewVersions: ['v1'],
            sideEffects: 'None',
            failurePolicy: 'Ignore',
          },
        ],
      }),
    );
    const { webhooks } = await init();
    await controlPlane.kubectl('delete', 'validatingwebhookconfiguration', 'policy');
    expect(webhooks).toMatchObject([
      { configuration: 'ValidatingWebhookConfiguration "policy"', blocks: false, namespaces: [ns] },
    ]);
  });
});

describe('the rights of regen', () => {
  it('reads and replaces every object of the inventory that it renews', async () => {
    for (const location of apiObjects()) {
      const path = objectPath(location);
      expect(await as('regen', { method: 'GET', path }), path).toBe(200);
      if (location.name === 'service-account-key') continue;
      const { body } = await controlPlane.admin(path);
      expect(await as('regen', { method: 'PUT', path, body }), path).toBe(200);
    }
  });

  it('creates an object of the inventory that is gone, by a server-side apply only', async () => {
    const path = `/api/v1/namespaces/${ns}/configmaps/csr-signer-ca`;
    const { body } = await controlPlane.admin(path);
    await controlPlane.kubectl('delete', 'configmap', 'csr-signer-ca', '-n', ns);
    const posted = { ...configMap('csr-signer-ca'), metadata: { namespace: ns, name: 'csr-signer-ca' } };
    const post = { method: 'POST', path: `/api/v1/namespaces/${ns}/configmaps`, body: posted };
    expect(await as('regen', post)).toBe(403);
    const { data } = body as { data: unknown };
    const applied = { ...configMap('csr-signer-ca'), data };
    const patch = { method: 'PATCH', path: `${path}?fieldManager=t`, contentType: apply, body: applied };
    expect(await as('regen', patch)).toBe(201);
  });

  it('reads and releases the two leader leases, and no other', async () => {
    for (const name of ['kube-controller-manager', 'kube-scheduler']) {
      expect(await as('regen', { method: 'GET', path: leasePath(name) })).toBe(200);
    }
    expect(await as('regen', { method: 'GET', path: leasePath('apiserver-x') })).toBe(403);
  });

  const refused: Record<string, Request> = {
    'read of the token of another': { method: 'GET', path: inSecrets('kube-cert-recovery-syncer-token') },
    'read of its own token': { method: 'GET', path: inSecrets('kube-cert-recovery-regen-token') },
    'list of Secrets': { method: 'GET', path: `/api/v1/namespaces/${ns}/secrets` },
    'read in another namespace': { method: 'GET', path: '/api/v1/namespaces/kube-system/secrets/kubelet-client' },
    'delete of its own object': { method: 'DELETE', path: inSecrets('kubelet-client') },
    'write of the service-account key': { method: 'PUT', path: inSecrets('service-account-key'), body: {} },
    'creation of another name': {
      method: 'PATCH',
      path: `/api/v1/namespaces/${ns}/configmaps/other?fieldManager=t`,
      contentType: apply,
      body: configMap('other'),
    },
    'creation by POST': { method: 'POST', path: `/api/v1/namespaces/${ns}/configmaps`, body: configMap('other') },
    'change of its own Role': {
      method: 'PATCH',
      path: `/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/roles/kube-cert-recovery-regen`,
      body: { rules: [] },
    },
    'creation of a pod': { method: 'POST', path: `/api/v1/namespaces/${ns}/pods`, body: {} },
    'list of nodes': { method: 'GET', path: '/api/v1/nodes' },
    'delete of a lease': { method: 'DELETE', path: leasePath('kube-scheduler') },
  };
  it.each(Object.keys(refused))('do not include: %s', async (name) => {
    expect(await as('regen', refused[name] ?? { method: 'GET', path: '/' })).toBe(403);
  });
});

const published = (location: ApiLocation): boolean =>
  resolved.artefacts.some((one) => one.truth === location && one.published !== undefined);

const checkSyncer = async (location: ApiLocation): Promise<void> => {
  const path = objectPath(location);
  const list = `${path.slice(0, path.lastIndexOf('/'))}?fieldSelector=metadata.name%3D${location.name}`;
  const wanted = published(location) ? 200 : 403;
  expect(await as('syncer', { method: 'GET', path }), path).toBe(wanted);
  expect(await as('syncer', { method: 'GET', path: list }), list).toBe(wanted);
  const watch = `${list}&watch=true&timeoutSeconds=1`;
  expect(await as('syncer', { method: 'GET', path: watch }), watch).toBe(wanted);
};

const otherLease = `/apis/coordination.k8s.io/v1/namespaces/${ns}/leases/other`;

describe('the rights of syncer', () => {
  it('reads and watches every published object, and nothing else of the inventory', async () => {
    await Promise.all(apiObjects().map(checkSyncer));
  });

  it('lists what its proofs read, and makes events', async () => {
    const event = {
      metadata: { namespace: ns, name: 'e1' },
      eventTime: '2026-01-01T00:00:00.000000Z',
      reportingController: 'x',
      reportingInstance: 'x',
      action: 'x',
      reason: 'x',
      type: 'Normal',
      regarding: { namespace: ns, name: 'x', kind: 'Secret' },
    };
    const needed: Request[] = [
      { method: 'GET', path: '/apis/certificates.k8s.io/v1/certificatesigningrequests' },
      { method: 'GET', path: '/apis/apiregistration.k8s.io/v1/apiservices' },
      { method: 'GET', path: leasePath('kube-scheduler') },
    ];
    for (const request of needed) expect(await as('syncer', request), request.path).toBe(200);
    const path = `/apis/events.k8s.io/v1/namespaces/${ns}/events`;
    expect(await as('syncer', { method: 'POST', path, body: event })).toBe(201);
  });

  it('takes the turn to restart kube-apiserver, and gives it back', async () => {
    const kubeconfigFile = join(out, 'credentials', 'syncer', 'kubeconfig');
    const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
    const turn = new LeaseTurn({ connection, lease: restartTurn, holder: 'node1', clock: systemClock, signal });
    const holder = async (): Promise<unknown> => {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${restartTurn.namespace}/leases/${restartTurn.name}`;
      return ((await controlPlane.admin(path)).body as { spec: { holderIdentity?: string } }).spec.holderIdentity;
    };
    for (const _ of ['made', 'there']) {
      await turn.take();
      expect(await holder()).toBe('node1');
      await turn.giveBack();
      expect((await holder()) ?? '').toBe('');
    }
    await connection.close();
  });

  const refused: Record<string, Request> = {
    'read of a signer': { method: 'GET', path: inSecrets('kube-apiserver-serving-signer') },
    'list of all Secrets': { method: 'GET', path: `/api/v1/namespaces/${ns}/secrets` },
    'write of a published object': { method: 'PUT', path: inSecrets('kubelet-client'), body: {} },
    'creation by apply': {
      method: 'PATCH',
      path: `/api/v1/namespaces/${ns}/configmaps/client-ca?fieldManager=t`,
      contentType: apply,
      body: configMap('client-ca'),
    },
    'read of the token of regen': { method: 'GET', path: inSecrets('kube-cert-recovery-regen-token') },
    'release of a lease': { method: 'PUT', path: leasePath('kube-scheduler'), body: {} },
    'another lease of its namespace': { method: 'GET', path: otherLease },
    'creation of another lease': {
      method: 'PATCH',
      path: `${otherLease}?fieldManager=t`,
      contentType: apply,
      body: {},
    },
    'creation of a CSR': {
      method: 'POST',
      path: '/apis/certificates.k8s.io/v1/certificatesigningrequests',
      body: {},
    },
  };
  it.each(Object.keys(refused))('do not include: %s', async (name) => {
    expect(await as('syncer', refused[name] ?? { method: 'GET', path: '/' })).toBe(403);
  });

  it("are, by the API server's own account, no more than what a user has and these names", async () => {
    for (const identity of ['regen', 'syncer'] as const) {
      const token = readFileSync(join(out, 'credentials', identity, 'token'), 'utf8');
      const target = {
        port: controlPlane.port,
        caFile: controlPlane.recoveryCa,
        serverName: 'localhost-recovery',
        token,
      };
      const path = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews';
      const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace: ns } };
      const answer = await apiRequest(target, path, { method: 'POST', body });
      const { status } = answer.body as {
        status: { resourceRules: { resources: string[]; resourceNames?: string[] }[] };
      };
      const unnamed = status.resourceRules
        .filter(({ resourceNames = [] }) => resourceNames.length === 0)
        .flatMap(({ resources }) => resources);
      const selfReviews = ['selfsubjectaccessreviews', 'selfsubjectreviews', 'selfsubjectrulesreviews'];
      const proofs = identity === 'syncer' ? ['apiservices', 'certificatesigningrequests'] : [];
      expect([...new Set(unnamed)].toSorted()).toEqual([...selfReviews, 'events', ...proofs].toSorted());
    }
  });
});

const uninstall = (more = {}): ReturnType<typeof runUninstall> =>
  runUninstall({ connection: admin, resolved, directory: out, signal, ...more });

describe('runUninstall()', () => {
  it('says what it would remove, and removes nothing, with dryRun', async () => {
    const before = await versions();
    const { removed } = await uninstall({ dryRun: true });
    expect(removed).toContain(`ServiceAccount "${ns}/kube-cert-recovery-regen"`);
    expect(await versions()).toEqual(before);
  });

  it('removes identities and rights, keeps the certificates, and finds nothing the second time', async () => {
    const { removed } = await uninstall();
    expect(removed).toContain('ClusterRoleBinding "kube-cert-recovery-proofs"');
    expect(existsSync(join(out, 'credentials'))).toBe(false);
    const left = Object.keys(await versions()).filter((name) => !/^(Secret|ConfigMap) /.test(name));
    expect(left.filter((name) => name.includes('/kube-cert-recovery-'))).toEqual([]);
    expect((await controlPlane.admin(inSecrets('kube-apiserver-serving'))).status).toBe(200);
    expect((await uninstall()).removed).toEqual([]);
  });

  it('removes the certificates too when it is told to purge', async () => {
    const { removed } = await uninstall({ purge: true });
    expect(removed).toHaveLength(apiObjects().length);
    expect((await controlPlane.admin(inSecrets('kube-apiserver-serving'))).status).toBe(404);
  });
});
