import { describe, expect, it } from 'vitest';
import { driftOf } from '../../lib/adopt/repair.ts';
import { podManifest } from '../../lib/adopt/static-pods-apply.ts';
import { addTo } from '../../lib/adopt/static-pods.ts';
import { kubeadmManifest, recordIn } from '../support/cluster/adopted-files.ts';

const root = '/srv';
describe('driftOf()', () => {
  const addition = () => recordIn(root).additions[1] ?? expect.unreachable();
  const plain = () => podManifest(kubeadmManifest('kube-controller-manager', root), addition().pod, 'm');
  const added = () => addTo(plain(), addition());
  const container = () => added().spec.containers.find(({ name }) => name === addition().pod) ?? expect.unreachable();
  const withContainer = (change: object) => ({
    ...added(),
    spec: { ...added().spec, containers: [{ ...container(), ...change }, ...added().spec.containers.slice(1)] },
  });

  it('is none where all is there, also when a person has changed something beside it', () => {
    expect(driftOf(added(), addition())).toBeUndefined();
    expect(driftOf(withContainer({ resources: { limits: { cpu: '2' } } }), addition())).toBeUndefined();
    expect(driftOf(withContainer({ command: [...(container().command ?? []), '--v=4'] }), addition())).toBeUndefined();
  });

  it('tells what is missing', () => {
    expect(driftOf(plain(), addition())).toContain('has nothing of this program');
    expect(driftOf(added(), { ...addition(), image: 'example.com/recovery:2' })).toContain('last adoption');
    const spec = { ...added().spec, containers: [container()] };
    expect(driftOf({ ...added(), spec }, addition())).toBe('lacks the container "kube-cert-recovery"');
    const command = container().command?.slice(0, -1);
    expect(driftOf(withContainer({ command }), addition())).toMatch(/^lacks the flag --[a-z-]+ that/);
    expect(driftOf(withContainer({ volumeMounts: [] }), addition())).toMatch(/^does not mount ".*" into/);
  });
});
