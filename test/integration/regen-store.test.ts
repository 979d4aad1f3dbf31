import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock as clock } from '../../lib/clock.ts';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import type { Material, Store } from '../../lib/store/store.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { bundleMaterial, pairMaterial } from '../store/material.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const run = promisify(execFile);
const namespace = 'store-test';
const { signal } = new AbortController();

let controlPlane: ControlPlane;
let scratch: string;
let connection: KubeConnection;
let store: Store;
let first: Material;
let second: Material;
let trust: Material;
let count = 0;
let secret: LocationOf<'secret'>;
let configMap: LocationOf<'configMap'>;

interface Live {
  readonly type?: string;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly labels?: Record<string, string>;
    readonly annotations?: Record<string, string>;
    readonly managedFields: readonly { readonly manager: string; readonly operation: string }[];
  };
  readonly data: Record<string, string>;
  readonly binaryData?: Record<string, string>;
}

const path = ({ kind, name }: LocationOf<'secret' | 'configMap'>): string =>
  `/api/v1/namespaces/${namespace}/${kind === 'secret' ? 'secrets' : 'configmaps'}/${name}`;

async function live(location: LocationOf<'secret' | 'configMap'>): Promise<Live> {
  const { status, body } = await controlPlane.admin(path(location));
  expect(status).toBe(200);
  return body as Live;
}

async function version(location: LocationOf<'secret' | 'configMap'>): Promise<{ version: string }> {
  const found = await store.read(location, signal);
  if (found === undefined) throw new Error(`${location.name} is not there`);
  return { version: found.version };
}

beforeAll(async () => {
  controlPlane = await startControlPlane();
  scratch = await mkdtemp(join(tmpdir(), 'regen-store-'));
  const authority = await createAuthority(join(scratch, 'ca'), { commonName: 'ca' });
  first = await pairMaterial(await createLeaf(join(scratch, 'first'), authority, { commonName: 'first' }), { a: '1' });
  second = await pairMaterial(await createLeaf(join(scratch, 'second'), authority, { commonName: 'second' }), {
    b: '2',
  });
  trust = await bundleMaterial(authority.cert);
  await controlPlane.kubectl('create', 'namespace', namespace);
  connection = await openConnection({ kubeconfigFile: controlPlane.recoveryKubeconfig, clock, userAgent: 'test' });
  store = createApiStore({ connection, fieldManager: 'kube-cert-recovery' });
});

afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

beforeEach(() => {
  count += 1;
  secret = { kind: 'secret', namespace, name: `pair-${count}` };
  configMap = { kind: 'configMap', namespace, name: `bundle-${count}` };
});

describe('createApiStore() creates what is absent', () => {
  it('as a kubernetes.io/tls Secret and a ConfigMap, and reads back the same bytes', async () => {
    expect(await store.read(secret, signal)).toBeUndefined();
    expect(await store.write(secret, first, 'absent', signal)).toBe('written');
    expect(await store.write(configMap, trust, 'absent', signal)).toBe('written');
    const { type, metadata } = await live(secret);
    expect(type).toBe('kubernetes.io/tls');
    expect(metadata.managedFields).toMatchObject([{ manager: 'kube-cert-recovery', operation: 'Apply' }]);
    expect(await store.read(secret, signal)).toMatchObject({ ...first, version: metadata.resourceVersion });
    expect((await store.read(configMap, signal))?.entries).toEqual(trust.entries);
  });

  it('for exactly one of many that try at the same time, with the same field manager', async () => {
    const writes = Array.from({ length: 12 }, (_, i) => store.write(secret, i % 2 ? first : second, 'absent', signal));
    const outcomes = await Promise.all(writes);
    expect(outcomes.filter((outcome) => outcome === 'written')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'conflict')).toHaveLength(11);
  });

  it('and never takes over what somebody else has made', async () => {
    await controlPlane.kubectl('-n', namespace, 'create', 'secret', 'generic', secret.name, '--from-literal=k=v');
    const before = await live(secret);
    expect(await store.write(secret, first, 'absent', signal)).toBe('conflict');
    expect(await live(secret)).toEqual(before);
  });

  it('not in a namespace that is missing, and says so', async () => {
    await expect(store.write({ ...secret, namespace: 'nowhere' }, first, 'absent', signal)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: `Cannot create Secret "nowhere/${secret.name}": namespace "nowhere" does not exist; create it`,
    });
  });
});

