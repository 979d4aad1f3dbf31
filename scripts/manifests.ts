// Writes manifests/rbac-*.yaml from the inventories. A test fails when they are stale.
import { mkdirSync, writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { manifestsYaml } from '../lib/install/published-manifests.ts';

const directory = new URL('../manifests/', import.meta.url);
mkdirSync(directory, { recursive: true });
for (const [name, text] of Object.entries(manifestsYaml())) {
  writeFileSync(new URL(name, directory), await format(text, { parser: 'yaml', singleQuote: true, printWidth: 120 }));
  console.log(`manifests/${name}`);
}
