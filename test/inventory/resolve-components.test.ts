import { describe, expect, it } from 'vitest';
import { componentsIn, readBy } from '../../lib/inventory/component-view.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';

const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });

describe('readBy', () => {
  const scheduler = readBy(resolved, ['kube-scheduler']);

  it('publishes what the component reads, and nothing else', () => {
    const published = scheduler.artefacts.filter((artefact) => artefact.published !== undefined);
    expect(published.map(({ name }) => name).toSorted()).toEqual(['kube-apiserver-server-ca', 'kube-scheduler-client']);
  });

  it('leaves no other reader', () => {
    expect(componentsIn(scheduler)).toEqual(['kube-scheduler']);
  });

  it('keeps every artefact, because others refer to it', () => {
    expect(scheduler.artefacts.map(({ name }) => name)).toEqual(resolved.artefacts.map(({ name }) => name));
  });

  it('of all components is the whole', () => {
    const published = ({ artefacts }: typeof resolved): readonly string[] =>
      artefacts.filter((artefact) => artefact.published !== undefined).map(({ name }) => name);
    const all = readBy(resolved, componentsIn(resolved));
    // What nobody reads by default is published for who wants it.
    expect(published(resolved).filter((name) => !published(all).includes(name))).toEqual(['kubelet-serving-ca']);
  });

  it('does not change what it was given', () => {
    expect(componentsIn(resolved)).toContain('kube-apiserver');
  });
});

describe('resolve() where a component elects no leader', () => {
  it('asks for no Lease of it, and for those of the others', () => {
    const { artefacts } = resolve(loadPreset('kubeadm'), {
      parameters: { nodeName: ['node1'] },
      withoutLease: ['kube-scheduler'],
    });
    const proofOf = (name: string) =>
      artefacts.find((one) => one.name === name)?.readers.map(({ proof }) => proof.kind);
    expect(proofOf('scheduler.conf')).toEqual(['none']);
    expect(proofOf('controller-manager.conf')).toEqual(['lease']);
    expect(proofOf('apiserver')).toEqual(['served']);
  });
});

describe('componentsIn', () => {
  it('names each once, sorted', () => {
    expect(componentsIn(resolved)).toEqual([
      'admin',
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
      'kubelet',
    ]);
  });
});
