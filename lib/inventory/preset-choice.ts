// A preset that chooses between other presets by the files on this machine: data, like the rest. The caller checks the
// files.
import * as z from 'zod';
import { RecoveryError } from '../errors.ts';
import { apiVersion } from '../well-known.ts';
import { readYaml } from '../yaml.ts';
import type { Inventory } from './model.ts';
import { checkShape } from './shape.ts';
import { directoryPath, objectName, parameterName, someText } from './values.ts';

const choiceSchema = z.strictObject({
  apiVersion: z.literal(apiVersion),
  kind: z.literal('PresetChoice'),
  name: objectName,
  description: someText.max(100).describe('What it is for, in a list of presets'),
  presets: z
    .array(
      z.strictObject({
        preset: objectName,
        where: directoryPath.exactOptional().describe('A file that only such a machine has. The last one is without'),
        directories: z.record(parameterName, directoryPath).default({}).describe('In place of its defaults'),
      }),
    )
    .min(1),
});

export type PresetChoice = z.output<typeof choiceSchema>;
type Chosen = PresetChoice['presets'][number];

/** Returns the choice that a preset is; undefined for an inventory. Throws InventoryInvalid. */
export function presetChoice(text: string): PresetChoice | undefined {
  const { value } = readYaml(text);
  if ((value as { readonly kind?: unknown } | null)?.kind !== 'PresetChoice') return undefined;
  const shape = checkShape(choiceSchema, value);
  if (!('value' in shape)) {
    const told = shape.problems.map(({ path, message }) => `${path}: ${message}`).join('; ');
    throw new RecoveryError('InventoryInvalid', `Cannot choose a preset: ${told}`);
  }
  return shape.value;
}

/** Returns the first preset whose file exists, else the last. */
export function chosenPreset({ presets }: PresetChoice, isThere: (path: string) => boolean): Chosen | undefined {
  return presets.find(({ where }) => where !== undefined && isThere(where)) ?? presets.at(-1);
}

/** Returns the chosen inventory, with the name and directories of the choice. The configuration beats these. */
export function chosenInventory(
  inventory: Inventory,
  name: string,
  { directories }: Pick<Chosen, 'directories'>,
): Inventory {
  const declared = Object.entries(inventory.directories ?? {}).map(([key, one]) => {
    const chosen = directories[key];
    return [key, chosen === undefined ? one : { ...one, default: chosen }] as const;
  });
  return { ...inventory, name, directories: Object.fromEntries(declared) };
}
