import { describe, expect, it } from 'vitest';
import { keptLines } from '../../cmd/uninstall.ts';
import { installedRecord, parseInstalled, purgeable } from '../../lib/install/installed.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['127.0.0.1'] } });
const record = installedRecord(resolved, 'own');
const data = record['data'] as Record<string, string>;

describe('installedRecord()', () => {
  it('is read as what --purge deletes: every object of ours, and no file', () => {
    const { inventory, objects } = parseInstalled(data, record);
    expect(inventory).toBe('kubernetes');
    const names = (locations: typeof objects) => locations.map(({ kind, name }) => `${kind} ${name}`).toSorted();
    expect(names(objects)).toEqual(names(purgeable(resolved)));
    expect(names(objects)).toContain('secret service-account-key');
    expect(objects.length).toBeGreaterThan(20);
  });

  it('leaves out what others keep', () => {
    const scheduler = resolve(loadPreset('openshift-kube-scheduler'), {});
    expect(scheduler.artefacts.some(({ kind }) => kind === 'given')).toBe(true);
    const { objects } = parseInstalled(installedRecord(scheduler, 'own')['data'] as Record<string, string>, {
      ...record,
      metadata: { name: 'kube-cert-recovery-installed-openshift-kube-scheduler' },
    });
    const given = scheduler.artefacts.flatMap(({ kind, truth }) => (kind === 'given' ? [JSON.stringify(truth)] : []));
    expect(objects.map((one) => JSON.stringify(one)).filter((one) => given.includes(one))).toEqual([]);
  });
});

describe('parseInstalled()', () => {
  it.each<[string, Record<string, string>]>([
    ['nothing', {}],
    ['another inventory', { ...data, inventory: 'other' }],
    ['a line that is no name', { ...data, secrets: 'own/a/b\n' }],
    ['a path', { ...data, secrets: '../x\n' }],
    ['an object of the whole cluster', { ...data, configMaps: 'name\n' }],
  ])('refuses %s', (_, broken) => {
    expect(() => parseInstalled(broken, record)).toThrow(
      'Cannot use ConfigMap "own/kube-cert-recovery-installed-kubernetes": it is not the record that init has written',
    );
  });
});

describe('keptLines()', () => {
  const where = { directory: '/etc/kubernetes/kube-cert-recovery', kubeconfig: '/etc/kubernetes/admin.conf' };

  it('names what stays, and the command that removes it', () => {
    expect(keptLines({ removed: [], kept: ['a thing'] }, { ...where, purge: false })).toEqual([
      'What certificates in use need stays in the API:',
      '  a thing',
      'When no component reads them any more, remove them: kube-cert-recovery uninstall --purge --kubeconfig=/etc/kubernetes/admin.conf',
    ]);
    expect(keptLines({ removed: ['x'], kept: [] }, { ...where, purge: false })).toEqual([]);
  });

  it('names the namespace that is ours alone, and no other', () => {
    const removed = ['Secret "kube-cert-recovery/x"'];
    expect(keptLines({ removed, kept: [] }, { ...where, purge: true })).toEqual([
      'Namespace "kube-cert-recovery" stays; where nothing else is in it: kubectl --kubeconfig=/etc/kubernetes/admin.conf delete namespace kube-cert-recovery',
    ]);
    const others = ['Secret "openshift-kube-scheduler/x"'];
    expect(keptLines({ removed: others, kept: [] }, { ...where, purge: true })).toEqual([]);
  });
});
