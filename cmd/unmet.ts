// What is not as it should be at the end of `--once`, one sentence each; none when all is well.
import type { ArtefactReport, RegenReport } from '../lib/regen/journal.ts';

export interface UnmetCondition {
  readonly message: string;
  /** What somebody must bring: it, or the CA that would sign it, is never made here. */
  readonly byHand?: boolean;
}

export function unmetConditions({ gaveUp, artefacts }: RegenReport): readonly UnmetCondition[] {
  return [
    ...(gaveUp === undefined ? [] : [{ message: `regen gave up: ${gaveUp}` }]),
    ...artefacts
      .filter((row) => isUnmet(row))
      .map(({ artefact, message, err, byHand }) => ({
        message: `${artefact}: ${err ?? message}`,
        ...(byHand === true && { byHand }),
      })),
  ];
}

/** An attempt that failed and left nothing to do, because its answer was lost or another writer was quicker, is none. */
export function isUnmet({ action, outcome }: ArtefactReport): boolean {
  return action === 'blocked' || (action === 'renew' && outcome === 'failed');
}
