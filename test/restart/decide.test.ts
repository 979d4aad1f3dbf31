import { describe, expect, it } from 'vitest';
import type { ProcessFacts } from '../../lib/host/proc.ts';
import { unitOf } from '../../lib/host/systemd.ts';
import { due, flagOf, type Marker, readersOf } from '../../lib/restart/decide.ts';
import { isSamePlace, placeOf } from '../../lib/host/mounts.ts';

const host = [
  '22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw',
  '23 22 0:5 / /proc rw - proc proc rw',
  '24 22 254:2 /lib /var/lib rw - ext4 /dev/vda2 rw',
].join('\n');

describe('placeOf()', () => {
  it.each([
    ['/etc/kubernetes/scheduler.conf', { device: '254:1', path: '/etc/kubernetes/scheduler.conf' }],
    ['/var/lib/kubelet/pki/a.pem', { device: '254:2', path: '/lib/kubelet/pki/a.pem' }],
    ['/var/library', { device: '254:1', path: '/var/library' }],
    ['/var/lib', { device: '254:2', path: '/lib' }],
  ])('%s', (path, place) => {
    expect(placeOf(host, path)).toEqual(place);
  });

  it('takes the last of two mounts over each other, and knows blanks', () => {
    const mountinfo = `${host}\n30 22 0:9 / /mnt/a\\040b rw - tmpfs t rw\n31 30 0:10 /x /mnt/a\\040b rw - tmpfs t rw`;
    expect(placeOf(mountinfo, '/mnt/a b/c')).toEqual({ device: '0:10', path: '/x/c' });
  });

  it('knows a single file that was replaced on the host since it was mounted', () => {
    const pod =
      '7 1 254:1 /etc/kubernetes/scheduler.conf//deleted /etc/kubernetes/scheduler.conf ro - ext4 /dev/vda1 rw';
    const ours = placeOf(host, '/etc/kubernetes/scheduler.conf');
    expect(isSamePlace(placeOf(pod, '/etc/kubernetes/scheduler.conf'), ours)).toBe(true);
  });

  it('is nowhere where nothing can be read', () => {
    expect(placeOf('', '/a')).toBeUndefined();
    expect(isSamePlace(undefined, undefined)).toBe(false);
  });
});

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

it.each([
  ['0::/system.slice/kubelet.service\n', 'kubelet.service'],
  ['3:cpu:/x.service\n1:name=systemd:/system.slice/kubelet.service\n', 'kubelet.service'],
  ['0::/system.slice/containerd.service/kubepods/x.scope\n', 'containerd.service'],
  ['0::/\n', undefined],
  ['', undefined],
])('unitOf(%j) is %s', (cgroup, unit) => {
  expect(unitOf(cgroup)).toBe(unit);
});
