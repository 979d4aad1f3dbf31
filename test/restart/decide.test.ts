import { describe, expect, it } from 'vitest';
import type { ProcessFacts } from '../../lib/host/proc.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { componentsOf, due, flagOf, type Marker, readersOf } from '../../lib/restart/decide.ts';
import { signer, target } from '../support/facts.ts';

const host = '22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw';

it.each([
  [['k', '--kubeconfig=/a'], '/a'],
  [['k', '-kubeconfig', '/a'], '/a'],
  [['k', '--kubeconfig', '/a', '--kubeconfig=/b'], '/b'],
  [['k', '--kubeconfig-x=/a', '--authentication-kubeconfig=/c'], undefined],
  [['k', '--kubeconfig=/a=b'], '/a=b'],
])('flagOf(%j) is %s', (argv, value) => {
  expect(flagOf(argv, 'kubeconfig')).toBe(value);
});

describe('readersOf()', () => {
  const kubeconfig = '/etc/kubernetes/scheduler.conf';
  const scheduler: ProcessFacts = {
    pid: 7,
    started: 100,
    argv: ['kube-scheduler', `--kubeconfig=${kubeconfig}`],
    mountinfo: host,
    cgroup: '0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n',
    isInOurPidNamespace: false,
    isPrivileged: false,
    environ: new Map(),
  };
  const inSession = '0::/user.slice/user-1000.slice/session-3.scope\n';
  it.each<[string, Partial<ProcessFacts>, boolean]>([
    ['a pod, also one with a user of its own', {}, true],
    ['a service with a user of its own', { cgroup: '0::/system.slice/kube-scheduler.service\n' }, true],
    ['what root has started by hand', { cgroup: inSession, isPrivileged: true }, true],
    ['nothing that an ordinary user has called so', { cgroup: inSession }, false],
    ['nothing of a service of that user', { cgroup: '0::/user.slice/user-1000.slice/user@1000.service/a\n' }, false],
  ])('counts %s', (_title, given, counts) => {
    const found = readersOf({ name: 'kube-scheduler', file: kubeconfig }, [{ ...scheduler, ...given }], () => [
      { device: '254:1', path: kubeconfig },
    ]);
    expect(found.length).toBe(counts ? 1 : 0);
  });
});

describe('componentsOf()', () => {
  const reads = (component: string, needs: 'restart' | 'nothing' = 'restart') =>
    ({ component, needs, proof: { kind: 'none' } }) as const;
  const pair = (name: string) => ({ kind: 'pemPair', certFile: `/${name}.crt`, keyFile: `/${name}.key` }) as const;
  const etcdCa = {
    ...signer,
    name: 'etcd-ca',
    location: pair('etcd-ca'),
    readers: [reads('etcd'), reads('kube-apiserver')],
  };
  const server = { ...target, name: 'server', location: pair('server'), readers: [reads('etcd', 'nothing')] };
  const kubelet: ResolvedArtefact = {
    ...target,
    name: 'kubelet.conf',
    location: { kind: 'kubeconfig', file: '/kubelet.conf', endpoint: 'local' },
    readers: [reads('kubelet')],
  };
  const named = (...artefacts: readonly ResolvedArtefact[]) =>
    componentsOf({ name: 'host', artefacts }).map(({ name, file, artefacts: read }) => [name, file, ...read]);

  it('tells etcd and kube-apiserver by the CA that they read at their start, and by nothing else', () => {
    expect(named(etcdCa, server, kubelet)).toEqual([
      ['kubelet', '/kubelet.conf', 'kubelet.conf'],
      ['etcd', '/etcd-ca.crt', 'etcd-ca'],
      ['kube-apiserver', '/etcd-ca.crt', 'etcd-ca'],
    ]);
    expect(named(server, kubelet)).toEqual([['kubelet', '/kubelet.conf', 'kubelet.conf']]);
  });

  it('takes them for services where no kubelet would start them again', () => {
    const services = (...artefacts: readonly ResolvedArtefact[]) =>
      componentsOf({ name: 'host', artefacts }).flatMap(({ name, isService }) => (isService ? [name] : []));
    expect(services(etcdCa, server)).toEqual(['etcd', 'kube-apiserver']);
    expect(services(etcdCa, server, kubelet)).toEqual([]);
  });

  it('takes the file from the environment of etcd where no flag names it', () => {
    const process = (variables: Readonly<Record<string, string>>, ...flags: readonly string[]): ProcessFacts => ({
      pid: 7,
      started: 100,
      argv: ['etcd', ...flags],
      environ: new Map(Object.entries(variables)),
      mountinfo: host,
      cgroup: '0::/system.slice/etcd.service\n',
      isInOurPidNamespace: true,
      isPrivileged: true,
    });
    const ours = (path: string) => [{ device: '254:1', path }];
    const found = [
      process({ ETCD_TRUSTED_CA_FILE: '/etcd-ca.crt' }),
      process({ ETCD_TRUSTED_CA_FILE: '/etcd-ca.crt' }, '--trusted-ca-file=/other.crt'),
      process({ ETCD_TRUSTED_CA_FILE: '/other.crt' }),
      process({}),
    ].map((one) => readersOf({ name: 'etcd', file: '/etcd-ca.crt' }, [one], ours).length);
    expect(found).toEqual([1, 0, 0, 0]);
  });

  it.each([
    ['etcd', 'trusted-ca-file', '/etcd-ca.crt', 1],
    ['etcd', 'trusted-ca-file', '/others/etcd-ca.crt', 0],
    ['etcd', 'peer-trusted-ca-file', '/etcd-ca.crt', 0],
    ['kube-apiserver', 'etcd-cafile', '/etcd-ca.crt', 1],
    ['kube-apiserver', 'client-ca-file', '/etcd-ca.crt', 0],
  ] as const)('takes %s with --%s=%s for one of ours: %d', (name, flag, file, count) => {
    const process: ProcessFacts = {
      pid: 7,
      started: 100,
      argv: [name, `--${flag}=${file}`],
      mountinfo: host,
      cgroup: '0::/kubepods.slice/cri-containerd-1.scope\n',
      isInOurPidNamespace: false,
      isPrivileged: true,
      environ: new Map(),
    };
    const ours = (path: string) => [{ device: '254:1', path }];
    expect(readersOf({ name, file: '/etcd-ca.crt' }, [process], ours)).toHaveLength(count);
  });
});

describe('due()', () => {
  const before = { pid: 7, started: 100 };
  const after = { pid: 8, started: 200 };
  const reused = { pid: 7, started: 300 };
  const marker: Marker = { state: 'written', running: [before] };
  it.each<[string, Marker, readonly object[]]>([
    ['who ran when the file had changed', marker, [before]],
    [
      'everybody, where the run died while it wrote',
      { ...marker, state: 'writing', running: [] },
      [before, after, reused],
    ],
    ['nobody, where nobody ran', { ...marker, running: [] }, []],
  ])('names %s', (_, given, wanted) => {
    expect(due(given, [before, after, reused])).toEqual(wanted);
  });
});
