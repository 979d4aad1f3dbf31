// The future of a row in the words of `status`: how a renewal is made, and what will be decided when something that still
// works ends. No rule of its own: the plan is made for that time. Pure.
import type { Decision, Origin } from '../plan/decision.ts';
import type { Replan } from '../plan/plan.ts';

/** How a renewal gets its content. */
const renewals = {
  sign: 'reissued',
  ownKey: 'renewed with its own key',
  follow: 'replaced by its successor',
  putBack: 'put back',
  sibling: 'put back',
  authority: 'given the new CA',
  fetch: 'brought from its source',
} as const satisfies Readonly<Record<Origin, string>>;

export type Renewal = (typeof renewals)[Origin];

export const renewalOf = ({ origin = 'sign' }: Decision): Renewal => renewals[origin];

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
