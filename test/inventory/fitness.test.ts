// Which certificates readers certainly refuse, and which an administrator may have chosen.
import { describe, expect, it } from 'vitest';
import { unfitness } from '../../lib/inventory/fitness.ts';
import type { Location, ResolvedTarget } from '../../lib/inventory/model.ts';

const secret: Location = { kind: 'secret', namespace: 'n', name: 'x' };
const conf: Location = { kind: 'kubeconfig', file: '/x.conf', endpoint: 'local' };
type Row = Pick<ResolvedTarget, 'usage' | 'commonName' | 'location'>;
const scheduler: Row = { usage: 'client', commonName: 'system:kube-scheduler', location: conf };
const kubelet: Row = { usage: 'client', commonName: 'system:node:node-1', location: conf };
const admin: Row = { usage: 'client', commonName: 'kubernetes-admin', location: conf };
const etcdClient: Row = { usage: 'client', commonName: 'kube-apiserver-etcd-client', location: secret };
const serving: Row = { usage: 'serving', location: secret };
const peer: Row = { usage: 'peer', location: secret };

const of = (commonName: string, ...organizations: readonly string[]) => ({ commonName, organizations });
const client = { usages: ['clientAuth'] };

describe('unfitness()', () => {
  it.each<[string, Row, Parameters<typeof unfitness>[1]]>([
    ['a client without clientAuth', scheduler, { ...of('system:kube-scheduler'), usages: ['serverAuth'] }],
    ['a server without serverAuth', serving, { ...of('x'), usages: ['clientAuth'] }],
    ['a server with a usage of its own', serving, { ...of('x'), usages: ['1.2.3'] }],
    ['a peer that is no client', peer, { ...of('x'), usages: ['serverAuth'] }],
    ['a peer that is no server', peer, { ...of('x'), usages: ['clientAuth'] }],
    ['a kubeconfig of nobody', admin, { ...of('', 'system:masters'), ...client }],
    ['a component with the name of another', scheduler, { ...of('system:kube-controller-manager'), ...client }],
    ['a component with the name of a node', scheduler, { ...of('system:node:node-1', 'system:nodes'), ...client }],
    ['a component whose name has a flipped bit', scheduler, { ...of('system:kube-schedulez'), ...client }],
    ['a kubelet without its group', kubelet, { ...of('system:node:node-1'), ...client }],
    ['a kubelet with its group and the name of another', kubelet, { ...of('system:kube-proxy', 'system:nodes') }],
  ])('refuses %s', (_name, row, certificate) => {
    expect(unfitness(row, certificate)).toBeTypeOf('string');
  });

  it.each<[string, Row, Parameters<typeof unfitness>[1]]>([
    ['one whose use is not restricted', scheduler, of('system:kube-scheduler')],
    [
      'a client that is a server, too',
      scheduler,
      { ...of('system:kube-scheduler'), usages: ['serverAuth', 'clientAuth'] },
    ],
    ['an administrator of the former group', admin, { ...of('kubernetes-admin', 'system:masters'), ...client }],
    ['an administrator of the newer group', admin, { ...of('kubernetes-admin', 'kubeadm:cluster-admins'), ...client }],
    ['an administrator with rights by name', admin, { ...of('jane'), ...client }],
    [
      "a component with an administrator's rights",
      scheduler,
      { ...of('kubernetes-admin', 'system:masters'), ...client },
    ],
    ['a component with a system name and a group', scheduler, { ...of('system:admin', 'system:masters'), ...client }],
    ['a component with a name of its own', scheduler, { ...of('my-scheduler'), ...client }],
    ['a kubelet by another node name', kubelet, { ...of('system:node:old-name', 'system:nodes'), ...client }],
    ['a client of etcd, whom nobody asks for a name', etcdClient, { ...of(''), ...client }],
    ['a server by any name', serving, { ...of(''), usages: ['serverAuth'] }],
  ])('leaves %s alone', (_name, row, certificate) => {
    expect(unfitness(row, certificate)).toBeUndefined();
  });
});
