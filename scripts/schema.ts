// Writes the JSON Schemas below docs/schema. A test fails when they are stale.
import { mkdirSync, writeFileSync } from 'node:fs';
import { jsonSchemas } from '../lib/config/schema.ts';

const directory = new URL('../docs/schema/', import.meta.url);
mkdirSync(directory, { recursive: true });
for (const [name, text] of Object.entries(jsonSchemas()))
  writeFileSync(new URL(`${name}.schema.json`, directory), text);
