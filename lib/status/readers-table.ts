// Who reads each file of a machine: the flags of its components that name it. Pure.
import { table } from '../table.ts';
import type { StatusRow } from './report.ts';

/** Empty where the flags of no component are known. */
export function readersTable(rows: readonly StatusRow[]): string {
  return table(
    rows.filter(({ readBy }) => readBy !== undefined && readBy.length > 0),
    [
      ['READ', ({ artefact }) => artefact],
      ['FILE', ({ location }) => /"(.*)"/.exec(location)?.[1] ?? location],
      ['BY', ({ readBy = [] }) => readBy.join(', ')],
    ],
  );
}
