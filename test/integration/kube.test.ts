// The connection to a real kube-apiserver: its few HTTP/2 connections, whom it trusts, what becomes of changed
// credentials, how failures read, and that nothing is sent twice.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { RecoveryError } from '../../lib/errors.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { ConnectionOptions } from '../../lib/kube/connection.ts';
import { EventRecorder } from '../../lib/kube/events.ts';
import type { ConfigMap, KubeConnection, WatchEvent } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { startControlPlane } from '../support/cluster/control-plane.ts';
import type { ControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { startFaultProxy } from '../support/faults/fault-proxy.ts';
import type { FaultProxy } from '../support/faults/fault-proxy.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

const { signal } = new AbortController();
const configMaps = '/api/v1/namespaces/default/configmaps';
const serverName = 'localhost-recovery';
const log = createLog({ write: () => undefined });

let cp: ControlPlane;
let directory: string;
let proxy: FaultProxy;
const connections: KubeConnection[] = [];
let files = 0;

beforeAll(async () => {
  cp = await startControlPlane();
  directory = await mkdtemp(join(tmpdir(), 'kube-test-'));
  await cp.admin(configMaps, { method: 'POST', body: { metadata: { name: 'first' } } });
});
afterAll(async () => {
  await cp[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});
beforeEach(async () => {
  proxy = await startFaultProxy({ target: { port: cp.port, caFile: cp.recoveryCa, serverName } });
  return async () => {
    await Promise.all(connections.splice(0).map((each) => each.close()));
    await proxy.close();
  };
});

const newFile = (): string => join(directory, `file-${(files += 1)}`);

async function open(options: ConnectionOptions): Promise<KubeConnection> {
  const connection = await openConnection(options);
  connections.push(connection);
  return connection;
}

/** A connection through the proxy, as admin. */
async function throughProxy(extra: Partial<ConnectionOptions> = {}): Promise<KubeConnection> {
  const kubeconfigFile = await writeKubeconfig(newFile(), {
    server: proxy.url,
    certificateAuthority: proxy.ca,
    tlsServerName: serverName,
    token: cp.adminToken,
  });
  return open({ kubeconfigFile, clock: systemClock, userAgent: 'test', ...extra });
}

const direct = async (certificateAuthority: string, tlsServerName?: string): Promise<KubeConnection> => {
  const kubeconfigFile = await writeKubeconfig(newFile(), {
    server: cp.url,
    certificateAuthority,
    token: cp.adminToken,
    ...(tlsServerName !== undefined && { tlsServerName }),
  });
  return open({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
};

const get = (connection: KubeConnection, path: string, timeoutMs = 10_000): Promise<unknown> =>
  connection.request({ method: 'GET', path, timeoutMs, signal });

const errorOf = (promise: Promise<unknown>): Promise<RecoveryError> =>
  promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (err: unknown) => err as RecoveryError,
  );

interface Watching {
  readonly events: WatchEvent[];
  readonly end: Promise<'ended' | RecoveryError>;
}

function watch(connection: KubeConnection, query: string, until: AbortSignal = signal, silenceMs = 60_000): Watching {
  const events: WatchEvent[] = [];
  const read = async (): Promise<'ended' | RecoveryError> => {
    try {
      for await (const event of connection.watch(`${configMaps}?watch=true&${query}`, { silenceMs, signal: until })) {
        events.push(event);
      }
      return 'ended';
    } catch (err) {
      return err as RecoveryError;
    }
  };
  return { events, end: read() };
}

const started = ({ events }: Watching): Promise<void> =>
  eventually(() => {
    if (events.length === 0) throw new Error('the watch has said nothing yet');
  });

const create = (connection: KubeConnection, name: string): Promise<unknown> =>
  connection.request({ method: 'POST', path: configMaps, body: { metadata: { name } }, signal });

describe('connections', () => {
  it('carry 80 watches each, over HTTP/2, and requests go over another', async () => {
    const connection = await throughProxy();
    await get(connection, '/api/v1/namespaces/default');
    expect(proxy.connections.accepted).toBe(1);
    const stop = new AbortController();
    const first = Array.from({ length: 14 }, () => watch(connection, '', stop.signal));
    await Promise.all(first.map(started));
    expect(proxy.connections).toEqual({ open: 2, accepted: 2 });
    const more = Array.from({ length: 70 }, () => watch(connection, '', stop.signal));
    await Promise.all(more.map(started));
    expect(proxy.connections).toEqual({ open: 3, accepted: 3 });
    stop.abort();
    expect(new Set(await Promise.all([...first, ...more].map(({ end }) => end)))).toEqual(new Set(['ended']));
    await connection.close();
    await eventually(() => expect(proxy.connections.open).toBe(0));
  });

  it('are opened again after GOAWAY, without a lost or repeated write', async () => {
    const connection = await throughProxy();
    await create(connection, 'goaway');
    for (const code of [0, 2]) {
      const writes = Array.from({ length: 20 }, (_, index) =>
        connection
          .request({
            method: 'PATCH',
            path: `${configMaps}/goaway`,
            contentType: 'application/merge-patch+json',
            body: { data: { [`key-${code}-${index}`]: 'x' } },
            signal,
          })
          .then(() => index),
      );
      await proxy.inject({ kind: 'goAway', code });
      const outcomes = await Promise.allSettled(writes);
      const { body } = await cp.admin(`${configMaps}/goaway`);
      const data = (body as { data?: Record<string, string> }).data ?? {};
      for (const [index, outcome] of outcomes.entries()) {
        if (outcome.status === 'fulfilled') expect(data).toHaveProperty(`key-${code}-${index}`);
        else expect((outcome.reason as RecoveryError).code).toBe('KubeUnavailable');
      }
      await get(connection, `${configMaps}/goaway`);
    }
    expect(proxy.seen.filter(({ method }) => method === 'PATCH').length).toBeLessThanOrEqual(40);
  });

  it('lose the answer to a write and do not send it again', async () => {
    const connection = await throughProxy();
    await proxy.inject({ kind: 'loseAnswer', match: ({ method }) => method === 'POST' });
    const err = await errorOf(create(connection, 'lost-answer'));
    expect(err.code).toBe('KubeUnavailable');
    await proxy.clear();
    await get(connection, `${configMaps}/lost-answer`);
    expect(proxy.seen.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  it('are replaced when a request gets no answer in time', async () => {
    const connection = await throughProxy();
    await get(connection, '/version');
    await proxy.inject({ kind: 'stall' });
    const err = await errorOf(get(connection, '/version', 200));
    expect(err.message).toContain('Cannot get "/version": no answer within 200 ms');
    const before = proxy.connections.accepted;
    await errorOf(
      connection.request({
        method: 'POST',
        path: configMaps,
        body: { metadata: { name: 'late' } },
        timeoutMs: 200,
        signal,
      }),
    );
    expect(proxy.connections.accepted).toBe(before + 1);
    await proxy.clear();
    await get(connection, '/version');
    await eventually(() => expect(proxy.connections.open).toBe(1)); // the replaced ones ended by themselves
    expect(proxy.seen.filter(({ method }) => method === 'POST')).toEqual([]);
  });

  it('are given up when PINGs stay without answer, and the watches on them with them', async () => {
    const connection = await throughProxy({ pingMs: 100 });
    const watching = watch(connection, '');
    await started(watching);
    await proxy.inject({ kind: 'stall' });
    const end = await watching.end;
    expect(end).toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringMatching(/^Cannot watch ConfigMap "default": .*silent for 300/),
    });
  });
});

const at = (daysAgo: number): Date => new Date(Date.now() - daysAgo * 86_400_000);

describe('a server without HTTP/2', () => {
  it('gets a connection for each watch', async () => {
    const flags = { 'kube-apiserver': { 'disable-http2-serving': 'true' } };
    await using old = await startControlPlane({ flags });
    const { recoveryKubeconfig: kubeconfigFile } = old;
    const connection = await open({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
    await old.admin(configMaps, { method: 'POST', body: { metadata: { name: 'first' } } });
    const attempts = Array.from({ length: 5 }, () =>
      eventually(async () => {
        const stop = new AbortController();
        const watching = watch(connection, '', stop.signal);
        const first = await Promise.race([started(watching).then(() => 'started'), watching.end]);
        expect(first).toBe('started');
        return { watching, stop };
      }),
    );
    const all = await Promise.all(attempts);
    await get(connection, '/version');
    await old.admin(configMaps, { method: 'POST', body: { metadata: { name: 'second' } } });
    await eventually(() => expect(all.map(({ watching }) => watching.events.length)).toEqual([2, 2, 2, 2, 2]));
    for (const { stop } of all) stop.abort();
    await connection.close();
  });
});

describe('trust', () => {
  it('is for the name asked for by SNI', async () => {
    await get(await direct(cp.recoveryCa, serverName), '/version');
    await get(await direct(cp.servingCa), '/version');
    const other = await errorOf(get(await direct(cp.servingCa, serverName), '/version'));
    expect(other).toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringMatching(/not signed by a CA of the kubeconfig/),
    });
    const wrongName = await errorOf(get(await direct(cp.servingCa, 'elsewhere.example'), '/version'));
    expect(wrongName).toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringMatching(/is not for the name "elsewhere.example"/),
    });
  });

  it('is refused to an expired certificate', async () => {
    const target = { port: cp.port, caFile: cp.recoveryCa, serverName };
    await using expired = await startFaultProxy({ target, validity: { notBefore: at(2), notAfter: at(1) } });
    const kubeconfigFile = await writeKubeconfig(newFile(), {
      server: expired.url,
      certificateAuthority: expired.ca,
      tlsServerName: serverName,
      token: cp.adminToken,
    });
    const err = await errorOf(get(await open({ kubeconfigFile, clock: systemClock, userAgent: 'test' }), '/version'));
    expect(err).toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringMatching(/certificate, or a CA above it, has expired/),
    });
    expect(expired.seen).toEqual([]);
  });
});

