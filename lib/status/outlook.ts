// Future of a row in the words of `status`: how a renewal is made, and the decision when a working artefact expires. No
// rule of its own: the plan is made for that time. Pure.
import { type Decision, type Origin, originTraits } from '../plan/decision.ts';
import type { Replan } from '../plan/plan.ts';

export type Renewal = (typeof originTraits)[Origin]['done'];

export const renewalOf = ({ origin = 'sign' }: Decision): Renewal => originTraits[origin].done;

/** Decision at a later time about an artefact that is kept until then. */
export interface Outlook extends Pick<Decision, 'action' | 'reason' | 'byHand'> {
  readonly at: Date;
  /** Whether it is renewed ahead of time, while it still works. */
  readonly isBefore: boolean;
  readonly renewal?: Renewal;
}

interface Ending {
  readonly artefact: string;
  readonly renewsAt?: Date | undefined;
  readonly notAfter?: Date | undefined;
}

/** Outlook for the time of a renewal ahead of time, else for the expiry. Undefined without an expiry. */
export function outlookOf({ artefact, renewsAt, notAfter }: Ending, replan: Replan): Outlook | undefined {
  const at = renewsAt ?? notAfter;
  const decision = at && replan({ now: at }).decisions.find((one) => one.artefact === artefact);
  if (at === undefined || decision === undefined) return undefined;
  const { action, reason, byHand } = decision;
  const isBefore = renewsAt !== undefined;
  return { at, isBefore, action, reason, byHand, ...(action === 'renew' && { renewal: renewalOf(decision) }) };
}
