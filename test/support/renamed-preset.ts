// A preset whose artefacts have other names and lie where they did: what follows from it may differ in these names only.
import { loadInventory } from '../../lib/inventory/load.ts';
import type { Inventory } from '../../lib/inventory/model.ts';
import { loadPreset, presetText } from '../../lib/inventory/preset.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';

/** Fields of an artefact and of its readers that name artefacts. */
const references = new Set(['name', 'issuer', 'signers', 'inputs', 'of', 'client', 'authority', 'supersededBy']);

export const otherName = (name: string): string => `other-${name}`;

export function renamedPreset(preset: string): Inventory {
  const names = new Set(loadPreset(preset).artefacts.map(({ name }) => name));
  const rename = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(rename);
    return typeof value === 'string' && names.has(value) ? otherName(value) : value;
  };
  const renamed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(renamed);
    if (typeof value !== 'object' || value === null) return value;
    const fields = Object.entries(value).map(([field, one]) => {
      // Names of objects and of components stay.
      if (field === 'location' || field === 'proof' || field === 'flags') return [field, one];
      return [field, references.has(field) ? rename(one) : renamed(one)];
    });
    return Object.fromEntries(fields);
  };
  const { artefacts, ...head } = parseYaml(presetText(preset)) as Record<string, unknown>;
  return loadInventory(toYaml({ ...head, artefacts: renamed(artefacts) }));
}