const withTokenFile = async (tokenFile: string, clock = systemClock): Promise<KubeConnection> => {
  const kubeconfigFile = newFile();
  const config = {
    clusters: [
      { name: 'c', cluster: { server: proxy.url, 'certificate-authority': proxy.ca, 'tls-server-name': serverName } },
    ],
    users: [{ name: 'u', user: { tokenFile } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  await writeFile(kubeconfigFile, JSON.stringify(config));
  return open({ kubeconfigFile, clock, userAgent: 'test' });
};

describe('credentials', () => {
  it('are read again on 401, at most once a second', async () => {
    const tokenFile = newFile();
    await writeFile(tokenFile, 'stale\n');
    let now = systemClock.now();
    const connection = await withTokenFile(tokenFile, { ...systemClock, now: () => now });
    expect(await errorOf(get(connection, '/api/v1/namespaces'))).toMatchObject({ code: 'KubeUnauthorized' });
    await writeFile(tokenFile, `${cp.adminToken}\n`);
    expect(await errorOf(get(connection, '/api/v1/namespaces'))).toMatchObject({ code: 'KubeUnauthorized' });
    now = new Date(now.getTime() + 1000);
    await get(connection, '/api/v1/namespaces');
  });

  it('that changed on disk are in force after reload(), and end the watches that used others', async () => {
    const tokenFile = newFile();
    await writeFile(tokenFile, cp.adminToken);
    const connection = await withTokenFile(tokenFile);
    const watching = watch(connection, '');
    await started(watching);
    expect(await connection.reload()).toBe('unchanged');
    await writeFile(tokenFile, 'revoked');
    expect(await connection.reload()).toBe('changed');
    expect(await watching.end).toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringMatching(/credentials on disk changed/),
    });
    expect(await errorOf(get(connection, '/api/v1/namespaces'))).toMatchObject({ code: 'KubeUnauthorized' });
  });

  it('that cannot be used now leave those in force', async () => {
    const tokenFile = newFile();
    await writeFile(tokenFile, cp.adminToken);
    const connection = await withTokenFile(tokenFile);
    await rm(tokenFile);
    await expect(connection.reload()).rejects.toMatchObject({ code: 'ConfigInvalid' });
    await get(connection, '/api/v1/namespaces');
  });
});

describe('answers', () => {
  it('are translated, with verb and object', async () => {
    const connection = await direct(cp.recoveryCa, serverName);
    await create(connection, 'twice');
    const made = (await get(connection, `${configMaps}/twice`)) as ConfigMap;
    const resourceVersion = made.metadata?.resourceVersion;
    const stale = { metadata: { name: 'twice', resourceVersion: '1' } };
    const put = (body: unknown): Promise<unknown> =>
      connection.request({ method: 'PUT', path: `${configMaps}/twice`, body, signal });
    const found = await Promise.all([
      errorOf(get(connection, `${configMaps}/absent`)),
      errorOf(put(stale)),
      errorOf(put({ metadata: { name: 'other', resourceVersion } })),
      errorOf(put({ metadata: { name: 'twice', resourceVersion }, data: { '../x': 'LEAK' } })),
      errorOf(put({ metadata: { name: 'twice' } })),
      errorOf(put({ metadata: { name: 'twice', resourceVersion: '' } })),
    ]);
    expect(found.map(({ code, message }) => `${code}: ${message}`)).toEqual([
      'KubeNotFound: Cannot get ConfigMap "default/absent": the API server answered 404 NotFound',
      'KubeConflict: Cannot update ConfigMap "default/twice": the API server answered 409 Conflict, it has been changed since it was read; it is looked at again, else run this again',
      'KubeRejected: Cannot update ConfigMap "default/twice": the API server answered 400 BadRequest',
      expect.stringMatching(/^KubeRejected: .* 422 Invalid, data\[\.\.\/x\]: FieldValueInvalid$/),
      'KubeWrongAnswer: Cannot update ConfigMap "default/twice": it was read without a resourceVersion',
      'KubeWrongAnswer: Cannot update ConfigMap "default/twice": it was read without a resourceVersion',
    ]);
  });

  it('name the webhook that stands in the way', async () => {
    const connection = await direct(cp.recoveryCa, serverName);
    const webhooks = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
    const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }];
    const webhook = {
      name: 'dead.example.com',
      rules,
      matchConditions: [{ name: 'ours', expression: "object.metadata.name == 'hooked'" }],
      clientConfig: { url: 'https://127.0.0.1:1/' },
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
      timeoutSeconds: 1,
    };
    await cp.admin(webhooks, { method: 'POST', body: { metadata: { name: 'dead' }, webhooks: [webhook] } });
    await eventually(async () => {
      await cp.admin(`${configMaps}/hooked`, { method: 'DELETE' }); // the API server learns of the webhook in its own time
      const err = await errorOf(create(connection, 'hooked'));
      expect(err).toMatchObject({
        code: 'KubeRejected',
        message: expect.stringMatching(/webhook "dead.example.com" does not answer/),
      });
    });
    await cp.admin(`${webhooks}/dead`, { method: 'DELETE' });
  });

  it('to a watch from a version that the server has forgotten are WatchExpired or an ERROR event of 410', async () => {
    await cp.restartComponent('kube-apiserver'); // its memory of versions begins again
    const watching = watch(await direct(cp.recoveryCa, serverName), 'resourceVersion=1');
    await Promise.race([started(watching).catch(() => undefined), watching.end]);
    const [first] = watching.events;
    if (first === undefined) expect(await watching.end).toMatchObject({ code: 'WatchExpired' });
    else expect(first).toMatchObject({ type: 'ERROR', object: { code: 410 } });
  });
});

