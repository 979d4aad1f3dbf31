// What a real API server refuses, and what is said of it: the cause, and the one thing to do, never its free text.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';

let controlPlane: ControlPlane;
let scratch: string;
let connection: KubeConnection;
const { signal } = new AbortController();
/** A server does all this within moments. */
const soon = { withinMs: 60_000 };

const leak = 'a-value-that-nobody-may-read';
const secretsOf = (namespace: string): string => `/api/v1/namespaces/${namespace}/secrets`;
const secretNamed = (name: string, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  stringData: { leak },
  ...more,
});

/** Throws unless it is made. */
async function make(path: string, body: object): Promise<void> {
  expect(await controlPlane.admin(path, { method: 'POST', body })).toMatchObject({ status: 201 });
}

/** What is said of the refusal; a request that succeeds is asked for again, as caches of an API server take a moment. */
function refusalOf(request: Omit<KubeRequest, 'signal'>, by = connection): Promise<Error & { code: string }> {
  return eventually(async () => {
    const refused = await by.request({ ...request, signal }).then(
      () => undefined,
      (err: unknown) => err as Error & { code: string },
    );
    if (refused === undefined) throw new Error(`${request.method} ${request.path} was not refused`);
    expect(refused.message).not.toContain(leak);
    return refused;
  }, soon);
}

const creating = (namespace: string, name: string, more?: object): Omit<KubeRequest, 'signal'> => ({
  method: 'PATCH',
  path: `${secretsOf(namespace)}/${name}?fieldManager=test`,
  contentType: 'application/apply-patch+yaml',
  body: secretNamed(name, more),
});

beforeAll(async () => {
  controlPlane = await startControlPlane();
  scratch = await mkdtemp(join(tmpdir(), 'refusals-'));
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
});
afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

let namespaces = 0;
async function newNamespace(metadata: object = {}): Promise<string> {
  const name = `refusing-${(namespaces += 1)}`;
  await make('/api/v1/namespaces', { metadata: { name, ...metadata } });
  return name;
}