describe('createApiStore() replaces what is there', () => {
  beforeEach(async () => {
    await store.write(secret, first, 'absent', signal);
  });

  it('and keeps entries, labels and annotations that it does not know', async () => {
    const patch = { metadata: { labels: { l: 'x' }, annotations: { kept: 'yes' } }, data: { 'ca.crt': 'Zm9v' } };
    await controlPlane.admin(path(secret), { method: 'PATCH', body: patch });
    expect(await store.write(secret, second, await version(secret), signal)).toBe('written');
    const { metadata, data } = await live(secret);
    expect(metadata.labels).toEqual({ l: 'x' });
    expect(metadata.annotations).toEqual({ kept: 'yes', a: '1', b: '2' });
    expect(data['ca.crt']).toBe('Zm9v');
    expect((await store.read(secret, signal))?.entries).toMatchObject(second.entries);
  });

  it('not when it has changed since, with or without a read of its own in between', async () => {
    const seen = await version(secret);
    await controlPlane.admin(path(secret), { method: 'PATCH', body: { metadata: { labels: { l: 'x' } } } });
    expect(await store.write(secret, second, seen, signal)).toBe('conflict');
    expect(await store.write(secret, second, seen, signal)).toBe('conflict');
    expect((await store.read(secret, signal))?.entries).toEqual(first.entries);
  });

  describe('while others change its metadata', () => {
    /** Whoever writes with this is overtaken, the first times: `change` comes between its read and its PUT. */
    const overtaken = (times: number, change: (time: number) => object): Store => {
      let done = 0;
      const request = async <T>(sent: KubeRequest): Promise<T> => {
        if (sent.method === 'PUT' && done < times) {
          done += 1;
          await controlPlane.admin(path(secret), { method: 'PATCH', body: change(done) });
        }
        return connection.request<T>(sent);
      };
      return createApiStore({ connection: { ...connection, request }, fieldManager: 'kube-cert-recovery' });
    };
    const annotated = (time: number): object => ({ metadata: { annotations: { time: String(time) } } });

    it('after a fresh read, where what was seen is still there', async () => {
      const busy = overtaken(3, annotated);
      const seen = await busy.read(secret, signal);
      if (seen === undefined) throw new Error('it is not there');
      expect(await busy.write(secret, second, seen, signal)).toBe('written');
      const { metadata } = await live(secret);
      expect(metadata.annotations).toMatchObject({ time: '3', b: '2' });
      expect((await store.read(secret, signal))?.entries).toMatchObject(second.entries);
    });

    it('not for ever', async () => {
      const busy = overtaken(1000, annotated);
      const seen = await busy.read(secret, signal);
      expect(await busy.write(secret, second, seen ?? 'absent', signal)).toBe('conflict');
    });

    it('not when its content has changed, too', async () => {
      const other = Buffer.from(second.entries[certificateKey] ?? []).toString('base64');
      const busy = overtaken(1, () => ({ data: { [certificateKey]: other } }));
      const seen = await busy.read(secret, signal);
      expect(await busy.write(secret, second, seen ?? 'absent', signal)).toBe('conflict');
    });
  });

  it('not when it has been deleted since', async () => {
    const seen = await version(secret);
    await controlPlane.admin(path(secret), { method: 'DELETE' });
    expect(await store.write(secret, second, seen, signal)).toBe('conflict');
    expect(await store.read(secret, signal)).toBeUndefined();
  });

  it('for exactly one of many that saw the same', async () => {
    const others = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const other = createApiStore({ connection, fieldManager: 'kube-cert-recovery' });
        const seen = await other.read(secret, signal);
        return () => other.write(secret, second, { version: seen?.version ?? '' }, signal);
      }),
    );
    const outcomes = await Promise.all(others.map((write) => write()));
    expect(outcomes.toSorted()).toEqual([...Array.from({ length: 5 }, () => 'conflict'), 'written']);
  });
});