describe('watch()', () => {
  it.each([
    ['cut off in the middle of an event', { kind: 'unexpectedEof', of: 'stream' }, /ended in the middle of an event/],
    ['whose connection is lost', { kind: 'unexpectedEof' }, /connection closed/],
    ['that holds a line which is no JSON', { kind: 'garbage', times: 1 }, /the server sent no JSON/],
  ] as const)('fails for a stream %s', async (_, fault, message) => {
    const connection = await throughProxy();
    const watching = watch(connection, '');
    await started(watching);
    await proxy.inject(fault);
    await cp.admin(configMaps, { method: 'POST', body: { metadata: { generateName: 'cut-' } } });
    expect(await watching.end).toMatchObject({ code: 'KubeUnavailable', message: expect.stringMatching(message) });
  });

  it('passes on text that Node takes for line ends and JSON does not', async () => {
    const connection = await throughProxy();
    const watching = watch(connection, 'fieldSelector=metadata.name%3Dseparators');
    const data = { text: 'a\u2028b\u2029c\u0085d\re' };
    await eventually(() => expect(proxy.seen.length).toBeGreaterThan(0));
    await cp.admin(configMaps, { method: 'POST', body: { metadata: { name: 'separators' }, data } });
    await started(watching);
    expect(watching.events[0]).toMatchObject({ type: 'ADDED', object: { data } });
  });

  it('fails after silence, and returns at once when it is stopped before the server answers', async () => {
    const connection = await throughProxy();
    const silent = watch(connection, 'fieldSelector=metadata.name%3Dnobody', signal, 300);
    expect(await silent.end).toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringMatching(/nothing was heard for 300 ms/),
    });
    await proxy.inject({ kind: 'stall' });
    const stop = new AbortController();
    const stopped = watch(connection, '', stop.signal);
    stop.abort();
    expect(await stopped.end).toBe('ended');
  });
});

