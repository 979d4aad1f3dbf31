// JSON Schemas of the files that people write, made from the schemas that check them.
import * as z from 'zod';
import { configFileSchema } from './config-schema.ts';
import { inventoryFileSchema } from './inventory/schema.ts';

const textOf = (schema: z.ZodType): string =>
  `${JSON.stringify(z.toJSONSchema(schema, { io: 'input', reused: 'inline' }), null, 2)}\n`;

/** The text of each schema file. */
export function jsonSchemas(): Readonly<Record<'config' | 'inventory', string>> {
  return { config: textOf(configFileSchema), inventory: textOf(inventoryFileSchema) };
}
