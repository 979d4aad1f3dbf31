// Readers of each file of a machine: the flags of its components that name it. Pure.
import { table } from '../table.ts';
import type { StatusRow } from './report.ts';

/** Empty where the flags of no component are known. */
export function readersTable(rows: readonly StatusRow[]): string {
  return table(
    rows.flatMap(({ artefact, readBy }) =>
      readBy === undefined || readBy.flags.length === 0 ? [] : [{ artefact, ...readBy }],
    ),
    [
      ['READ', ({ artefact }) => artefact],
      ['FILE', ({ file }) => file],
      ['BY', ({ flags }) => flags.join(', ')],
    ],
  );
}
