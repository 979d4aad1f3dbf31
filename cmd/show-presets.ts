// `preset`: names of the inventories that come with the program, or the text of a single one.
import { loadPreset, presetNames, presetText } from '../lib/inventory/preset.ts';
import { table } from '../lib/table.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';

/** Throws InventoryInvalid for an unknown name. */
export function presetCommand(name: string | undefined, io: Pick<Io, 'stdout'>): number {
  if (name !== undefined) {
    io.stdout.write(presetText(name));
    return exitCodes.done;
  }
  const presets = presetNames().map((one) => loadPreset(one));
  io.stdout.write(
    table(presets, [
      ['PRESET', (preset) => preset.name],
      ['ENTRIES', ({ artefacts }) => String(artefacts.length)],
      ['DESCRIPTION', ({ description = '' }) => description],
    ]),
  );
  return exitCodes.done;
}
