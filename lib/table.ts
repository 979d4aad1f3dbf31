// Tables for people, in the form that kubectl and kubeadm have made usual.

export type Column<T> = readonly [title: string, text: (row: T) => string];

const padding = 3;

/**
 * A table like Go's text/tabwriter with kubeadm's padding: each cell but the last fills its column. Empty without rows.
 */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[]): string {
  if (rows.length === 0) return '';
  const lines = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, text]) => text(row)))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => (line[at] ?? '').length + padding)));
  const isLast = (at: number): boolean => at === columns.length - 1;
  const text = lines.map((line) => line.map((cell, at) => (isLast(at) ? cell : cell.padEnd(widths[at] ?? 0))).join(''));
  return `${text.join('\n')}\n`;
}
