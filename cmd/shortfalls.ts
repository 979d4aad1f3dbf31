// What is not as it should be at the end of `--once`, one sentence each; none when all is well.
import type { ArtefactReport, RegenReport } from '../lib/regen/journal.ts';

export interface Shortfall {
  readonly message: string;
  /** What somebody must bring: it, or the CA that would sign it, is never made here. */
  readonly byHand?: boolean;
}

export function shortfallsOf({ gaveUp, artefacts }: RegenReport): readonly Shortfall[] {
  return [
    ...(gaveUp === undefined ? [] : [{ message: `regen gave up: ${gaveUp}` }]),
    ...artefacts
      .filter((row) => isShort(row))
      .map(({ artefact, message, err, byHand }) => ({
        message: `${artefact}: ${err ?? message}`,
        ...(byHand === true && { byHand }),
      })),
  ];
}

/** An attempt that failed and left nothing to do, because its answer was lost or another writer was quicker, is none. */
export function isShort({ action, outcome }: ArtefactReport): boolean {
  return action === 'blocked' || (action === 'renew' && outcome === 'failed');
}
