// What was measured, as a table: one line for each measurement, kept between two markers of a document. A later run of
// some rows replaces these and leaves the others, so each line says when and under what load it was measured.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';

export interface Measured {
  readonly what: string;
  readonly unit: 'ms' | 'MB';
  /** Every single value, unsorted. */
  readonly values: readonly number[];
  /** As DESIGN states it: "p99 <= 20". */
  readonly goal?: string;
}

export interface Line extends Measured {
  readonly row: string;
  readonly load: string;
  readonly at: Date;
}

const begin = '<!-- measured: begin -->';
const end = '<!-- measured: end -->';
const header = ['row', 'what', 'unit', 'n', 'min', 'median', 'p99', 'max', 'goal', 'measured', 'load'];

/** Nearest rank: of fewer than a hundred values the p99 is the greatest. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}

const figure = (value: number): string => value.toFixed(value < 100 ? 1 : 0);

function cells({ row, what, unit, values, goal = '', at, load }: Line): string[] {
  const figures = [0, 0.5, 0.99, 1].map((q) => figure(quantile(values, q)));
  const when = at.toISOString().slice(0, 16).replace('T', ' ');
  return [row, what, unit, String(values.length), ...figures, goal, when, load];
}

const aligned = (rows: readonly (readonly string[])[]): string => {
  const widths = header.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  const [first = [], ...rest] = rows;
  return [line(first), line(widths.map((width) => '-'.repeat(width))), ...rest.map(line)].join('\n');
};

export function table(lines: readonly Line[]): string {
  return aligned([header, ...lines.map(cells)]);
}

export function machine(): string {
  const [first] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} x ${first?.model ?? 'cpu'}, ${memory} GiB, Linux ${release()}, Node ${process.versions.node}`;
}

/** Of the last minute and of the last five: what others do on this machine is part of the result. */
export const load = (): string =>
  loadavg()
    .slice(0, 2)
    .map((value) => value.toFixed(1))
    .join(' ');

/** Puts `lines` into the document: rows measured now replace their former lines. */
export function record(document: string, command: string, lines: readonly Line[]): void {
  const text = readFileSync(document, 'utf8');
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${document} has no markers ${begin} and ${end}`);
  const measuredNow = new Set(lines.map(({ row }) => row));
  const former = text
    .slice(from, to)
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
    .filter(([row = '']) => !measuredNow.has(row));
  const rows = [...former, ...lines.map(cells)].toSorted(([a = ''], [b = '']) => (a < b ? -1 : a > b ? 1 : 0));
  const block = [begin, '', `Last run: \`${command}\` on ${machine()}.`, '', aligned([header, ...rows]), '', end];
  writeFileSync(document, text.slice(0, from) + block.join('\n') + text.slice(to + end.length));
}
