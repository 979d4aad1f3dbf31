import { describe, expect, it } from 'vitest';
import { judgeAddresses, type SourceAnswer } from '../../lib/approver/addresses.ts';
import { type ClusterNames, clusterNamesIn, isClusterName, serviceNameOf } from '../../lib/approver/cluster-names.ts';
import type { AskedName } from '../../lib/approver/serving-request.ts';

const cluster: ClusterNames = {
  served: new Set(['kubernetes.default.svc.corp.example', 'api.corp.example', 'cp-1', '192.0.2.1', '192.0.2.100']),
  serviceRanges: ['10.96.0.0/12', 'fd00:96::/112'],
  services: new Set(['registry.tools', 'vault-0.vault.prod']),
};
const asked = (value: string): AskedName => ({ kind: /^[\d.]+$|:/.test(value) ? 'IP' : 'DNS', value });
/** As a Machine, a list and a range of one: each vouches for everything. */
const everything = (name: AskedName): readonly SourceAnswer[] =>
  ['nodes', 'machines', 'served', 'cidrs'].map((source) => ({ source, own: [name.value], namesNode: true }));

describe('judgeAddresses(): names of the cluster', () => {
  it.each([
    ['kubernetes'],
    ['kubernetes.default'],
    ['kubernetes.default.svc'],
    ['kubernetes.default.svc.cluster.local'],
    ['openshift.default'],
    ['openshift.default.svc'],
    ['openshift'],
    ['registry.svc'],
    ['web.shop.svc.corp.example'],
    ['anything.cluster.local'],
    ['cluster.local'],
    ['anything.corp.example'],
    ['corp.example'],
    ['api.corp.example'],
    ['localhost'],
    ['localhost.localdomain'],
    ['x.localhost'],
    ['localhost6'],
    ['localhost6.localdomain6'],
    ['localhost4.localdomain4'],
    ['ip6-localhost'],
    ['ip6-loopback'],
    ['ip6-allnodes'],
    ['localhost4'],
    ['localdomain4'],
    ['a.localdomain4'],
    ['localhost-recovery'],
    ['registry.tools'],
    ['vault-0.vault.prod'],
    ['10-0-0-1.prod.pod'],
    ['cp-1'],
    ['127.0.0.1'],
    ['127.9.9.9'],
    ['::1'],
    ['::'],
    ['0.0.0.0'],
    ['169.254.169.254'],
    ['fe80::1'],
    ['224.0.0.1'],
    ['ff02::1'],
    ['::ffff:127.0.0.1'],
    ['::127.0.0.1'],
    ['64:ff9b::7f00:1'],
    ['64:ff9b:1::7f00:1'],
    ['64:ff9b:1:a:b:c:7f00:1'],
    ['2002:7f00:1::1'],
    ['2002:a60:1::1'],
    ['::ffff:0:7f00:1'],
    ['2001:0:1:2:3:4:80ff:fffe'],
    ['::ffff:10.96.0.1'],
    ['10.96.0.1'],
    ['10.111.255.255'],
    ['fd00:96::1'],
    ['192.0.2.100'],
  ])('no node is given %s, whatever all sources say of it', (value) => {
    const name = asked(value);
    const verdict = judgeAddresses({ node: value, asked: [name], cluster, answers: everything(name) });
    expect(verdict).toMatchObject({ action: 'leave', reason: 'NameOfCluster' });
    expect(verdict.message).toContain(value);
  });

  it.each([
    ['node-1'],
    ['kubernetes-1'],
    ['node.example.com'],
    ['registry.other'],
    ['svc'],
    ['svc.example.com'],
    ['mycorp.example'],
    ['192.0.2.2'],
    ['10.112.0.1'],
    ['fd00:97::1'],
    ['2001:db8::1'],
    ['2001:1::1'],
    ['64:ff9c::1'],
    ['2003::1'],
    ['node.pod.example.com'],
    ['node.example.of.prod'],
  ])('%s is of no cluster', (value) => {
    const name = asked(value);
    expect(judgeAddresses({ node: value, asked: [name], cluster, answers: everything(name) })).toMatchObject({
      action: 'approve',
    });
  });

  it('a name of one label, as pods call a Service of their own namespace, is the own name or one listed by hand', () => {
    const judge = (value: string, answers = everything(asked(value))) =>
      judgeAddresses({ node: 'node-1.example.com', asked: [asked(value)], cluster, answers });
    expect(judge('vault')).toMatchObject({ action: 'leave', reason: 'NameOfCluster' });
    expect(judge('node-1')).toMatchObject({ action: 'approve' });
    expect(judge('vault', [{ source: 'nodes', own: ['vault'], isListed: true }])).toMatchObject({ action: 'approve' });
  });

  it('the machine of an API server keeps its own names, which that certificate has as well, and no other of it', () => {
    const names = ['cp-1', '192.0.2.1'].map(asked);
    expect(clusterNamesIn({ node: 'cp-1', asked: names, isControlPlane: true, cluster })).toEqual([]);
    expect(clusterNamesIn({ node: 'cp-1', asked: names, isControlPlane: false, cluster })).toHaveLength(2);
    expect(clusterNamesIn({ node: 'cp-1', asked: [asked('kubernetes')], isControlPlane: true, cluster })).toHaveLength(
      1,
    );
    // kubeadm can be told to set no label: then an administrator's list says whose they are.
    const listed: SourceAnswer = { source: 'nodes', own: ['192.0.2.1'], namesNode: true, isListed: true };
    const judge = (own: readonly AskedName[], answer: SourceAnswer) =>
      judgeAddresses({ node: 'cp-1', asked: own, cluster, answers: [answer] }).action;
    expect(judge(names, listed)).toBe('approve');
    expect(judge(names, { source: 'machines', own: ['192.0.2.1', 'cp-1'] })).toBe('leave');
    expect(judge([asked('kubernetes')], { ...listed, own: ['kubernetes'] })).toBe('leave');
  });
});

it('isClusterName() tells nodes of such names from others', () => {
  for (const name of ['kubernetes', 'kubernetes.default.svc', 'localhost', 'a.cluster.local'])
    expect(isClusterName(name), name).toBe(true);
  for (const name of ['kubernetes.example.com', 'node-1', 'localhosts']) expect(isClusterName(name), name).toBe(false);
});

it('serviceNameOf() is of names with two labels, and of those of a pod of a headless Service', () => {
  expect(serviceNameOf(asked('web.shop'))).toEqual({ name: 'web', namespace: 'shop' });
  expect(serviceNameOf(asked('web-0.web.shop'))).toEqual({ name: 'web', namespace: 'shop' });
  for (const value of ['web', 'a.web-0.web.shop', '192.0.2.1'])
    expect(serviceNameOf(asked(value)), value).toBeUndefined();
});
