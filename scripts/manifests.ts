// Writes manifests/rbac-*.yaml and manifests/systemd/ from the inventories. A test fails when they are stale.
import { mkdirSync, writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { manifestsYaml, publishedUnits } from './published-manifests.ts';

const directory = new URL('../manifests/', import.meta.url);
mkdirSync(directory, { recursive: true });
for (const [name, text] of Object.entries(manifestsYaml())) {
  writeFileSync(new URL(name, directory), await format(text, { parser: 'yaml', singleQuote: true, printWidth: 120 }));
  console.log(`manifests/${name}`);
}
for (const [name, text] of Object.entries(publishedUnits())) {
  const file = new URL(name, directory);
  mkdirSync(new URL('.', file), { recursive: true });
  writeFileSync(file, text);
  console.log(`manifests/${name}`);
}