describe('a refusal of a real API server', () => {
  it('for a quota that is used up names it', async () => {
    const name = await newNamespace();
    const quotas = `/api/v1/namespaces/${name}/resourcequotas`;
    await make(quotas, { metadata: { name: 'few' }, spec: { hard: { secrets: '1' } } });
    const uncounted = await refusalOf(creating(name, 'uncounted'));
    expect(uncounted).toMatchObject({
      code: 'KubeRejected',
      message: `Cannot apply Secret "${name}/uncounted": the ResourceQuota "few" of its namespace has not been counted yet; see that kube-controller-manager runs`,
    });
    // What kube-controller-manager would count.
    const status = { hard: { secrets: '1' }, used: { secrets: '1' } };
    const counted = { method: 'PATCH', body: { status } } as const;
    expect(await controlPlane.admin(`${quotas}/few/status`, counted)).toMatchObject({ status: 200 });
    await eventually(async () => {
      expect(await refusalOf(creating(name, 'late'))).toMatchObject({
        code: 'KubeRejected',
        message: `Cannot apply Secret "${name}/late": the ResourceQuota "few" of its namespace is used up; raise it, or remove what else it counts`,
      });
    }, soon);
  });

  it('in a namespace that is being deleted says so', async () => {
    const name = await newNamespace();
    // Without kube-controller-manager its end never comes.
    await controlPlane.admin(`/api/v1/namespaces/${name}`, { method: 'DELETE' });
    expect(await refusalOf(creating(name, 'late'))).toMatchObject({
      code: 'KubeRejected',
      message: `Cannot apply Secret "${name}/late": namespace "${name}" is being deleted; create it again when it is gone`,
    });
  });

  it('of what is immutable says so', async () => {
    const name = await newNamespace();
    await make(secretsOf(name), secretNamed('fixed', { immutable: true }));
    const changed = { stringData: { leak: `${leak}-2` } };
    expect(await refusalOf(creating(name, 'fixed', changed))).toMatchObject({
      code: 'KubeRejected',
      message: `Cannot apply Secret "${name}/fixed": it is immutable; delete it, then it is created again`,
    });
  });

  it('of what has changed since says so', async () => {
    const name = await newNamespace();
    await make(secretsOf(name), secretNamed('moving'));
    const body = secretNamed('moving', { metadata: { name: 'moving', resourceVersion: '1' } });
    const refused = await refusalOf({ method: 'PUT', path: `${secretsOf(name)}/moving`, body });
    expect(refused).toMatchObject({ code: 'KubeConflict' });
    expect(refused.message).toContain(
      'it has been changed since it was read; it is looked at again, else run this again',
    );
  });

  it('because of another field manager names it', async () => {
    const name = await newNamespace();
    await controlPlane.admin(`${secretsOf(name)}?fieldManager=somebody`, {
      method: 'POST',
      body: { ...secretNamed('shared'), stringData: undefined, data: { leak: Buffer.from(leak).toString('base64') } },
    });
    const changed = { stringData: undefined, data: { leak: Buffer.from(`${leak}-2`).toString('base64') } };
    const refused = await refusalOf(creating(name, 'shared', changed));
    expect(refused).toMatchObject({ code: 'KubeConflict' });
    expect(refused.message).toContain(
      'the field manager "somebody" has written it too; see that it leaves the object alone',
    );
  });

  it('by a policy names it', async () => {
    const name = await newNamespace();
    const kinds = '/apis/admissionregistration.k8s.io/v1';
    await make(`${kinds}/validatingadmissionpolicies`, {
      metadata: { name: 'nothing-new' },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['secrets'] }],
        },
        validations: [{ expression: 'false', message: leak }],
      },
    });
    await make(`${kinds}/validatingadmissionpolicybindings`, {
      metadata: { name: 'nothing-new' },
      spec: {
        policyName: 'nothing-new',
        validationActions: ['Deny'],
        matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } } },
      },
    });
    let count = 0;
    await eventually(async () => {
      const refused = await connection
        .request({ ...creating(name, `new-${(count += 1)}`), signal })
        .catch((err: unknown) => err);
      expect(refused).toMatchObject({ code: 'KubeRejected' });
      expect((refused as Error).message).toContain(
        'ValidatingAdmissionPolicy "nothing-new" denied the request; exempt',
      );
      expect((refused as Error).message).not.toContain(leak);
    }, soon);
  });

  it('by a webhook that does not answer names it', async () => {
    const name = await newNamespace();
    await make('/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations', {
      metadata: { name: 'silent' },
      webhooks: [
        {
          name: 'silent.example.com',
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          failurePolicy: 'Fail',
          timeoutSeconds: 1,
          clientConfig: { url: 'https://127.0.0.1:1/' },
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['secrets'] }],
        },
      ],
    });
    let count = 0;
    await eventually(async () => {
      const refused = await connection
        .request({ ...creating(name, `new-${(count += 1)}`), signal })
        .catch((err: unknown) => err);
      expect(refused).toMatchObject({ code: 'KubeRejected' });
      expect((refused as Error).message).toContain('admission webhook "silent.example.com" does not answer; exempt');
    }, soon);
  });

  it('by Pod Security names the level', async () => {
    const name = await newNamespace({ labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } });
    await make(`/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: 'default' } });
    const pod = {
      metadata: { name: 'rooted' },
      spec: { containers: [{ name: 'a', image: 'a', securityContext: { privileged: true } }] },
    };
    const refused = await refusalOf({ method: 'POST', path: `/api/v1/namespaces/${name}/pods`, body: pod });
    expect(refused).toMatchObject({
      code: 'KubeRejected',
      message: `Cannot create Pod "${name}": the Pod Security level "restricted:latest" of its namespace denies it; give the namespace a level that allows it`,
    });
  });

  it('for a right that is missing names the user, and who grants it', async () => {
    const name = await newNamespace();
    const accounts = `/api/v1/namespaces/${name}/serviceaccounts`;
    await make(accounts, { metadata: { name: 'poor' } });
    const { body } = await controlPlane.admin(`${accounts}/poor/token`, { method: 'POST', body: { spec: {} } });
    const kubeconfigFile = await writeKubeconfig(join(scratch, 'poor'), {
      server: controlPlane.url,
      certificateAuthority: controlPlane.recoveryCa,
      tlsServerName: 'localhost-recovery',
      token: (body as { status: { token: string } }).status.token,
    });
    const poor = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
    try {
      const refused = await refusalOf({ method: 'GET', path: `${secretsOf(name)}/any` }, poor);
      expect(refused).toMatchObject({ code: 'KubeForbidden' });
      expect(refused.message).toBe(
        `Cannot get Secret "${name}/any": the API server answered 403 Forbidden, user "system:serviceaccount:${name}:poor" lacks the permission; grant it by the init that made this user`,
      );
    } finally {
      await poor.close();
    }
  });
});
