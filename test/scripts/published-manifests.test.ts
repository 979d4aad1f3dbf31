import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { publishedManifests } from '../../scripts/published-manifests.ts';
import { page, root } from '../docs/markdown.ts';

const published = await publishedManifests();

it.each(Object.entries(published))('manifests/%s is what the code writes (npm run manifests)', (name, text) => {
  expect(page(`manifests/${name}`)).toBe(text);
});

it.each(Object.entries(published))('no comment in manifests/%s has more than 120 characters in a line', (_, text) => {
  expect(text.split('\n').filter((line) => line.startsWith('#') && line.length > 120)).toEqual([]);
});

/** Written by hand, and applied by test/e2e/packages.test.ts. */
const byHand = ['ansible', 'cloud-init'].map((name) => `${root}manifests/${name}/`);

it('manifests/ holds nothing else', () => {
  const entries = readdirSync(`${root}manifests`, { recursive: true, withFileTypes: true });
  const files = entries.filter((one) => one.isFile()).map((one) => `${one.parentPath}/${one.name}`);
  expect(files.filter((path) => !byHand.some((folder) => path.startsWith(folder))).toSorted()).toEqual(
    Object.keys(published)
      .map((name) => `${root}manifests/${name}`)
      .toSorted(),
  );
});
