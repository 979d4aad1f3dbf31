import { ownContext } from '../../lib/kubeconfig/document.ts';
import type { KnownServers } from '../../lib/kubeconfig/known-servers.ts';
import { describe, expect, it } from 'vitest';

const here = 'https://10.0.0.1:6443';
const balancer = 'https://lb.example:6443';
const elsewhere = 'https://127.0.0.1:34567';

/** `name user cluster server` of each context. */
function config(current: string, ...rows: readonly (readonly [string, string, string, string])[]): unknown {
  return {
    'current-context': current,
    contexts: rows.map(([name, user, cluster]) => ({ name, context: { user, cluster } })),
    clusters: rows.map(([, , name, server]) => ({ name, cluster: { server } })),
    users: rows.map(([, user]) => ({ name: user, user: {} })),
  };
}
const kind = ['kind-kind', 'kind-kind', 'kind-kind', elsewhere] as const;
const kubeadm = (server: string) => ['kubernetes-admin@kubernetes', 'kubernetes-admin', 'kubernetes', server] as const;
const renamed = (server: string) => ['prod', 'admin', 'prod-cluster', server] as const;
const named = (cluster: string) =>
  [`kubernetes-admin@${cluster}`, 'kubernetes-admin', cluster, `https://${cluster}:6443`] as const;
const known: KnownServers = { controlPlane: balancer, local: here };

describe('ownContext()', () => {
  it.each<[string, unknown, KnownServers, string]>([
    ['the current one', config('prod', kubeadm(here), renamed(here)), known, 'prod'],
    ['the current one at the load balancer', config('prod', kind, renamed(balancer)), known, 'prod'],
    [
      'the current one at a load balancer of this machine, which its components ask',
      config('prod', kind, renamed('https://127.0.0.1:8443')),
      { ...known, components: ['https://127.0.0.1:8443'] },
      'prod',
    ],
    ['of the default port', config('prod', renamed('https://h:443')), { local: 'https://h' }, 'prod'],
    ['that of the server', config('kind-kind', kind, renamed(here)), known, 'prod'],
    ['that of the server by loopback', config('kind-kind', kind, renamed('https://localhost:6443')), known, 'prod'],
    [
      'that of the server rather than that of the name',
      config('x', ['x', 'x', 'kubernetes', elsewhere], renamed(here)),
      known,
      'prod',
    ],
    [
      'that of the name, where the server is none',
      config('kind-kind', kind, kubeadm('https://old:6443')),
      known,
      'kubernetes-admin@kubernetes',
    ],
    [
      'that of the name, where no server is known',
      config('kind-kind', kind, kubeadm(here)),
      {},
      'kubernetes-admin@kubernetes',
    ],
    [
      'named by kubeadm for a cluster of another name',
      config('kind-kind', kind, ['kubernetes-admin@c', 'kubernetes-admin', 'c', 'https://old:6443']),
      known,
      'kubernetes-admin@c',
    ],
    [
      'of the kubelet',
      config('default-context', ['default-context', 'default-auth', 'default-cluster', 'https://old:6443']),
      known,
      'default-context',
    ],
    [
      'rather kubeadm’s user',
      config(
        'kind-kind',
        kind,
        ['dev', 'dev', 'kubernetes', here],
        ['kubernetes-admin@kubernetes', 'kubernetes-admin', 'kubernetes', here],
      ),
      known,
      'kubernetes-admin@kubernetes',
    ],
    [
      'not that of another cluster of kubeadm',
      config('kubernetes-admin@staging', named('staging'), renamed(here)),
      known,
      'prod',
    ],
    ['the only one, where nothing is known', config('kind-kind', kind), {}, 'kind-kind'],
  ])('chooses %s', (_, value, servers, name) => {
    expect(ownContext(value, servers)).toMatchObject({ name });
  });

  it('gives the places of its user and its cluster', () => {
    expect(ownContext(config('kind-kind', kind, kubeadm(here)), known)).toMatchObject({
      user: { path: ['users', 1, 'user'] },
      cluster: { path: ['clusters', 1, 'cluster'], fields: { server: here } },
    });
  });

  it.each([
    [config('kind-kind', kind)],
    [config('kind-kind', kind, ['b', 'b', 'b', 'no URL'])],
    [config('kind-kind', kind, ['somebody@other', 'somebody', 'other', 'https://other:6443'])],
    [config('kind-kind', kind, named('staging'), named('prod'))],
  ])('finds that all is of others', (value) => {
    expect(ownContext(value, known)).toMatchObject({
      foreign: 'its current context "kind-kind" is that of another cluster',
    });
  });

  it.each<[unknown, string]>([
    [[], 'not a mapping'],
    [config(''), 'no current-context'],
    [config('gone', kubeadm(here)), 'no context named "gone"'],
    [{ 'current-context': 'a', contexts: [{ name: 'a', context: { user: 'u' } }, null] }, 'no user'],
    [{ 'current-context': 'a', contexts: [{ name: 'a' }], users: 'none' }, 'no user'],
    [config('kind-kind', ['kind-kind', 'kind-kind', 'kind-kind', '']), 'cluster "kind-kind" has no server'],
  ])('says what is wrong with %j', (value, problem) => {
    expect(ownContext(value, known)).toEqual({ problem: expect.stringContaining(problem) as string });
  });
});
