// The end of `init host`'s output: the units as a list, the next date, how a wait ended, and the verdict of `status`.
// Pure.
import { inBatches } from '../plan/ahead-rules.ts';
import { listed } from '../summary.ts';
import { expiresText } from './expiry-text.ts';
import { nodeRows, type NodeStatus } from './node-report.ts';
import { verdictOf } from './verdict.ts';
import { isWell, madeSince } from './well.ts';

export interface UnitChange {
  readonly path: string;
  /** When it runs, and what it does then. */
  readonly does?: string | undefined;
  readonly isChanged: boolean;
}

/** `isCheck`: nothing was written, and `isChanged` says what would be. */
export const unitLines = (units: readonly UnitChange[], isCheck: boolean): readonly string[] =>
  units.flatMap(({ path, does, isChanged }) => [
    isChanged ? `${isCheck ? 'Would write' : 'Wrote'} ${path}` : `Unchanged: ${path}`,
    ...(does === undefined ? [] : [`  ${does}`]),
  ]);

/** The first renewal, else the first expiry, of what is made here. */
export function nextDate(status: NodeStatus): { readonly at: Date; readonly names: readonly string[] } | undefined {
  const dated = nodeRows(status).flatMap(({ artefact, kind, renewsAt, notAfter }) => {
    const at = renewsAt ?? (kind === 'target' ? notAfter : undefined);
    return at === undefined || at < status.at ? [] : [{ artefact, at }];
  });
  return inBatches(dated)[0];
}

export function installedLines(status: NodeStatus): readonly string[] {
  const next = nextDate(status);
  return [
    ...(next === undefined ? [] : [`Next: ${expiresText(next.at)}: ${listed(next.names)}`]),
    ...status.notes.map((note) => `Note: ${note}`),
    ...status.problems.map((problem) => `To do: ${problem}`),
    ...verdictOf(status).lines,
  ];
}

/** Ends with `back: 12 reissued, served, node Ready in 31 s`. */
export function waitedLines(
  before: NodeStatus,
  now: NodeStatus,
  { hasNode, isReady, tookMs }: { readonly hasNode: boolean; readonly isReady: boolean; readonly tookMs: number },
): readonly string[] {
  const made = madeSince(before, now);
  const seconds = `${Math.round(tookMs / 1000)} s`;
  if (!isWell(now) || !isReady)
    return [`not back after ${seconds}: ${isWell(now) ? 'the node is not Ready' : verdictOf(now).lines[0]}`];
  return [
    ...(made.includes('admin.conf')
      ? ['For kubectl: copy admin.conf again; a former copy is answered Unauthorized.']
      : []),
    `back: ${made.length} reissued, served${hasNode ? ', node Ready' : ''} in ${seconds}`,
  ];
}
