// `schema`: the JSON Schema of a file of ours, for editors and for checks before a roll-out.
import { jsonSchemas } from '../lib/config-json-schema.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';

export function schemaCommand(which: 'config' | 'inventory', io: Io): number {
  io.stdout.write(jsonSchemas()[which]);
  return exitCodes.done;
}
