import { expect, it } from 'vitest';
import { hostRights, rightsIn, rightsText } from '../../lib/install/missing-rights.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';

const inventory = loadPreset('kubeadm');

it('hostRights() has each verb on each object that init host grants, in words one text for an object', () => {
  const told = rightsText(hostRights({ inventory, renewsAhead: true }));
  expect(told.toSorted()).toEqual([
    'get configmaps "kube-system/kubeadm-config"',
    'get, create, patch, update leases "kube-cert-recovery/control-plane-renewal"',
    'get, update configmaps "kube-public/cluster-info"',
    'get, update leases "kube-system/kube-controller-manager"',
    'get, update leases "kube-system/kube-scheduler"',
  ]);
  expect(rightsText(hostRights({ inventory, renewsAhead: false })).join()).not.toContain('control-plane-renewal');
});

it('rightsIn() has a right that names no object, as that to create Events', () => {
  const rule = { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create'] };
  const rights = rightsIn(new Map([['default', [rule]]]));
  expect(rights).toEqual([{ namespace: 'default', group: 'events.k8s.io', resource: 'events', verb: 'create' }]);
  expect(rightsText(rights)).toEqual(['create events in "default"']);
});
