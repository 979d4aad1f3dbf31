// Writes the table of relations in docs/trust.md from lib/trust/relations.ts. A test fails when it is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { relations, sidesOf } from '../lib/trust/relations.ts';

const codes = (texts: readonly string[]): string =>
  texts.map((text) => (text.includes(' --') ? `\`${text}\`` : text)).join(', ');

/** The page with the table as it should be. */
export async function withRelations(page: string): Promise<string> {
  const rows = relations.map((relation) => {
    const { id, breaks, seen } = relation;
    const { credential, trust } = sidesOf(relation);
    return [id, codes(credential), codes(trust), breaks, seen];
  });
  const head = ['', 'credential', 'must verify against', 'otherwise', 'how one sees it'];
  const lines = [head, head.map(() => '-'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  const table = await format(lines.join('\n'), { parser: 'markdown', printWidth: 120 });
  return page.replace(/(?<=\n## The relations\n(?:(?!\|).*\n)*)(?:\|.*\n)+/, () => table);
}

if (import.meta.main) {
  const file = new URL('../docs/trust.md', import.meta.url);
  writeFileSync(file, await withRelations(readFileSync(file, 'utf8')));
}
