import { describe, expect, it } from 'vitest';
import { keptLines } from '../../cmd/uninstall.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { Manifest } from '../../lib/install/apply.ts';
import {
  type Installed,
  installedRecord,
  parseInstalled,
  purgeable,
  recordToCome,
} from '../../lib/install/install-record.ts';
import { wanted } from '../../lib/install/uninstall.ts';
import type { ApiLocation } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';

const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['127.0.0.1'] } });
const operators = resolve(loadPreset('openshift-kube-apiserver'), {
  parameters: {},
});
const created = purgeable(resolved).slice(0, 3);
const record = installedRecord(resolved.name, 'own', created);
const data = record['data'] as Record<string, string>;

/** As the API has it. */
function recorded(inventory: string, objects: Installed['objects']): Installed {
  const manifest = installedRecord(inventory, 'own', objects);
  return parseInstalled(manifest['data'] as Record<string, string>, manifest);
}

describe('installedRecord()', () => {
  it('is read as what --purge deletes: what was created, once each, and nothing else', () => {
    const { inventory, objects } = parseInstalled(data, record);
    expect(inventory).toBe('kubernetes');
    expect(objects.toSorted(byName)).toEqual(created.toSorted(byName));
    expect(installedRecord(resolved.name, 'own', [...created, ...created])).toEqual(record);
    expect(parseInstalled(installedRecord('kubernetes', 'own', [])['data'] as typeof data, record).objects).toEqual([]);
  });
});

const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1);

describe('recordToCome()', () => {
  const [first, second, third] = created as [ApiLocation, ApiLocation, ApiLocation];
  const signal = new AbortController().signal;
  const inApi = (found: Readonly<Record<string, string>> | undefined) => {
    const missing = new RecoveryError('KubeNotFound', 'Cannot get it');
    const request = () => (found === undefined ? Promise.reject(missing) : Promise.resolve({ data: found }));
    return { connection: { request } as unknown as KubeConnection, signal };
  };
  const come = (found: Parameters<typeof inApi>[0], absent: ApiLocation[], inventory = resolved): Promise<Manifest> =>
    recordToCome(inApi(found), { resolved: inventory, namespace: 'own', absent });
  const dataOf = (manifest: Manifest) => manifest['data'] as Record<string, string>;

  it('holds what is to be created, and what was created before', async () => {
    expect(await come(undefined, [first])).toEqual(installedRecord('kubernetes', 'own', [first]));
    const before = dataOf(installedRecord('kubernetes', 'own', [first, second]));
    const after = installedRecord('kubernetes', 'own', created);
    expect(await come(before, [third])).toEqual(after);
    expect(await come(dataOf(after), [])).toEqual(after);
  });

  it('takes the place of no record that cannot be read', async () => {
    await expect(come({ inventory: 'kubernetes', secrets: 'own/a/b' }, [first])).rejects.toThrow(
      'it is not the record that init has written; delete it, and name the inventory to uninstall',
    );
  });
});

describe('wanted() by --purge', () => {
  const purge = true;
  const own = recorded('kubernetes', created);

  it('is what is recorded as created, whatever the inventory declares', () => {
    expect(wanted([own], { purge, resolved })).toEqual({ objects: own.objects, record: own });
    expect(wanted([own], { purge })).toEqual({ objects: own.objects, record: own });
    const none = recorded(operators.name, []);
    expect(wanted([none], { purge, resolved: operators })).toEqual({ objects: [], record: none });
    expect(wanted([none, own], { purge })).toEqual({ objects: own.objects, record: own });
    expect(wanted([none], { purge })).toEqual({ objects: [] });
  });

  it('is refused where others keep objects, too, and there is no record', () => {
    const all = purgeable(operators);
    expect(() => wanted([], { purge, resolved: operators })).toThrow(
      `Cannot delete the objects of inventory "${operators.name}": nothing tells which of its ${all.length} Secrets and ConfigMaps init has created. What an operator keeps is among them`,
    );
    expect(wanted([], { purge, force: true, resolved: operators }).objects).toHaveLength(all.length);
    expect(wanted([], { resolved: operators })).toEqual({ objects: [] });
  });

  it('is all that is declared where nobody else keeps objects and there is no record', () => {
    expect(wanted([], { purge, resolved }).objects).toEqual(purgeable(resolved));
  });
});

describe('parseInstalled()', () => {
  it.each<[string, Record<string, string>]>([
    ['nothing', {}],
    ['another inventory', { ...data, inventory: 'other' }],
    ['objects of which it does not say that they were created', { ...data, objects: '' }],
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
    expect(keptLines({ removed: [], kept: ['a thing'], others: [] }, { ...where, purge: false })).toEqual([
      'What certificates in use need stays in the API:',
      '  a thing',
      'When no component reads them any more, remove them: kube-cert-recovery uninstall --part=modes,approver --purge --kubeconfig=/etc/kubernetes/admin.conf',
    ]);
    expect(keptLines({ removed: ['x'], kept: [], others: [] }, { ...where, purge: false })).toEqual([]);
  });

  it('names the namespace that is ours alone, and no other', () => {
    const removed = ['Secret "kube-cert-recovery/x"'];
    for (const purge of [true, false])
      expect(keptLines({ removed, kept: [], others: [] }, { ...where, purge })).toEqual([
        'Namespace "kube-cert-recovery" stays; where nothing else is in it: kubectl --kubeconfig=/etc/kubernetes/admin.conf delete namespace kube-cert-recovery',
      ]);
    const others = ['Secret "openshift-kube-scheduler/x"'];
    expect(keptLines({ removed: others, kept: [], others: [] }, { ...where, purge: true })).toEqual([]);
  });

  it('does not name the namespace where other parts, or what certificates need, are in it', () => {
    const removed = ['Role "kube-cert-recovery/x"'];
    const others = ['ServiceAccount "kube-cert-recovery/y"'];
    expect(keptLines({ removed, kept: [], others }, { ...where, purge: false })).toEqual([]);
    expect(keptLines({ removed, kept: ['a thing'], others: [] }, { ...where, purge: false }).join()).not.toContain(
      'Namespace',
    );
  });
});
