import { format } from 'prettier';
import { expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { publishedObjects } from '../../scripts/published-objects.ts';
import { page, section } from '../docs/markdown.ts';

it('docs/openshift.md lists the objects of the presets (node scripts/openshift.ts writes it)', async () => {
  const wanted = await format(publishedObjects(), { parser: 'markdown', printWidth: 120 });
  expect(section(page('docs/openshift.md'), 'Objects').trim()).toBe(wanted.trim());
});

it.each(['openshift-kube-apiserver', 'openshift-kube-controller-manager', 'openshift-kube-scheduler'])(
  'the tables have every object of %s',
  (name) => {
    const text = section(page('docs/openshift.md'), name);
    const { artefacts } = loadPreset(name);
    expect(text.split('\n').filter((line) => /^\| (?:Secret|ConfigMap) /.test(line))).toHaveLength(artefacts.length);
    for (const { location } of artefacts) expect(text).toContain(`\`${'name' in location ? location.name : ''}\``);
  },
);
