// Holds docs/machine-config-daemon.md against the preset, and against the tests that it names.
import { describe, expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { allDirectories, filesOf, isFile, pathHere } from '../../lib/inventory/places.ts';
import { retiredAnnotation } from '../../lib/plan/union-rules.ts';
import { firstCodes, page } from './markdown.ts';

const text = page('docs/machine-config-daemon.md');
const inventory = loadPreset('openshift-node-ca');

describe('the page about the machine-config daemon', () => {
  it('has the files of the preset', () => {
    const directories = allDirectories(inventory, {});
    const files = inventory.artefacts.flatMap(({ location }) =>
      isFile(location) ? filesOf(location).map(({ file }) => pathHere(file, { directories })) : [],
    );
    const told = firstCodes(text).map((file) => (file.startsWith('/') ? file : `/etc/kubernetes/${file}`));
    expect(told.toSorted()).toEqual(files.toSorted());
  });

  it('has the sources of the preset, and the annotation', () => {
    for (const { location } of inventory.artefacts) {
      if (location.kind === 'field') expect(text).toContain(`\`${location.path}\``);
      if (location.kind === 'configMap') expect(text).toContain(`\`${location.name}\``);
    }
    expect(text).toContain(retiredAnnotation);
  });

  it('names tests that there are', () => {
    const named = [...text.matchAll(/`(test\/\S+\.test\.ts)`: "([^"]+)"/g)];
    expect(named.length).toBeGreaterThan(7);
    for (const [, file = '', title = ''] of named) expect(page(file)).toContain(`'${title}'`);
  });
});
