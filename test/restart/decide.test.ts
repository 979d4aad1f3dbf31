import { describe, expect, it } from 'vitest';
import type { ProcessFacts } from '../../lib/host/proc.ts';
import { due, flagOf, type Marker, readersOf } from '../../lib/restart/decide.ts';

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
  };
  const inSession = '0::/user.slice/user-1000.slice/session-3.scope\n';
  it.each<[string, Partial<ProcessFacts>, boolean]>([
    ['a pod, also one with a user of its own', {}, true],
    ['a service with a user of its own', { cgroup: '0::/system.slice/kube-scheduler.service\n' }, true],
    ['what root has started by hand', { cgroup: inSession, isPrivileged: true }, true],
    ['nothing that an ordinary user has called so', { cgroup: inSession }, false],
    ['nothing of a service of that user', { cgroup: '0::/user.slice/user-1000.slice/user@1000.service/a\n' }, false],
  ])('counts %s', (_title, given, counts) => {
    const found = readersOf({ name: 'kube-scheduler', kubeconfig }, [{ ...scheduler, ...given }], () => [
      { device: '254:1', path: kubeconfig },
    ]);
    expect(found.length).toBe(counts ? 1 : 0);
  });
});

describe('due()', () => {
  const before = { pid: 7, started: 100 };
  const after = { pid: 8, started: 200 };
  const reused = { pid: 7, started: 300 };
  const marker: Marker = { boot: 'b', state: 'written', running: [before] };
  it.each<[string, Marker, string, readonly object[]]>([
    ['who ran when the file had changed', marker, 'b', [before]],
    ['nobody of before a boot', marker, 'c', []],
    [
      'everybody, where the run died while it wrote',
      { ...marker, state: 'writing', running: [] },
      'b',
      [before, after, reused],
    ],
    ['nobody, where nobody ran', { ...marker, running: [] }, 'b', []],
  ])('names %s', (_, given, boot, wanted) => {
    expect(due(given, [before, after, reused], boot)).toEqual(wanted);
  });
});
