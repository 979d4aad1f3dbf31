import { describe, expect, it } from 'vitest';
import { judgePod } from '../../lib/adopt/container-state.ts';
import { podLayout } from '../../lib/adopt/pod-files.ts';
import { digestOf, type PodAddition } from '../../lib/adopt/static-pods.ts';
import { digestAnnotation } from '../../lib/install/install-record.ts';

const addition: PodAddition = {
  pod: 'kube-scheduler',
  image: 'example.com/recovery:1',
  layout: podLayout('/etc/kubernetes/kube-cert-recovery', 'kube-scheduler'),
  flags: {},
  sharesProcesses: false,
};
const name = 'kube-system/kube-scheduler-node1';
type Found = Parameters<typeof judgePod>[0];
const own = (more: object): Found => ({
  metadata: { annotations: { [digestAnnotation]: digestOf(addition) } },
  status: {
    containerStatuses: [
      { name: 'kube-scheduler', ready: true },
      { name: 'kube-cert-recovery', ready: true, ...more },
    ],
  },
});

describe('judgePod()', () => {
  it.each<readonly [string, Found, string, string]>([
    ['that runs', own({}), 'ready', ''],
    ['that is not ready', own({ ready: false }), 'waiting', 'is not ready'],
    [
      'without its image',
      own({ ready: false, state: { waiting: { reason: 'ImagePullBackOff' } } }),
      'wrong',
      'ImagePullBackOff (image "example.com/recovery:1")',
    ],
    [
      'that ends again and again',
      own({ ready: false, state: { waiting: { reason: 'CrashLoopBackOff' } } }),
      'wrong',
      'does not run: CrashLoopBackOff; look',
    ],
    ['that is gone', undefined, 'wrong', 'Pod "kube-system/kube-scheduler-node1" is not in the API'],
    [
      'rewritten by kubeadm',
      { status: { containerStatuses: [{ name: 'kube-scheduler', ready: true }] } },
      'wrong',
      'has no container "kube-cert-recovery"',
    ],
    ['of another adoption', { ...own({}), metadata: {} }, 'wrong', 'is not what the last adoption made of it'],
  ])('says of a pod %s what is the matter', (_, found, state, message) => {
    const sight = judgePod(found, addition, name);
    expect(sight.state).toBe(state);
    expect(sight.message).toContain(message);
  });
});
