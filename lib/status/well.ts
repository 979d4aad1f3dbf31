// Whether a report leaves nothing to wait for, and what of it a watcher sees change. Pure.
import { nodeRows, type NodeStatus } from './node-report.ts';
import type { StatusReport } from './report.ts';
import { waitsForRestart } from './verdict.ts';

/** Healthy, but for restarts of a later day, and every server of this machine answers. */
export const isWell = (status: NodeStatus): boolean =>
  (status.class === 'healthy' || waitsForRestart(status)) && status.served.every((one) => one.state !== 'unreachable');

/** Fields that change by the passing of time alone, such as the end of the last run; sentences may hold dates. */
const passing: ReadonlySet<string> = new Set(['at', 'residualMs', 'recheckAt', 'reasons', 'message', 'outlook']);

const seenOf = (status: NodeStatus | StatusReport): string =>
  JSON.stringify(status, (field, value: unknown) => (passing.has(field) ? undefined : value));

export const isChanged = (one: NodeStatus | StatusReport, other: NodeStatus | StatusReport): boolean =>
  seenOf(one) !== seenOf(other);

/** Entries with another certificate than before. */
export function madeSince(before: NodeStatus, now: NodeStatus): readonly string[] {
  const ends = new Map(nodeRows(before).map(({ artefact, notAfter }) => [artefact, notAfter?.getTime()]));
  return nodeRows(now).flatMap(({ artefact, notAfter }) =>
    notAfter !== undefined && ends.get(artefact) !== notAfter.getTime() ? [artefact] : [],
  );
}
