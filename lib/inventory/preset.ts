// Presets: inventories that come with the program, one YAML file each. A distribution is a file; where its names must
// be found on a machine or in its API, a finder as well (finders.ts). They lie in `presets` next to this file, and next
// to the bundled program (dist/app/presets).
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { errorText, RecoveryError } from '../errors.ts';
import { suggestion } from '../problems.ts';
import { loadInventory } from './load.ts';
import type { LoadOptions } from './load.ts';
import type { Inventory } from './model.ts';
import { type Chosen, chosenIn, chosenInventory } from './preset-choice.ts';

const directory = new URL('./presets/', import.meta.url);
const extension = '.yaml';

/** Source of presets; replaced in tests of the configuration. */
export interface PresetSource {
  readonly names: () => readonly string[];
  readonly text: (name: string) => string;
  /** Returns the chosen preset of a choice; undefined for an inventory. */
  readonly choice: (name: string) => Chosen | undefined;
}

export function presetNames(): readonly string[] {
  try {
    const files = readdirSync(directory).filter((file) => file.endsWith(extension));
    return files.map((file) => file.slice(0, -extension.length)).toSorted();
  } catch (cause) {
    const message = `Cannot list presets in "${directory.pathname}": ${errorText(cause)}; the installation is incomplete`;
    throw new RecoveryError('ReadFailed', message, { cause });
  }
}

/** Returns the YAML of a preset. Throws InventoryInvalid for an unknown name. */
export function presetText(name: string): string {
  const names = presetNames();
  if (!names.includes(name)) {
    throw new RecoveryError('InventoryInvalid', `Cannot load preset "${name}": unknown${suggestion(name, names)}`);
  }
  try {
    return readFileSync(new URL(`${name}${extension}`, directory), 'utf8');
  } catch (cause) {
    throw new RecoveryError('ReadFailed', `Cannot read preset "${name}": ${errorText(cause)}`, { cause });
  }
}

const presetChoice = (name: string): Chosen | undefined => chosenIn(presetText(name), existsSync);

export const installedPresets: PresetSource = { names: presetNames, text: presetText, choice: presetChoice };

export function loadPreset(name: string, { namespace }: Pick<LoadOptions, 'namespace'> = {}): Inventory {
  const chosen = presetChoice(name);
  const preset = chosen?.preset ?? name;
  const inventory = loadInventory(presetText(preset), { namespace, source: `preset ${preset}` });
  return chosen === undefined ? inventory : chosenInventory(inventory, name, chosen);
}
