// Presets in the built program, which are not checked again at its start.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { checkedPreset, presetNames } from '../../lib/inventory/preset.ts';

describe('dist/app/presets', () => {
  it.each(presetNames())('%s.json is the checked YAML of this commit', (name) => {
    const text = readFileSync(new URL(`../../dist/app/presets/${name}.json`, import.meta.url), 'utf8');
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(checkedPreset(name))));
  });
});
