// Future of a row in the words of `status`: how a renewal is made, and the decision when a working artefact expires. No
// rule of its own: the plan is made for that time. Pure.
import type { Decision, Origin } from '../plan/decision.ts';
import type { Replan } from '../plan/plan.ts';

/** Texts for the origin of renewed content. */
const renewals = {
  sign: 'reissued',
  ownKey: 'renewed with its own key',
  follow: 'replaced by its successor',
  putBack: 'put back',
  sibling: 'put back',
  authority: 'given the new CA',
  fetch: 'brought from its source',
  request: 'requested with its key',
} as const satisfies Readonly<Record<Origin, string>>;

export type Renewal = (typeof renewals)[Origin];

export const renewalOf = ({ origin = 'sign' }: Decision): Renewal => renewals[origin];

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