describe('events', () => {
  it('wait while the API is away, then arrive once each; the oldest make room', async () => {
    const connection = await throughProxy();
    const recorder = new EventRecorder({ connection, clock: systemClock, log, instance: 'test-host', limit: 3 });
    const stop = new AbortController();
    await proxy.inject({ kind: 'refused' });
    const running = recorder.run(stop.signal);
    const regarding = { kind: 'Secret', namespace: 'default', name: 'serving' } as const;
    for (const note of ['one', 'two', 'three', 'four']) {
      recorder.record({ type: 'Normal', reason: 'CertificateUpdated', regarding, note });
    }
    await proxy.inject({ kind: 'loseAnswer', times: 1 }); // it is taken, and nobody learns of it
    const stored = async (): Promise<string[]> => {
      const { body } = await cp.admin('/apis/events.k8s.io/v1/namespaces/default/events');
      const { items } = body as { items: { note: string; reportingController: string; reason: string }[] };
      const ours = items.filter(({ reportingController }) => reportingController === 'kube-cert-recovery');
      return ours.map(({ note, reason }) => `${reason} ${note}`).toSorted();
    };
    const kept = ['four', 'three', 'two'].map((note) => `CertificateUpdated ${note}`);
    await eventually(async () => expect(await stored()).toEqual(kept));
    stop.abort();
    await running;
  });
});
