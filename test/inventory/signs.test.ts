import { expect, it } from 'vitest';
import { isSignOfControlPlane } from '../../lib/inventory/discover/signs.ts';

const none = {
  manifest: undefined,
  'apiserver.crt': undefined,
  'apiserver.key': undefined,
  'controller-manager.conf': undefined,
  'scheduler.conf': undefined,
};

it('a manifest in comments is no sign of a control plane', () => {
  expect(isSignOfControlPlane({ ...none, manifest: '# kind: Pod\n# name: kube-apiserver\n' })).toBe(false);
});

it.each(['manifest', 'apiserver.crt', 'apiserver.key', 'scheduler.conf'])(
  'zeros in the place of %s are one: a power loss leaves them',
  (name) => {
    expect(isSignOfControlPlane({ ...none, [name]: '\0'.repeat(512) })).toBe(true);
  },
);

it.each([
  ['a Pod', 'apiVersion: v1\nkind: Pod\n'],
  ['a torn one that names its component', 'metadata: {\n  - kube-apiserver\n'],
])('a manifest is a sign: %s', (_title, manifest) => {
  expect(isSignOfControlPlane({ ...none, manifest })).toBe(true);
});
