// The future of a row in the words of `status`: how a renewal is made, and what will be decided when something that still
// works ends. No rule of its own: the plan is made for that time. Pure.
import type { Decision } from '../plan/decision.ts';
import type { Replan } from '../plan/plan.ts';

/** How a renewal gets its content. */
export type Renewal =
  | 'reissued'
  | 'renewed with its own key'
  | 'replaced by its successor'
  | 'put back'
  | 'given the new CA'
  | 'brought from its source';

export function renewalOf({ brings, putsBack, keepsKey, keepsLeaf }: Decision): Renewal {
  if (brings === true) return 'brought from its source';
  if (keepsKey === true) return putsBack === true ? 'replaced by its successor' : 'renewed with its own key';
  if (putsBack === true) return 'put back';
  return keepsLeaf === true ? 'given the new CA' : 'reissued';
}

/** The decision of a later time about something that is left alone until then. */
export interface Outlook extends Pick<Decision, 'action' | 'reason' | 'byHand'> {
  readonly at: Date;
  /** It still works then: it is renewed ahead of time. */
  readonly isBefore: boolean;
  readonly renewal?: Renewal;
}

interface Ending {
  readonly artefact: string;
  readonly renewsAt?: Date | undefined;
  readonly notAfter?: Date | undefined;
}

/** The outlook for the time of a renewal ahead of time, else for the end. Undefined where there is no end. */
export function outlookOf({ artefact, renewsAt, notAfter }: Ending, replan: Replan): Outlook | undefined {
  const at = renewsAt ?? notAfter;
  const decision = at && replan({ now: at }).decisions.find((one) => one.artefact === artefact);
  if (at === undefined || decision === undefined) return undefined;
  const { action, reason, byHand } = decision;
  const isBefore = renewsAt !== undefined;
  return { at, isBefore, action, reason, byHand, ...(action === 'renew' && { renewal: renewalOf(decision) }) };
}
