// Work that a single run of regen leaves undone. Pure.
import type { ArtefactReport, RegenReport } from './journal.ts';

/** One unmet state at the end of `--once`, as a sentence. */
export interface UnmetCondition {
  readonly message: string;
  /** The administrator must provide it, or the CA that would sign it. */
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

/**
 * Whether a run that gave up left it undone: other writers have changed it each time, or a step before it was not
 * written. A dry run writes nothing.
 */
const isLeft = ({ action, reason, outcome }: ArtefactReport): boolean =>
  reason === 'Settling' || (action === 'renew' && outcome !== undefined && outcome !== 'written');

/**
 * Failed attempts after which nothing is left to do, because the answer was lost or another writer was quicker, do not
 * count.
 */
export function isUnmet({ action, outcome }: ArtefactReport): boolean {
  return action === 'blocked' || (action === 'renew' && outcome === 'failed');
}
