// Writes the tables of docs/openshift.md from the presets. A test fails when they are stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { publishedObjects } from './published-objects.ts';

const page = new URL('../docs/openshift.md', import.meta.url);
const heading = '## Objects\n';
const text = readFileSync(page, 'utf8');
const kept = text.slice(0, text.indexOf(heading) + heading.length);
writeFileSync(page, await format(`${kept}\n${publishedObjects()}\n`, { parser: 'markdown', printWidth: 120 }));
console.log('docs/openshift.md');
