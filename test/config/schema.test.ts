import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { jsonSchemas } from '../../lib/config/schema.ts';

interface JsonSchema {
  readonly properties: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: boolean;
  readonly required?: readonly string[];
}

describe('docs/schema', () => {
  it.each(Object.entries(jsonSchemas()))('%s.schema.json is not stale (run scripts/schema.ts)', (name, text) => {
    expect(readFileSync(new URL(`../../docs/schema/${name}.schema.json`, import.meta.url), 'utf8')).toBe(text);
  });

  it('refuses unknown keys, and asks for what has no default', () => {
    const schema = JSON.parse(jsonSchemas().config) as JsonSchema;
    expect(schema.additionalProperties).toBe(false);
    expect(schema.required).toEqual(['apiVersion', 'kind']);
    expect(schema.properties['inventory']).toMatchObject({ additionalProperties: false, required: ['artefacts'] });
  });
});
