// Reads the parts of a Markdown page that tests hold against the code: tables, fenced blocks, links, headings.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export const page = (path: string): string => readFileSync(`${root}${path}`, 'utf8');

/** The text below the heading of that name, up to the next heading of the same or a higher level. */
export function section(text: string, heading: string): string {
  const lines = text.split('\n');
  const from = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (from < 0) throw new Error(`No heading "${heading}"`);
  const level = /^#+/.exec(lines[from] ?? '')?.[0].length ?? 1;
  const rest = lines.slice(from + 1);
  const to = rest.findIndex((line, at) => isHeading(rest, at) && (/^#+/.exec(line)?.[0].length ?? 9) <= level);
  return rest.slice(0, to < 0 ? rest.length : to).join('\n');
}

/** A line that begins with "#" inside a fenced block is a comment. */
function isHeading(lines: readonly string[], at: number): boolean {
  const fences = lines.slice(0, at).filter((line) => line.startsWith('```')).length;
  return fences % 2 === 0 && /^#+ /.test(lines[at] ?? '');
}

export function headings(text: string): string[] {
  const lines = text.split('\n');
  return lines.flatMap((line, at) => (isHeading(lines, at) ? [line.replace(/^#+ /, '')] : []));
}

/** The rows of every table, without heads: cells as text. */
export function tables(text: string): string[][][] {
  const groups = text.split(/\n(?!\|)/).map((part) => part.split('\n').filter((line) => line.startsWith('|')));
  return groups.flatMap((lines) => (lines.length < 3 ? [] : [lines.slice(2).map(cells)]));
}

function cells(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** What stands in backticks. */
export function codes(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

/** The first code of a text; empty where there is none. */
export const firstCode = (text = ''): string => codes(text)[0] ?? '';

/** The first code of the first cell of each row of the nth table. */
export function firstCodes(text: string, table = 0): string[] {
  return (tables(text)[table] ?? []).flatMap(([first = '']) => codes(first).slice(0, 1));
}

export interface Block {
  readonly language: string;
  readonly text: string;
}

export function blocks(text: string): Block[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', body = '']) => ({
    language,
    text: body,
  }));
}

export interface Link {
  readonly path: string;
  readonly anchor: string | undefined;
}

/** Links that lead to files of the project. */
export function relativeLinks(text: string): Link[] {
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return targets
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = '', anchor] = target.split('#', 2);
      return { path, anchor };
    });
}

/** The anchor that a heading gets. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

/** The members of a union of string literals, as the source declares them. */
export function unionMembers(source: string, name: string): string[] {
  const declaration = new RegExp(`(?:export )?type ${name} =([^;]*);`).exec(source)?.[1];
  if (declaration === undefined) throw new Error(`No type ${name}`);
  return [...declaration.matchAll(/'([^']+)'/g)].map(([, member = '']) => member);
}
