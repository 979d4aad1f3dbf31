import { expect, it } from 'vitest';
import { isSignOfControlPlane } from '../../lib/inventory/discover/signs.ts';

const none = {
  manifest: undefined,
  'apiserver.crt': undefined,
  'apiserver.key': undefined,
  'controller-manager.conf': undefined,
  'scheduler.conf': undefined,
};

it.each([
  ['zeros in the place of a manifest', { manifest: '\0'.repeat(512) }],
  ['zeros in the place of a certificate', { 'apiserver.crt': '\0'.repeat(512) }],
  ['zeros in the place of a kubeconfig', { 'scheduler.conf': '\0'.repeat(512) }],
  ['a manifest in comments', { manifest: '# kind: Pod\n# name: kube-apiserver\n' }],
])('%s are no sign of a control plane', (_title, signs) => {
  expect(isSignOfControlPlane({ ...none, ...signs })).toBe(false);
});

it.each([
  ['a Pod', 'apiVersion: v1\nkind: Pod\n'],
  ['a torn one that names its component', 'metadata: {\n  - kube-apiserver\n'],
])('a manifest is a sign: %s', (_title, manifest) => {
  expect(isSignOfControlPlane({ ...none, manifest })).toBe(true);
});
