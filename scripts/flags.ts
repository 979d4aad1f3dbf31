// Writes the tables of flags in docs/reference.md from the table of lib/config/flags.ts. A test fails when they are stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { type FlagOwner, type FlagRow, flagRows } from '../lib/config/flags.ts';

const code = (text: string): string => `\`${text}\``;
const usageOf = ({ usage }: FlagRow): string =>
  usage
    .split(', -')
    .map((one, at) => code(at === 0 ? one : `-${one}`))
    .join(', ');
const of = (...owners: readonly FlagOwner[]): readonly FlagRow[] =>
  flagRows.filter(({ owner }) => owners.includes(owner));

function table(second: string, rows: readonly (readonly string[])[]): string {
  const lines = [['flag', second, 'meaning'], ['-', '-', '-'], ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  return `${lines.join('\n')}\n`;
}
const inFile = (rows: readonly FlagRow[]): string[][] =>
  rows.map((row) => [usageOf(row), row.field === undefined ? '' : code(row.field), row.help]);

function tables(): readonly string[] {
  const ofCommander = [
    [`${code('-V')}, ${code('--version')}`, '', 'print version, commit and date of the build'],
    [`${code('-h')}, ${code('--help')}`, '', 'print help'],
  ];
  const commands = flagRows.filter(({ owner }) => owner !== 'all' && owner !== 'modes');
  const ofCommands = commands.map((row) => [usageOf(row), row.owner, row.help]);
  return [
    table('in the file', [...inFile(of('all')), ...ofCommander]),
    table('in the file', inFile(of('modes'))),
    table('command', ofCommands),
  ];
}

/** The page with the tables of flags as they are now. */
export async function withFlagTables(page: string): Promise<string> {
  const [...left] = tables();
  const text = page.replaceAll(/^\| flag [^]*?\n(?!\|)/gm, () => `${left.shift() ?? ''}\n`);
  return format(text, { parser: 'markdown', singleQuote: true, printWidth: 120 });
}

if (import.meta.main) {
  const file = new URL('../docs/reference.md', import.meta.url);
  writeFileSync(file, await withFlagTables(readFileSync(file, 'utf8')));
}
