// Presets: inventories that come with the program, one YAML file each. A distribution is a file; where its names must
// be found on a machine or in its API, a finder as well (finders.ts). They lie in `presets` next to this file, and next
// to the bundled program (dist/app/presets), where each has been checked already: the build writes it as JSON as well,
// and reading that takes a tenth of the time.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { errorText, RecoveryError } from '../errors.ts';
import { suggestion } from '../problems.ts';
import { checkedInventory, loadInventory, type LoadOptions, placedInventory, type RawInventoryFile } from './load.ts';
import type { Inventory } from './model.ts';
import { allDirectories } from './places.ts';
import { chosenInventory, chosenPreset, presetChoice, type PresetChoice } from './preset-choice.ts';
import type { Environment } from './resolve.ts';

const directory = new URL('./presets/', import.meta.url);
const extension = '.yaml';

/** Source of presets; replaced in tests of the configuration. */
export interface PresetSource {
  readonly names: () => readonly string[];
  /** Throws InventoryInvalid for an unknown name. */
  readonly load: (name: string, options: LoadOptions) => Inventory;
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

function requireKnown(name: string): void {
  const names = presetNames();
  if (names.includes(name)) return;
  throw new RecoveryError('InventoryInvalid', `Cannot load preset "${name}": unknown${suggestion(name, names)}`);
}

function readPreset(name: string, suffix: string): string {
  try {
    return readFileSync(new URL(`${name}${suffix}`, directory), 'utf8');
  } catch (cause) {
    throw new RecoveryError('ReadFailed', `Cannot read preset "${name}": ${errorText(cause)}`, { cause });
  }
}

/** Returns the YAML of a preset. Throws InventoryInvalid for an unknown name. */
export function presetText(name: string): string {
  requireKnown(name);
  return readPreset(name, extension);
}

type CheckedPreset = RawInventoryFile | PresetChoice;

/** Returns a preset as the build writes it. Throws InventoryInvalid. */
export function checkedPreset(name: string): CheckedPreset {
  const text = presetText(name);
  return presetChoice(text) ?? checkedInventory(text, { source: `preset ${name}` });
}

/** Undefined when this is no build. */
function builtPreset(name: string): CheckedPreset | undefined {
  if (!existsSync(new URL(`${name}.json`, directory))) return undefined;
  return JSON.parse(readPreset(name, '.json')) as CheckedPreset;
}

export function loadPreset(name: string, options: LoadOptions = {}): Inventory {
  requireKnown(name);
  const built = builtPreset(name);
  if (built?.kind === 'Inventory') return placedInventory(built, options);
  if (built !== undefined) return loadChosen(name, built, options);
  const text = presetText(name);
  const choice = presetChoice(text);
  if (choice === undefined) return loadInventory(text, { ...options, source: `preset ${name}` });
  return loadChosen(name, choice, options);
}

function loadChosen(name: string, choice: PresetChoice, options: LoadOptions): Inventory {
  const chosen = chosenPreset(choice, existsSync);
  if (chosen === undefined)
    throw new RecoveryError('InventoryInvalid', `Cannot load preset "${name}": it has no presets`);
  return chosenInventory(loadPreset(chosen.preset, options), name, chosen);
}

export const installedPresets: PresetSource = { names: presetNames, load: loadPreset };

interface OfMachine {
  readonly inventory: Inventory;
  readonly environment: Environment;
}

/** Returns the same machine by another preset: of the former inventory only the directories count. */
export function withPreset<M extends OfMachine>(machine: M, name: string, options: LoadOptions = {}): M {
  const inventory = loadPreset(name, options);
  const known = allDirectories(machine.inventory, machine.environment.directories ?? {});
  const names = Object.keys(inventory.directories ?? {}).filter((one) => known[one] !== undefined);
  const directories = Object.fromEntries(names.map((one) => [one, known[one] ?? '']));
  return { ...machine, inventory, environment: { directories } };
}
