// When a contradiction between two objects, or two files, is believed: another writer may be between its two writes. It
// is judged by content, which an annotation or a label does not change, and the wait is bounded. Pure.
import type { Location } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { notLater } from '../clock.ts';
import {
  type Case,
  type Decision,
  earliest,
  type Fault,
  type Finding,
  keep,
  laterMs,
  type RenewalPolicy,
  unusable,
  type Verdict,
} from './decision.ts';

/** Settle time; longer for files, which people also copy one by one, never so long that a kubelet waits. */
const settleMsOf = (location: Location, { settleMs }: RenewalPolicy): number =>
  isFile(location) ? Math.min(settleMs * 3, filesSettleMs) : settleMs;

const filesSettleMs = 3000;

/** No writer pauses for so many settle times between two writes: content that keeps changing is believed then. */
const mostSettles = 5;

/** How long a contradiction is read again, whatever becomes of it. */
export const longestSettleMs = (policy: RenewalPolicy): number =>
  Math.max(policy.settleMs, filesSettleMs) * mostSettles;

/**
 * Returns until when a contradiction between two objects, or two files, is not believed, or undefined. Another writer
 * may be between its two writes, so it is believed only when the content of none of them has changed for a while.
 */
export function settlesAt(at: Case, names: readonly string[]): Date | undefined {
  const { artefact, policy, settlingSince, now } = at;
  const latest = standsStillAt(at, names);
  const began = settlingSince?.get(artefact.name);
  const ceiling = began && laterMs(began, settleMsOf(artefact.location, policy) * mostSettles);
  const until = latest && earliest(latest, ceiling);
  return until !== undefined && now < until ? until : undefined;
}

/** Time at which all of these will have been unchanged for long enough, if none changes any more. */
function standsStillAt({ artefact, facts, policy }: Case, names: readonly string[]): Date | undefined {
  const ends = names.flatMap((name) => {
    const fact = facts.get(name);
    const since = fact !== undefined && 'since' in fact ? fact.since : undefined;
    return since === undefined ? [] : [laterMs(since, settleMsOf(artefact.location, policy))];
  });
  return ends.toSorted((a, b) => b.getTime() - a.getTime())[0];
}

/** The fault once it has lasted long enough; a fresh one may be another writer between two writes. */
export function settled(at: Case, names: readonly string[], fault: Fault): Finding {
  const until = settlesAt(at, names);
  if (until === undefined) {
    const isRestless = at.now < (standsStillAt(at, names) ?? at.now);
    return isRestless
      ? { ...fault, message: `${fault.message}; it changes again and again, so it is believed now` }
      : fault;
  }
  return keep('Settling', `${fault.message}; looked at again before it is believed`, until);
}

/** Kept until a part of it has been read again. */
export const afterPart = (part: string, until: Date, fault?: Fault): Verdict =>
  keep('Settling', `${fault ? `${fault.message}; ` : ''}${part} is looked at again first, to write this once`, until);

export function partSettles({ expected }: Case, parts: readonly string[], fault?: Fault): Verdict | undefined {
  const open = parts.find((name) => expected.get(name)?.settlesAt !== undefined) ?? '';
  const until = expected.get(open)?.settlesAt;
  return until && afterPart(open, until, fault);
}

/** Finding for an unusable artefact: a fault once it has been broken for the settle time. */
export function stillUnusable(at: Case): Finding | undefined {
  const fault = unusable(at);
  return fault && settled(at, [at.artefact.name], fault);
}

/** Since when each pass has found an artefact settling, by artefact: `before` this pass, and after it. */
export function stillSettling(
  before: ReadonlyMap<string, Date>,
  decisions: readonly Decision[],
  now: Date,
): ReadonlyMap<string, Date> {
  const settling = decisions.filter(({ reason }) => reason === 'Settling');
  return new Map(settling.map(({ artefact }) => [artefact, notLater(before.get(artefact), now)]));
}
