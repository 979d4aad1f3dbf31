// Writes the table of decisions in docs/reasons.md from lib/plan/reasons.ts. A test fails when it is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { reasons } from '../lib/plan/reasons.ts';

/** The page with the table as it should be. */
export function withReasons(page: string): string {
  const rows = [
    ['reason', 'action', 'meaning', 'what follows'],
    ...Object.entries(reasons).map(([reason, explained]) => [`\`${reason}\``, ...explained]),
  ];
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[], fill = ' '): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0, fill)).join(' | ')} |`;
  const [head = [], ...body] = rows.map((row) => line(row));
  const table = [head, line(['', '', '', ''], '-'), ...body].join('\n');
  return page.replace(/(?<=\n## Decisions\n(?:(?!\|).*\n)*)(?:\|.*\n)+/, `${table}\n`);
}

if (import.meta.main) {
  const file = new URL('../docs/reasons.md', import.meta.url);
  writeFileSync(file, withReasons(readFileSync(file, 'utf8')));
}
