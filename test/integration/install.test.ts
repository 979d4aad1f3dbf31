// A control plane started from nothing but what `init render` wrote, then `init` and `uninstall` against it. What the
// identities may do is tried in rbac-use.test.ts and rbac-limits.test.ts.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { type InitOutcome, renderInitManifests, runInit } from '../../lib/install/init.ts';
import { runUninstall } from '../../lib/install/uninstall.ts';
import type { ApiLocation } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { restartLease } from '../../lib/restart/machine-lease.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import { type RenderedControlPlane, startRenderedControlPlane } from '../support/cluster/rendered-control-plane.ts';

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

const recoveryServerName = 'localhost-recovery';
const init = (): Promise<InitOutcome> => {
  const settings = { preset: 'kubernetes', parameters: { apiServerHostnames: ['127.0.0.1'] } };
  const options = { connection: admin, resolved, directory: out, server, recoveryServerName, settings };
  return runInit({ ...options, clock: systemClock, signal });
};

const apiObjects = (): ApiLocation[] =>
  resolved.artefacts.flatMap(({ location }) =>
    location.kind === 'secret' || location.kind === 'configMap' ? [location] : [],
  );

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

const inSecrets = (name: string): string => `/api/v1/namespaces/${ns}/secrets/${name}`;
const leasePath = (name: string): string => `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/${name}`;

