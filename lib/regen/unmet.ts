// What a single run of regen leaves undone. Pure.
import type { ArtefactReport, RegenReport } from './journal.ts';

/** One state at the end of `--once` that is not as it should be, as a sentence. */
export interface UnmetCondition {
  readonly message: string;
  /** An administrator must bring it, or the CA that would sign it. */
  readonly byHand?: boolean | undefined;
  /** A wrong setting of one entry, which was left out. */
  readonly isSetting?: boolean;
}

export function unmetConditions({ gaveUp, artefacts }: RegenReport): readonly UnmetCondition[] {
  const unmet = artefacts.filter((one) => isUnmet(one) || (gaveUp !== undefined && isLeft(one)));
  return [
    ...(gaveUp === undefined ? [] : [{ message: `regen gave up: ${gaveUp}` }]),
    ...unmet.map(({ artefact, message, err, byHand }) => ({ message: `${artefact}: ${err ?? message}`, byHand })),
  ];
}

/** Of a run that gave up: others have changed it each time, or what it waits for was not written. A dry run writes nothing. */
const isLeft = ({ action, reason, outcome }: ArtefactReport): boolean =>
  reason === 'Settling' || (action === 'renew' && outcome !== undefined && outcome !== 'written');

/** An attempt that failed and left nothing to do, because its answer was lost or another writer was quicker, is none. */
export function isUnmet({ action, outcome }: ArtefactReport): boolean {
  return action === 'blocked' || (action === 'renew' && outcome === 'failed');
}
