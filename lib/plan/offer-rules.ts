// Pairs made elsewhere for a target, in the place that the administrator has named for it (`regen.sources`): when that
// place is read, and when its pair replaces the present one. Only where nothing here can renew the target, or long
// before its expiry where the pair of its source is valid longer. Nothing is signed. Pure.
import { isRecent } from '../clock.ts';
import type { ResolvedTarget } from '../inventory/model.ts';
import { type Case, renew, type Verdict } from './decision.ts';
import { certificateOf } from './facts.ts';
import { isEnding, offerProblem } from './judge-pair.ts';

/** Interval for a target that still works: a management cluster is not polled each minute for months. */
const askAgainMs = 3_600_000;

export function fromSource(at: Case<ResolvedTarget>, verdict: Verdict): Verdict {
  const offer = at.offers?.get(at.artefact.name);
  const need = needOf(at, verdict);
  if (offer === undefined || need === undefined) return verdict;
  const { place, answer } = offer;
  if (answer === undefined) {
    if (!need.isUrgent && isRecent(offer.askedAt, askAgainMs, at.now)) return verdict;
    const { byHand: _, ...open } = verdict;
    return { ...open, obtains: 'fetch', message: `${verdict.message}; ${place} is asked for one` };
  }
  if ('successor' in answer || 'none' in answer) return verdict;
  const problem = 'problem' in answer ? answer.problem : offerProblem({ ...answer, target: at.artefact, now: at.now });
  if ('problem' in answer || problem !== undefined) {
    const state = 'notRun' in answer ? `is not run by a dry run: ${problem}` : `does not help: ${problem}`;
    return { ...verdict, message: `${verdict.message}; ${place} ${state}` };
  }
  const { notAfter } = answer.offered.facts;
  const fault = {
    reason: 'OfferedBySource',
    message: `${need.state}; brought from ${place}, valid until ${notAfter.toISOString()}`,
  } as const;
  return renew({ ...at, fault }, [], { newNotAfter: notAfter }, 'fetch');
}

const waiting: ReadonlySet<Verdict['reason']> = new Set(['WarnOnly', 'Postponed', 'ClockUnconfirmed'] as const);

interface Need {
  /** The target does not work now. */
  readonly isUrgent: boolean;
  readonly state: string;
}

/** Returns undefined where no pair has to be brought: a target that can be renewed here is renewed here. */
function needOf({ fact, now }: Case<ResolvedTarget>, { action, reason, byHand }: Verdict): Need | undefined {
  // It is made here, but not now: window, Lease, clock and administrator's settings count for its source, too.
  if (waiting.has(reason)) return undefined;
  if (action === 'renew' || (action === 'blocked' && byHand !== true)) return undefined;
  if (fact.state === 'absent') return { isUrgent: true, state: 'it is absent' };
  if (fact.state === 'broken')
    return action === 'blocked' ? { isUrgent: true, state: `it is broken: ${fact.message}` } : undefined;
  const certificate = certificateOf(fact);
  if (certificate === undefined) return undefined;
  const { notAfter } = certificate;
  if (now >= notAfter) return { isUrgent: true, state: `it expired at ${notAfter.toISOString()}` };
  if (action === 'blocked') return { isUrgent: true, state: 'it cannot be used' };
  // Threshold of the administrator, or ours.
  return reason === 'SignerExternal' || isEnding(certificate, now)
    ? { isUrgent: false, state: `it ends at ${notAfter.toISOString()}` }
    : undefined;
}
