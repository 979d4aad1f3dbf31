// Lists of objects that are as large as whoever made them wanted, from a real kube-apiserver: what is too large for one
// answer is refused unread, and comes in pages.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { isCode } from '../../lib/errors.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { list } from '../../lib/kube/list.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';

const collection = '/api/v1/namespaces/default/configmaps';
const large = `${collection}?labelSelector=size%3Dlarge`;
const { signal } = new AbortController();
const names = Array.from({ length: 13 }, (_, count) => `large-${String(count).padStart(2, '0')}`);

let controlPlane: ControlPlane;
let connection: KubeConnection;
beforeAll(async () => {
  // What the API server forgets after five minutes is forgotten in ten seconds.
  const flags = { 'kube-apiserver': { 'etcd-compaction-interval': '10s' } };
  controlPlane = await startControlPlane({ flags });
  const { recoveryKubeconfig: kubeconfigFile } = controlPlane;
  connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  for (const name of names) await create(name, 'x'.repeat(1_000_000));
});
afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
});

async function create(name: string, text: string, size = 'large'): Promise<void> {
  const body = { metadata: { name, labels: { size } }, data: { text } };
  expect(await controlPlane.admin(collection, { method: 'POST', body })).toMatchObject({ status: 201 });
}

interface Named {
  readonly metadata: { readonly name: string };
}

const pages = { size: 12, keep: ({ metadata: { name } }: Named) => (name === 'large-05' ? undefined : name) };
const kept = names.filter((name) => name !== 'large-05');

/** The connection, with what is asked over it; `before` each request. */
function recording(asked: URLSearchParams[], before: () => Promise<void> = () => Promise.resolve()): KubeConnection {
  return {
    ...connection,
    server: connection.server,
    files: connection.files,
    async request<T>(request: KubeRequest): Promise<T> {
      asked.push(new URL(request.path, 'https://api').searchParams);
      await before();
      return connection.request<T>(request);
    },
  };
}

const codeOf = (path: string): Promise<string> =>
  connection.request({ method: 'GET', path, signal }).then(
    () => 'none',
    (err: unknown) => (isCode(err, 'WatchExpired') ? 'WatchExpired' : String(err)),
  );

describe('an answer', () => {
  it('above 10 MiB is refused, and the connection goes on', async () => {
    const refused = connection.request({ method: 'GET', path: large, signal });
    await expect(refused).rejects.toMatchObject({
      code: 'KubeUnavailable',
      message: expect.stringContaining('Cannot list ConfigMap "default": the answer is too large'),
      details: { tooLarge: true },
    });
    await connection.request({ method: 'GET', path: `${collection}/${names[0]}`, signal });
  });

  it('above the limit of its request is refused, one below it is read, and the connection goes on', async () => {
    await create('small', 'x'.repeat(10_000), 'small');
    const read = (name: string): Promise<unknown> =>
      connection.request({ method: 'GET', path: `${collection}/${name}`, mostBytes: 65_536, signal });
    await expect(read(names[0] ?? '')).rejects.toMatchObject({ code: 'KubeUnavailable', details: { tooLarge: true } });
    expect(await read('small')).toMatchObject({ metadata: { name: 'small' } });
  });

  it('with the largest object that there can be is read', async () => {
    await create('escaped', '<'.repeat(1_040_000), 'escaped');
    const found = await connection.request<{ readonly data: { readonly text: string } }>({
      method: 'GET',
      path: `${collection}/escaped`,
      signal,
    });
    expect(found.data.text).toHaveLength(1_040_000);
  });
});

describe('list()', () => {
  it('halves the pages that are too large, and keeps what it is told to keep', async () => {
    const asked: URLSearchParams[] = [];
    const found = await list<Named, string>({ connection: recording(asked), path: large, pages, signal });
    expect(found.objects).toEqual(kept);
    expect(asked.map((query) => query.get('limit'))).toEqual(['12', '6', '6', '6']);
    expect(asked.map((query) => query.has('continue'))).toEqual([false, false, true, true]);
    expect(Number(found.resourceVersion)).toBeGreaterThan(0);
  });

  it('begins again when the version of its first page is forgotten', async () => {
    const asked: URLSearchParams[] = [];
    const forgotten = async (): Promise<void> => {
      const from = asked.at(-1)?.get('continue') ?? '';
      if (from === '' || asked.length > 3) return;
      await eventually(async () => {
        await controlPlane.admin(collection, { method: 'POST', body: { metadata: { generateName: 'more-' } } });
        expect(await codeOf(`${large}&limit=1&continue=${encodeURIComponent(from)}`)).toBe('WatchExpired');
      });
    };
    const found = await list<Named, string>({ connection: recording(asked, forgotten), path: large, pages, signal });
    expect(found.objects).toEqual(kept);
    expect(asked.map((query) => query.has('continue'))).toEqual([false, false, true, false, false, true, true]);
  });

  it('asks for no more once it has enough', async () => {
    const kinds: [keep: string, read: number, objects: string[], requests: number][] = [
      ['large-05', 100, ['large-05'], 2],
      ['none', 7, [], 2],
      ['none', 100, [], 3],
    ];
    for (const [wanted, read, objects, requests] of kinds) {
      const asked: URLSearchParams[] = [];
      const keep = ({ metadata: { name } }: Named) => (name === wanted ? name : undefined);
      const few = { size: 5, keep, enough: { read } };
      const found = await list<Named, string>({ connection: recording(asked), path: large, pages: few, signal });
      expect(found.objects).toEqual(objects);
      expect(asked, `${wanted} ${read}`).toHaveLength(requests);
    }
  });
});
