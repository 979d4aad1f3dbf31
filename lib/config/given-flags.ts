// Given flags that select the machine and the objects, for a follow-up command on the same ones. Pure.
import { resolve } from 'node:path';
import type { Given } from '../next-command.ts';
import { flagRows, type FlagRow, type FlagsOf, typedValue } from './flags.ts';

const named: ReadonlySet<string> = new Set(['--config', '--parameter', '--directory']);

const rows = flagRows.filter(
  ({ owner, flag, isOfCluster = false }) => owner === 'all' && (isOfCluster || named.has(flag)),
);

/** Absolute paths, because the next command may run in another directory. */
export const sameInventory = (line: FlagsOf<'all'>, cwd: string): Given => givenOf(rows, line, cwd);

/** The subset for `init host`, which accepts only flags that its units use. */
export const sameMachine = (line: FlagsOf<'all'>, cwd: string): Given =>
  givenOf(
    rows.filter(({ units }) => units === 'kept'),
    line,
    cwd,
  );

const givenOf = (wanted: readonly FlagRow[], line: FlagsOf<'all'>, cwd: string): Given =>
  Object.fromEntries(wanted.map((row) => [row.flag, inFull(row, typedValue(line, row), cwd)]));

function inFull({ as }: FlagRow, typed: Given[string], cwd: string): Given[string] {
  if (as === 'path' && typeof typed === 'string') return resolve(cwd, typed);
  if (as !== 'pathsByName' || typeof typed !== 'object') return typed;
  return typed.map((text) => text.replace(/(?<==).*$/s, (path) => resolve(cwd, path)));
}
