// Holds docs/security.md against the code: each right and each reader names tests that there are, bounds are those of the
// readers, and what it says of capabilities is in the units.
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bounds } from '../../lib/bounds.ts';
import { publishedManifests } from '../../scripts/published-manifests.ts';
import { page, root, section, tables } from './markdown.ts';

const text = page('docs/security.md');
const flat = (words: string): string => words.replaceAll(/\s+/g, ' ').trim();

/** Each row has a number; one that goes on has none. Without it. */
function rowsOf(heading: string): readonly (readonly string[])[] {
  const rows: string[][] = [];
  for (const [number = '', ...cells] of tables(section(text, heading))[0] ?? []) {
    const before = number === '' ? (rows.pop() ?? []) : [];
    rows.push(cells.map((cell, at) => `${before[at] ?? ''} ${cell}`));
  }
  return rows.map((cells) => cells.map(flat));
}

const rights = rowsOf('What each stolen or misused right gives');
const readers = rowsOf('Who may write what this program reads');

/** A file and the title of a test in it, by number. */
const tests = new Map(
  [...section(text, 'Tests').matchAll(/^- \*\*(T\d+)\*\* `([^`]+)`: ([\s\S]*?)(?=^- |$(?![\s\S]))/gm)].map(
    ([, number = '', file = '', title = '']) => [number, { file, title: flat(title) }],
  ),
);

/** Whether the file calls something with this text first, as `it` and `test.each(...)` are called. */
function isTest({ file, title }: { readonly file: string; readonly title: string }): boolean {
  const path = join(root, file);
  if (!file.startsWith('test/') || !file.endsWith('.test.ts') || !existsSync(path)) return false;
  const calls = page(file)
    .replaceAll(String.raw`\'`, "'")
    .replaceAll(/\(\s+(?=['"`])/g, '(');
  return [`'`, `"`, '`'].some((quote) => calls.includes(`(${quote}${title}${quote},`));
}

describe.each([
  ['right', rights],
  ['reader', readers],
])('each %s', (_what, rows) => {
  it.each(rows.map(([who = '', ...rest]) => [who, rest.at(-1) ?? ''] as const))('names tests: %s', (_who, numbers) => {
    expect(numbers).toMatch(/^T\d+(?:, T\d+)*$/);
    expect(numbers.split(', ').filter((number) => !tests.has(number))).toEqual([]);
  });
});

it('knows what may be stolen, and what is read', () => {
  expect([rights.length, readers.length].map((count) => count >= 28)).toEqual([true, true]);
});

it.each([...tests].map(([number, test]) => [number, test] as const))('%s is a test that there is', (_number, test) => {
  expect(test.title).not.toBe('');
  expect(isTest(test)).toBe(true);
});

it('has no test that nothing names', () => {
  const [above = ''] = text.split('\n## Tests');
  const named = new Set([...above.matchAll(/\bT\d+\b/g)].map(([number]) => number));
  expect([...tests.keys()].filter((number) => !named.has(number))).toEqual([]);
  expect([...named].filter((number) => !tests.has(number))).toEqual([]);
});

it('isTest() finds no test by a part of its title, nor in a file that there is not', () => {
  const file = 'test/docs/security.test.ts';
  expect(isTest({ file, title: 'has no test that nothing names' })).toBe(true);
  expect(isTest({ file, title: 'has no test' })).toBe(false);
  expect(isTest({ file: 'test/none.test.ts', title: 'has no test that nothing names' })).toBe(false);
});

/** As the page writes a bound. */
function boundText(unit: string, most: number): string {
  if (unit !== 'bytes') return `${most.toLocaleString('en')} ${unit}`;
  return most >= 1 << 20 ? `${most / (1 << 20)} MiB` : `${most / 1024} KiB`;
}

it('has every bound of lib/bounds.ts, with who writes what it bounds, and no other number', () => {
  const known = Object.values(bounds).map(({ what, writers, most }) => [
    what,
    writers,
    Object.entries(most)
      .map(([unit, count]) => boundText(unit, count))
      .join(', '),
  ]);
  const documented = readers.map((row) => row.slice(0, 3));
  expect(documented.filter(([, , most = '']) => /\d/.test(most))).toEqual(known);
});

it('has no bound that no reader has', () => {
  const sources = globSync('lib/**/*.ts', { cwd: root }).map((path) => page(path));
  const code = sources.join('');
  const unread = Object.keys(bounds).filter((name) => !code.includes(`bounds.${name}.most`));
  expect(unread).toEqual([]);
});

it('has the capabilities of the units', async () => {
  const manifests = await publishedManifests();
  const of = (file: string): string =>
    (/^CapabilityBoundingSet=(.*)$/m.exec(manifests[file] ?? '')?.[1] ?? '')
      .replaceAll('CAP_', '')
      .replaceAll(' ', ', ');
  const identities = flat(section(text, 'Identities of the program'));
  for (const unit of ['kube-cert-recovery.service', 'kube-cert-recovery-adopted.service']) {
    expect(of(`systemd/${unit}`)).not.toBe('');
    expect(identities).toContain(`Capabilities: ${of(`systemd/${unit}`)}.`);
  }
});

it('stands where a reader looks for it', () => {
  for (const path of [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    'docs/api.md',
    'docs/workers.md',
    'docs/approver.md',
  ])
    expect(page(path), path).toMatch(/security\.md/i);
});
