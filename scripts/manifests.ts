// Writes manifests/. A test fails when a file there is stale.
import { mkdirSync, writeFileSync } from 'node:fs';
import { publishedManifests } from './published-manifests.ts';

const directory = new URL('../manifests/', import.meta.url);
for (const [name, text] of Object.entries(await publishedManifests())) {
  const file = new URL(name, directory);
  mkdirSync(new URL('.', file), { recursive: true });
  writeFileSync(file, text);
  console.log(`manifests/${name}`);
}
