import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { namedListPath, objectPath, watchMetadata } from '../../lib/kube/objects.ts';
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

// k8s.io/apiserver, asPartialObjectMetadataList: what nothing was appended to is null.
it.each([null, []])(
  'watchMetadata() asks for no content, and takes the empty list %j for an absent object',
  async (items) => {
    const stop = new AbortController();
    const asked: KubeRequest['objects'][] = [];
    const connection = {
      server: 'https://api',
      request: async ({ objects }: KubeRequest) => {
        asked.push(objects);
        return { kind: 'PartialObjectMetadataList', metadata: { resourceVersion: '7' }, items };
      },
      async *watch(_: string, { objects }: Pick<KubeRequest, 'objects'>) {
        asked.push(objects);
        yield { type: 'BOOKMARK', object: { metadata: { resourceVersion: '8' } } };
        stop.abort();
      },
    } as unknown as KubeConnection;
    const states: unknown[] = [];
    await watchMetadata({
      kind: 'secret',
      namespace: 'a',
      name: 'b',
      connection,
      clock: systemClock,
      log: createLog({ write: () => undefined }),
      signal: stop.signal,
      onState: (state) => void states.push(state),
    });
    expect(states).toEqual([{ present: false }]);
    expect(asked).toEqual(['metadata', 'metadata']);
  },
);