describe('a control plane of rendered files', () => {
  it('runs: every component answers, and the two leaders hold their leases', async () => {
    for (const name of ['kube-controller-manager', 'kube-scheduler']) {
      await expect
        .poll(() => controlPlane.admin(leasePath(name)).then(({ status }) => status), { timeout: 60_000 })
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
    const { location } = resolved.artefacts.find(({ name }) => name === 'client-ca') ?? {};
    const pem = readFileSync(join(out, 'certs', 'configmaps', 'aggregator-client-ca', 'ca-bundle.crt'));
    await controlPlane.kubectl('create', 'namespace', ns);
    const store = createApiStore({ connection: admin, fieldManager: 'test' });
    const other = { entries: { 'ca-bundle.crt': pem }, annotations: {} };
    if (location === undefined) throw new Error('The preset has no client-ca');
    await store.write(location, other, 'absent', signal);
    const outcome = await init();
    expect(outcome.differing).toEqual([`ConfigMap "${ns}/client-ca"`]);
    expect(outcome.stagingRemoved).toBe(false);
    expect(outcome.stagingKept).toBe(join(out, 'staging'));
    expect((await store.read(location, signal))?.entries['ca-bundle.crt']).toEqual(pem);
    await controlPlane.kubectl('delete', 'configmap', 'client-ca', '-n', ns);
  });

  it('completes what is missing, reads everything back, and then deletes the staging directory', async () => {
    const outcome = await init();
    expect(outcome).toMatchObject({
      created: [`ConfigMap "${ns}/client-ca"`],
      updated: [`ConfigMap "${ns}/kube-cert-recovery-installed-kubernetes"`],
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
      expect(readFileSync(kubeconfigFile, 'utf8')).toContain('tls-server-name: localhost-recovery');
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

  it('names a policy that could refuse what recovery writes, also by a label that an object carries', async () => {
    const head = { apiVersion: 'admissionregistration.k8s.io/v1', metadata: { name: 'labelled' } };
    const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['secrets'] }];
    const objectSelector = { matchLabels: { audited: 'yes' } };
    const spec = { matchConstraints: { resourceRules: rules, objectSelector }, validations: [{ expression: 'true' }] };
    const bound = { policyName: 'labelled', validationActions: ['Deny'] };
    await controlPlane.apply(JSON.stringify({ ...head, kind: 'ValidatingAdmissionPolicy', spec }));
    await controlPlane.apply(JSON.stringify({ ...head, kind: 'ValidatingAdmissionPolicyBinding', spec: bound }));
    expect((await init()).webhooks).toEqual([]);
    const [first] = resolved.artefacts.flatMap(({ kind, location }) => (kind === 'signer' ? [location] : []));
    const name = first !== undefined && 'namespace' in first ? first.name : '';
    await controlPlane.kubectl('label', 'secret', '--namespace', ns, name, 'audited=yes');
    const { webhooks } = await init();
    await controlPlane.kubectl('label', 'secret', '--namespace', ns, name, 'audited-');
    for (const kind of ['validatingadmissionpolicybinding', 'validatingadmissionpolicy']) {
      await controlPlane.kubectl('delete', kind, 'labelled');
    }
    expect(webhooks).toMatchObject([
      { configuration: 'ValidatingAdmissionPolicyBinding "labelled"', webhook: 'labelled', namespaces: [ns] },
    ]);
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

  it('removes identities and rights, keeps what certificates in use need, and finds nothing the second time', async () => {
    const turn = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: restartLease, spec: {} };
    await controlPlane.apply(JSON.stringify(turn));
    const { removed, kept } = await uninstall();
    expect(removed).toContain('ClusterRoleBinding "kube-cert-recovery-proofs"');
    const count = apiObjects().length;
    expect(kept).toEqual([
      'ClusterRoleBinding "kube-cert-recovery-kubelet-client", without which "kubectl logs" and "exec" are refused',
      `${count} Secrets and ConfigMaps of inventory "kubernetes", the CAs' keys among them, which ConfigMap "${ns}/kube-cert-recovery-installed-kubernetes" names`,
    ]);
    expect(removed).toContain(`Lease "${ns}/kube-apiserver-restart"`);
    expect(existsSync(join(out, 'credentials'))).toBe(false);
    const left = Object.keys(await versions()).filter((name) => !/^(Secret|ConfigMap) /.test(name));
    expect(left.filter((name) => name.includes('/kube-cert-recovery-'))).toEqual([
      'ClusterRoleBinding /kube-cert-recovery-kubelet-client',
    ]);
    // What every kubelet asks before it shows a log.
    const asked = ['auth', 'can-i', 'get', 'nodes/log', '--as=kube-apiserver-kubelet-client'];
    expect((await controlPlane.kubectl(...asked)).trim()).toBe('yes');
    expect((await controlPlane.admin(inSecrets('kube-apiserver-serving'))).status).toBe(200);
    expect((await uninstall()).removed).toEqual([]);
  });

  it('purges nothing by another inventory than the installed one', async () => {
    const kubeadm = { ...resolved, name: 'kubeadm', artefacts: [] };
    await expect(uninstall({ purge: true, resolved: kubeadm })).rejects.toThrow(
      'Cannot uninstall inventory "kubeadm": what is installed is "kubernetes"; leave out --preset and --config',
    );
  });

  it('removes the certificates, the binding and its record when it is told to purge, and need not be told which', async () => {
    const { removed, kept } = await runUninstall({ connection: admin, directory: out, purge: true, signal });
    expect(removed).toHaveLength(apiObjects().length + 2);
    expect(removed).toContain('ClusterRoleBinding "kube-cert-recovery-kubelet-client"');
    expect(removed.at(-1)).toBe(`ConfigMap "${ns}/kube-cert-recovery-installed-kubernetes"`);
    expect(kept).toEqual([]);
    await expect(runUninstall({ connection: admin, directory: out, purge: true, signal })).rejects.toThrow(
      'Cannot delete the objects of the inventory: no record tells what was installed; name one with --preset or --config',
    );
    expect((await controlPlane.admin(inSecrets('kube-apiserver-serving'))).status).toBe(404);
  });
});

describe('runInit() for a component that leaves the recovery certificate to others', () => {
  const scheduler = resolve(loadPreset('openshift-kube-scheduler'), {});
  const initScheduler = (more: { readonly recoveryServerName?: string } = {}): Promise<InitOutcome> => {
    const where = { directory: join(out, 'scheduler'), namespace: 'openshift-kube-scheduler', server };
    const options = {
      connection: admin,
      resolved: scheduler,
      recoveryServerName,
      settings: { preset: scheduler.name },
    };
    return runInit({ ...options, ...where, clock: systemClock, signal, ...more });
  };

  it('refuses CAs of kube-controller-manager that do not verify the recovery name', async () => {
    await expect(initScheduler({ recoveryServerName: 'nobody.example.com' })).rejects.toMatchObject({
      code: 'InventoryInvalid',
      message: expect.stringMatching(/do not verify .* as "nobody\.example\.com"; its --root-ca-file must/) as unknown,
    });
    expect(existsSync(join(out, 'scheduler/credentials/regen/kubeconfig'))).toBe(false);
  });

  it('leaves to the operators what it has not created, and uninstall --purge does, too', async () => {
    const manifest = (name: string) => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: operated } });
    const operated = 'openshift-kube-scheduler';
    await controlPlane.apply(JSON.stringify(manifest('kube-scheduler-client-cert-key')));
    const record = `ConfigMap "${operated}/kube-cert-recovery-installed-openshift-kube-scheduler"`;
    const where = { connection: admin, directory: join(out, 'scheduler'), signal };
    const { unchanged } = await initScheduler();
    expect(unchanged).toContain(`Secret "${operated}/kube-scheduler-client-cert-key"`);
    // Nothing stays that would have to be purged.
    const plain = await runUninstall(where);
    expect(plain.removed).toContain(record);
    expect(plain.kept).toEqual([]);
    await initScheduler();
    const { removed } = await runUninstall({ ...where, purge: true, resolved: scheduler });
    expect(removed).toContain(record);
    expect(removed.filter((what) => what.includes('client-cert-key'))).toEqual([]);
    await initScheduler();
    expect((await runUninstall({ ...where, purge: true, force: true })).removed).toContain(record);
    await expect(runUninstall({ ...where, purge: true, resolved: scheduler })).rejects.toThrow(
      'nothing tells which of its 1 Secrets and ConfigMaps init has created',
    );
    const path = `/api/v1/namespaces/${operated}/secrets/kube-scheduler-client-cert-key`;
    expect((await controlPlane.admin(path)).status).toBe(200);
    await controlPlane.kubectl('delete', 'secret', '-n', operated, 'kube-scheduler-client-cert-key');
  });

  it('writes kubeconfigs with the CAs that came with the token', async () => {
    await initScheduler();
    const kubeconfigFile = join(out, 'scheduler/credentials/syncer/kubeconfig');
    const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent });
    expect(connection.files).toContain(join(out, 'scheduler/credentials/syncer/ca.crt'));
    const path = '/api/v1/namespaces/openshift-kube-scheduler/secrets/kube-scheduler-client-cert-key';
    // It may read what is not there yet, and nothing else.
    await expect(connection.request({ method: 'GET', path, signal })).rejects.toMatchObject({ code: 'KubeNotFound' });
    const other = `${path}-of-others`;
    await expect(connection.request({ method: 'GET', path: other, signal })).rejects.toMatchObject({
      code: 'KubeForbidden',
    });
    await connection.close();
  });
});
