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

type Request = Omit<KubeRequest, 'signal'>;

/**
 * What is said of the refusal. What is not refused yet is asked for anew, as another object: the API server takes a moment
 * to see what was set up.
 */
function refusalOf(asked: (attempt: number) => Request, { by = connection, says = '' } = {}) {
  let attempt = 0;
  return eventually(async () => {
    const request = asked((attempt += 1));
    const refused = await by.request({ ...request, signal }).then(
      () => undefined,
      (err: unknown) => err as Error & { code: string },
    );
    if (refused === undefined) throw new Error(`${request.method} ${request.path} was not refused`);
    expect(refused.message).not.toContain(leak);
    expect(refused.message).toContain(says);
    return refused;
  }, soon);
}

const applying = (namespace: string, name: string, more?: object): Request => ({
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

const creating =
  (namespace: string) =>
  (attempt: number): Request =>
    applying(namespace, `new-${attempt}`);

describe('a refusal of a real API server', () => {
  it('for a quota that is used up, or not counted yet, names it', async () => {
    const name = await newNamespace();
    const quotas = `/api/v1/namespaces/${name}/resourcequotas`;
    await make(quotas, { metadata: { name: 'few' }, spec: { hard: { secrets: '1' } } });
    // What kube-controller-manager would count, had it begun, and had it ended.
    const count = async (status: object): Promise<void> => {
      const counted = { method: 'PATCH', body: { status } } as const;
      expect(await controlPlane.admin(`${quotas}/few/status`, counted)).toMatchObject({ status: 200 });
    };
    await count({ hard: { secrets: '1' } });
    const uncounted =
      'the ResourceQuota "few" of its namespace has not been counted yet; see that kube-controller-manager runs';
    expect(await refusalOf(creating(name), { says: uncounted })).toMatchObject({ code: 'KubeRejected' });
    await count({ used: { secrets: '1' } });
    const used = 'the ResourceQuota "few" of its namespace is used up; raise it, or remove what else it counts';
    expect(await refusalOf(creating(name), { says: used })).toMatchObject({ code: 'KubeRejected' });
  });

  it('in a namespace that is being deleted says so', async () => {
    const name = await newNamespace();
    // Without kube-controller-manager its end never comes.
    await controlPlane.admin(`/api/v1/namespaces/${name}`, { method: 'DELETE' });
    const says = `namespace "${name}" is being deleted; create it again when it is gone`;
    expect(await refusalOf(creating(name), { says })).toMatchObject({ code: 'KubeRejected' });
  });

  it('of what is immutable says so', async () => {
    const name = await newNamespace();
    await make(secretsOf(name), secretNamed('fixed', { immutable: true }));
    const changed = (): Request => applying(name, 'fixed', { stringData: { leak: `${leak}-2` } });
    expect(await refusalOf(changed)).toMatchObject({
      code: 'KubeRejected',
      message: `Cannot apply Secret "${name}/fixed": it is immutable; delete it, then it is created again`,
    });
  });

  it('of what has changed since says so', async () => {
    const name = await newNamespace();
    await make(secretsOf(name), secretNamed('moving'));
    const body = secretNamed('moving', { metadata: { name: 'moving', resourceVersion: '1' } });
    const says = 'it has been changed since it was read; it is looked at again, else run this again';
    const put = (): Request => ({ method: 'PUT', path: `${secretsOf(name)}/moving`, body });
    expect(await refusalOf(put, { says })).toMatchObject({ code: 'KubeConflict' });
  });

  it('because of another field manager names it', async () => {
    const name = await newNamespace();
    const data = (text: string) => ({ stringData: undefined, data: { leak: Buffer.from(text).toString('base64') } });
    await make(`${secretsOf(name)}?fieldManager=somebody`, secretNamed('shared', data(leak)));
    const changed = (): Request => applying(name, 'shared', data(`${leak}-2`));
    const says = 'the field manager "somebody" has written it too; see that it leaves the object alone';
    expect(await refusalOf(changed, { says })).toMatchObject({ code: 'KubeConflict' });
  });

  const admissionKinds = '/apis/admissionregistration.k8s.io/v1';
  const creations = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['secrets'] };
  const only = (name: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });

  it('by a policy names it', async () => {
    const name = await newNamespace();
    await make(`${admissionKinds}/validatingadmissionpolicies`, {
      metadata: { name: 'nothing-new' },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: [creations] },
        validations: [{ expression: 'false', message: leak }],
      },
    });
    await make(`${admissionKinds}/validatingadmissionpolicybindings`, {
      metadata: { name: 'nothing-new' },
      spec: {
        policyName: 'nothing-new',
        validationActions: ['Deny'],
        matchResources: { namespaceSelector: only(name) },
      },
    });
    const says = 'ValidatingAdmissionPolicy "nothing-new" denied the request; exempt the objects of the inventory';
    expect(await refusalOf(creating(name), { says })).toMatchObject({ code: 'KubeRejected' });
  });

  it('by a webhook that does not answer names it', async () => {
    const name = await newNamespace();
    await make(`${admissionKinds}/validatingwebhookconfigurations`, {
      metadata: { name: 'silent' },
      webhooks: [
        {
          name: 'silent.example.com',
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          failurePolicy: 'Fail',
          timeoutSeconds: 1,
          clientConfig: { url: 'https://127.0.0.1:1/' },
          namespaceSelector: only(name),
          rules: [creations],
        },
      ],
    });
    const says = 'admission webhook "silent.example.com" does not answer; exempt the objects of the inventory';
    expect(await refusalOf(creating(name), { says })).toMatchObject({ code: 'KubeRejected' });
  });

  it('by Pod Security names the level', async () => {
    const name = await newNamespace({ labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } });
    await make(`/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: 'default' } });
    const rooted = (attempt: number): Request => ({
      method: 'POST',
      path: `/api/v1/namespaces/${name}/pods`,
      body: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: `rooted-${attempt}` },
        spec: { containers: [{ name: 'a', image: 'a', securityContext: { privileged: true } }] },
      },
    });
    const says = 'the Pod Security level "restricted:latest" of its namespace denies it; give the namespace a level';
    expect(await refusalOf(rooted, { says })).toMatchObject({ code: 'KubeRejected' });
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
      const get = (): Request => ({ method: 'GET', path: `${secretsOf(name)}/any` });
      const user = `system:serviceaccount:${name}:poor`;
      expect(await refusalOf(get, { by: poor })).toMatchObject({
        code: 'KubeForbidden',
        message: `Cannot get Secret "${name}/any": the API server answered 403 Forbidden, user "${user}" lacks the permission; grant it by the init that made this user`,
      });
    } finally {
      await poor.close();
    }
  });
});
