import { describe, expect, it } from 'vitest';
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
