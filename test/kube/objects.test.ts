import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { namedListPath, objectPath, watchVersion } from '../../lib/kube/objects.ts';
import { createLog } from '../../lib/log.ts';

it.each([
  ['secret', 'secrets'],
  ['configMap', 'configmaps'],
] as const)('paths of a %s: what a name may not hold stays in the name', (kind, resource) => {
  expect(objectPath({ kind, namespace: 'a', name: 'b' })).toBe(`/api/v1/namespaces/a/${resource}/b`);
  expect(objectPath({ kind, namespace: 'a/b', name: '../c' })).toBe(`/api/v1/namespaces/a%2Fb/${resource}/..%2Fc`);
  expect(namedListPath({ kind, namespace: 'a', name: 'b,c' })).toBe(
    `/api/v1/namespaces/a/${resource}?fieldSelector=metadata.name%3Db%2Cc`,
  );
});

it.each([
  [{ rows: null }, undefined],
  [{ rows: [] }, undefined],
  [{ rows: [{ cells: ['b'], object: null }] }, '7'],
  // Of a server that does not know the form.
  [{ items: [{ metadata: { resourceVersion: '5' } }] }, '5'],
])('watchVersion() asks for no object, and hears of the list %j and of an event', async (answer, first) => {
  const stop = new AbortController();
  const asked: KubeRequest['objects'][] = [];
  const connection = {
    server: 'https://api',
    request: async ({ objects, path }: KubeRequest) => {
      asked.push(objects);
      expect(path).toContain('includeObject=None');
      return { kind: 'Table', metadata: { resourceVersion: '7' }, ...answer };
    },
    async *watch(_: string, { objects }: Pick<KubeRequest, 'objects'>) {
      asked.push(objects);
      yield { type: 'BOOKMARK', object: { kind: 'Table', metadata: { resourceVersion: '8' } } };
      yield { type: 'MODIFIED', object: { kind: 'Table', metadata: { resourceVersion: '9' } } };
      stop.abort();
    },
  } as unknown as KubeConnection;
  const versions: unknown[] = [];
  await watchVersion({
    kind: 'secret',
    namespace: 'a',
    name: 'b',
    connection,
    clock: systemClock,
    log: createLog({ write: () => undefined }),
    signal: stop.signal,
    onVersion: (version) => void versions.push(version),
  });
  expect(versions).toEqual([first, '9']);
  expect(asked).toEqual(['versions', 'versions']);
});
