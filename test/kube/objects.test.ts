import { namedListPath, objectPath } from '../../lib/kube/objects.ts';
import { expect, it } from 'vitest';

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
