// Presets: inventories that come with the program, one YAML file each. A distribution is a file; where
// its names must be found on a machine or in its API, a finder besides (finders.ts).
// They lie in `presets` beside this file, and beside the bundled program (dist/app/presets).
import { readdirSync, readFileSync } from 'node:fs';
import { errorText, RecoveryError } from '../errors.ts';
import { suggestion } from '../problems.ts';
import { loadInventory } from './load.ts';
import type { LoadOptions } from './load.ts';
import type { Inventory } from './model.ts';

const directory = new URL('./presets/', import.meta.url);
const extension = '.yaml';

/** Where presets come from; another one in tests of the configuration. */
export interface PresetSource {
  readonly names: () => readonly string[];
  readonly text: (name: string) => string;
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

/** The YAML of a preset. Throws InventoryInvalid for an unknown name. */
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

export const installedPresets: PresetSource = { names: presetNames, text: presetText };

export function loadPreset(name: string, { namespace }: Pick<LoadOptions, 'namespace'> = {}): Inventory {
  return loadInventory(presetText(name), { namespace, source: `preset ${name}` });
}