describe('createApiStore() with a ConfigMap made by somebody else', () => {
  const create = async (body: Record<string, unknown>): Promise<void> => {
    const metadata = { namespace, name: configMap.name };
    const collection = `/api/v1/namespaces/${namespace}/configmaps`;
    const sent = { apiVersion: 'v1', kind: 'ConfigMap', metadata, ...body };
    expect((await controlPlane.admin(collection, { method: 'POST', body: sent })).status).toBe(201);
  };

  it('reads a bundle from binaryData and moves it to data, where it is renewed', async () => {
    const [old, other] = ['expired', 'kept'].map((value) => Buffer.from(value).toString('base64'));
    await create({ data: { note: 'x' }, binaryData: { [caBundleKey]: old, other } });
    const entries = (await store.read(configMap, signal))?.entries ?? {};
    expect(Buffer.from(entries[caBundleKey] ?? []).toString()).toBe('expired');
    expect(await store.write(configMap, trust, await version(configMap), signal)).toBe('written');
    const { data, binaryData } = await live(configMap);
    expect(binaryData).toEqual({ other });
    expect(data).toEqual({ note: 'x', [caBundleKey]: Buffer.from(trust.entries[caBundleKey] ?? []).toString() });
  });

  it('keeps a bundle as it is that is no UTF-8, and takes it back to data when it is text again', async () => {
    const comment = Buffer.from('# Zertifizierungsstelle f\xfcr alle\n', 'latin1');
    const foreign = Buffer.concat([comment, trust.entries[caBundleKey] ?? Buffer.alloc(0)]);
    await create({ data: { [caBundleKey]: 'expired', note: 'x' } });
    const next = { ...trust, entries: { [caBundleKey]: foreign } };
    expect(await store.write(configMap, next, await version(configMap), signal)).toBe('written');
    const { [caBundleKey]: written = new Uint8Array() } = (await store.read(configMap, signal))?.entries ?? {};
    expect(Buffer.from(written).equals(foreign)).toBe(true);
    expect((await live(configMap)).data).toEqual({ note: 'x' });
    expect(await store.write(configMap, trust, await version(configMap), signal)).toBe('written');
    const { data, binaryData } = await live(configMap);
    expect(binaryData).toBeUndefined();
    expect(data).toEqual({ note: 'x', [caBundleKey]: Buffer.from(trust.entries[caBundleKey] ?? []).toString() });
    await controlPlane.admin(path(configMap), { method: 'DELETE' });
    expect(await store.write(configMap, next, 'absent', signal)).toBe('written');
    expect(Buffer.from((await store.read(configMap, signal))?.entries[caBundleKey] ?? []).equals(foreign)).toBe(true);
  });

  it('says of an immutable one that it must be deleted, and creates it again then', async () => {
    await create({ data: { [caBundleKey]: 'expired' }, immutable: true });
    await expect(store.write(configMap, trust, await version(configMap), signal)).rejects.toMatchObject({
      code: 'KubeRejected',
      message: `Cannot write ConfigMap "${namespace}/${configMap.name}": it is immutable; delete it, then it is created again`,
    });
    await controlPlane.admin(path(configMap), { method: 'DELETE' });
    expect(await store.write(configMap, trust, 'absent', signal)).toBe('written');
  });
});

describe('createApiStore() refuses to send', () => {
  it.each([
    { name: 'a pair that does not match', change: () => ({ [privateKeyKey]: second.entries[privateKeyKey] }) },
    { name: 'a broken certificate', change: () => ({ [certificateKey]: Buffer.from('nonsense') }) },
    { name: 'half a pair', change: () => ({ [certificateKey]: undefined }) },
  ])('$name', async ({ change }) => {
    const entries = Object.fromEntries(
      Object.entries({ ...first.entries, ...change() }).flatMap(([key, value]) =>
        value ? [[key, value] as const] : [],
      ),
    );
    await expect(store.write(secret, { entries, annotations: {} }, 'absent', signal)).rejects.toMatchObject({
      code: 'MaterialInvalid',
      message: expect.stringContaining(`Secret "${namespace}/${secret.name}"`) as string,
    });
    expect((await controlPlane.admin(path(secret))).status).toBe(404);
  });
});

