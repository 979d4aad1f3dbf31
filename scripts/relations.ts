// Writes the table of relations in docs/trust.md from lib/trust/relations.ts. A test fails when it is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { bundleKinds, relations, sidesOf } from '../lib/trust/relations.ts';

const codes = (texts: readonly string[]): string =>
  texts.map((text) => (text.includes(' --') ? `\`${text}\`` : text)).join(', ');

/** The page with both tables as they should be. */
export async function withRelations(page: string): Promise<string> {
  const rows = relations.map((relation) => {
    const { id, breaks, seen } = relation;
    const { credential, trust } = sidesOf(relation);
    return [id, codes(credential), codes(trust), breaks, seen];
  });
  const bundles = Object.entries(bundleKinds).map(([id, { of, breaks, seen }]) => [id, of.join(', '), breaks, seen]);
  const first = await withTable(page, 'The relations', [
    ['', 'credential', 'must verify against', 'otherwise', 'how one sees it'],
    ...rows,
  ]);
  return withTable(first, 'With the API', [['', 'caBundle of', 'without a valid one', 'how one sees it'], ...bundles]);
}

/** The page with these rows, the head first, as the first table below a heading. */
async function withTable(page: string, heading: string, rows: readonly (readonly string[])[]): Promise<string> {
  const lines = [...rows.slice(0, 1), rows[0]?.map(() => '-') ?? [], ...rows.slice(1)];
  const text = lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const table = await format(text, { parser: 'markdown', printWidth: 120 });
  return page.replace(new RegExp(`(?<=\\n## ${heading}\\n(?:(?!\\|).*\\n)*)(?:\\|.*\\n)+`), () => table);
}

if (import.meta.main) {
  const file = new URL('../docs/trust.md', import.meta.url);
  writeFileSync(file, await withRelations(readFileSync(file, 'utf8')));
}
