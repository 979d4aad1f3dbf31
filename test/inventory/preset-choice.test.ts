import { describe, expect, it } from 'vitest';
import { allDirectories } from '../../lib/inventory/places.ts';
import { loadPreset, presetNames, presetText } from '../../lib/inventory/preset.ts';
import { chosenInventory, chosenPreset, presetChoice } from '../../lib/inventory/preset-choice.ts';
import { readYaml } from '../../lib/yaml.ts';

const bottlerocket = presetChoice(presetText('eks-anywhere-bottlerocket'));

describe('presetChoice()', () => {
  it('is none for an inventory', () => {
    expect(presetChoice(presetText('etcdadm'))).toBeUndefined();
  });

  it('refuses what is none', () => {
    expect(() => presetChoice('kind: PresetChoice\nname: x\n')).toThrow(/^Cannot choose a preset: .*presets: /);
  });
});

describe('chosenPreset()', () => {
  it('is the first whose file is there, else the last', () => {
    const there = (path: string): boolean => path === '/var/lib/etcd/pki/ca.crt';
    expect(bottlerocket && chosenPreset(bottlerocket, there)).toMatchObject({ preset: 'etcdadm' });
    expect(bottlerocket && chosenPreset(bottlerocket, () => false)).toMatchObject({ preset: 'kubeadm' });
  });
});

describe('chosenInventory()', () => {
  it('has the name and the directories of the choice, and what lies below them follows', () => {
    const chosen = bottlerocket && chosenPreset(bottlerocket, () => false);
    const inventory = chosenInventory(loadPreset('kubeadm'), 'mine', chosen ?? { directories: {} });
    expect(inventory.name).toBe('mine');
    expect(allDirectories(inventory, {})).toMatchObject({
      pkiDir: '/var/lib/kubeadm/pki',
      kubeletDir: '/var/lib/kubelet',
    });
    expect(allDirectories(inventory, { pkiDir: '/p' })).toMatchObject({ pkiDir: '/p' });
  });

  it('is one of presets that are there, with directories that they declare', () => {
    for (const name of presetNames()) {
      const { value } = readYaml(presetText(name)) as { readonly value: { readonly presets?: readonly Choice[] } };
      for (const { preset, directories = {} } of value.presets ?? []) {
        expect(presetChoice(presetText(preset)), preset).toBeUndefined();
        expect(Object.keys(loadPreset(preset).directories ?? {})).toEqual(
          expect.arrayContaining(Object.keys(directories)),
        );
      }
    }
  });

  it.each(['etcdadm', 'eks-anywhere', 'eks-anywhere-bottlerocket'])('%s says in a line what it is', (name) => {
    expect(/^description: (.*)$/m.exec(presetText(name))?.[1]).toMatch(/^(?:the|an?|what) .{16,96}$/);
  });
});

interface Choice {
  readonly preset: string;
  readonly directories?: Readonly<Record<string, string>>;
}