describe('createApiStore() with an admission webhook that does not answer', () => {
  const webhook = 'dead.example.org';

  beforeAll(async () => {
    const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['secrets'] };
    await controlPlane.apply(
      JSON.stringify({
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'ValidatingWebhookConfiguration',
        metadata: { name: 'dead' },
        webhooks: [
          {
            name: webhook,
            clientConfig: { url: 'https://127.0.0.1:1/' },
            failurePolicy: 'Fail',
            sideEffects: 'None',
            admissionReviewVersions: ['v1'],
            timeoutSeconds: 2,
            rules: [rule],
            namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
          },
        ],
      }),
    );
  });
  afterAll(async () => {
    await controlPlane.kubectl('delete', 'validatingwebhookconfiguration', 'dead');
  });

  it('names it in the error', async () => {
    // The configuration takes a moment to reach the admission chain: until then writes of other names succeed.
    await expect
      .poll(
        async () => {
          const other: LocationOf<'secret'> = { ...secret, name: `${secret.name}-${(count += 1)}` };
          return store.write(other, first, 'absent', signal).catch((err: unknown) => err);
        },
        { timeout: 60_000 },
      )
      .toMatchObject({ code: 'KubeRejected', message: expect.stringContaining(webhook) as string });
  });
});

describe('createApiStore() with a token that may touch named objects only', () => {
  let limited: KubeConnection;
  const methods: string[] = [];
  const allowed: LocationOf<'secret'> = { kind: 'secret', namespace, name: 'allowed' };

  beforeAll(async () => {
    await controlPlane.kubectl('-n', namespace, 'create', 'serviceaccount', 'limited');
    const verbs = ['get', 'create', 'update', 'patch'].map((verb) => `--verb=${verb}`);
    const named = ['--resource=secrets', `--resource-name=${allowed.name}`];
    await controlPlane.kubectl('-n', namespace, 'create', 'role', 'limited', ...named, ...verbs);
    const bound = ['--role=limited', `--serviceaccount=${namespace}:limited`];
    await controlPlane.kubectl('-n', namespace, 'create', 'rolebinding', 'limited', ...bound);
    const token = (await controlPlane.kubectl('-n', namespace, 'create', 'token', 'limited')).trim();
    const kubeconfigFile = await writeKubeconfig(join(scratch, 'limited.kubeconfig'), {
      server: controlPlane.url,
      certificateAuthority: controlPlane.recoveryCa,
      tlsServerName: 'localhost-recovery',
      token,
    });
    const real = await openConnection({ kubeconfigFile, clock, userAgent: 'test' });
    limited = {
      server: real.server,
      files: real.files,
      request: <T>(request: KubeRequest): Promise<T> => {
        methods.push(request.method);
        return real.request<T>(request);
      },
      watch: (...args) => real.watch(...args),
      turn: (stop) => real.turn(stop),
      reload: () => real.reload(),
      close: () => real.close(),
    };
  });
  afterAll(() => limited?.close());

  it('creates and replaces the named one without a POST', async () => {
    const narrow = createApiStore({ connection: limited, fieldManager: 'kube-cert-recovery' });
    await expect
      .poll(() => narrow.read(allowed, signal).catch((err: unknown) => err), { timeout: 60_000 })
      .toBeUndefined();
    expect(await narrow.write(allowed, first, 'absent', signal)).toBe('written');
    const found = await narrow.read(allowed, signal);
    expect(await narrow.write(allowed, second, { version: found?.version ?? '' }, signal)).toBe('written');
    expect(methods).not.toContain('POST');
    expect(methods).toEqual(expect.arrayContaining(['GET', 'PATCH', 'PUT']));
  });

  it('is refused every other name', async () => {
    const narrow = createApiStore({ connection: limited, fieldManager: 'kube-cert-recovery' });
    await expect(narrow.read(secret, signal)).rejects.toMatchObject({ code: 'KubeForbidden' });
    await expect(narrow.write(secret, first, 'absent', signal)).rejects.toMatchObject({ code: 'KubeForbidden' });
    await store.write(secret, first, 'absent', signal);
    const { version: resourceVersion } = await version(secret);
    await expect(narrow.write(secret, second, { version: resourceVersion }, signal)).rejects.toMatchObject({
      code: 'KubeForbidden',
    });
  });
});

it('createApiStore() writes what openssl can read', async () => {
  await store.write(secret, first, 'absent', signal);
  const { data } = await live(secret);
  const pem = Buffer.from(data[certificateKey] ?? '', 'base64').toString();
  const child = run('openssl', ['x509', '-noout', '-subject']);
  child.child.stdin?.end(pem);
  expect((await child).stdout).toContain('first');
});
