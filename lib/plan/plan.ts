// The one place that decides: which artefacts are renewed, why, in which order, and when to check again. Pure; time is
// an argument. regen carries the plan out, `--dry-run` and `status` print it, `status --at` passes another time.
//
// Artefacts are judged in the order signer, bundle, target. Each judgement sees the content that the earlier ones will
// have left behind (`Expected`), so that one plan holds a whole recovery: an expired signer, the bundle that must hold
// its successor, and the targets that the successor signs.
import type { External, Opaque, ResolvedKeyPair } from '../inventory/model.ts';
import { judgeBundle, judgeComposedBundle } from './bundle-rules.ts';
import { judgeSigner, judgeTarget, superseded } from './certificate-rules.ts';
import { judgeClock } from './clock-rules.ts';
import { judgeCopy } from './copy-rules.ts';
import {
  blocked,
  bring,
  type Case,
  type Decision,
  earliest,
  type Expected,
  idleMs,
  keep,
  laterMs,
  originTraits,
} from './decision.ts';
import { lookAgainMs, type PlanInput, validNow, type Verdict } from './decision.ts';
import { type ArtefactFacts, certificatesOf } from './facts.ts';
import { FaultKeeper, type Faults } from './faults.ts';
import { contentIn } from '../inventory/location-kinds.ts';
import { isFile } from '../inventory/places.ts';
import { locationText } from '../store/store.ts';
import { judgeFollowed } from './follow-rules.ts';
import { judgeRequested } from './request-rules.ts';
import { unknownToReaders } from './trust-rules.ts';
import { judgeDirectory } from './directory-rules.ts';
import { isInput, judgeInput } from './union-rules.ts';
import { judgeKubeconfigs } from './kubeconfigs-rules.ts';
import { fromSource } from './offer-rules.ts';
import { fileOfOthers } from './others-rules.ts';
import { heldByUnknown } from './unknown-authority-rules.ts';

/** One decision for each artefact, in the order in which they are carried out. */
export interface Plan {
  /** Every artefact of the inventory once, in topological order. */
  readonly decisions: readonly Decision[];
  /** The earliest recheckAt. */
  readonly recheckAt: Date;
  /** Errors thrown while an artefact was judged: only that artefact is blocked. */
  readonly faults?: Faults;
}

/** Longest time until an unavailable artefact is read again; the loop's own retries come sooner. */
const unavailableMs = 1000;
/** Recheck time where nothing changes by the passing of time alone. */
const longestMs = 365 * 24 * 3_600_000;

export function plan(input: PlanInput): Plan {
  const { resolved, facts, now } = input;
  const distrust = judgeClock(input);
  const expected = new Map<string, Expected>();
  const decisions: Decision[] = [];
  const keeper = new FaultKeeper();
  for (const artefact of resolved.artefacts) {
    const fact = facts.get(artefact.name) ?? { state: 'unavailable', message: 'it has not been read' };
    const at: Case = { ...input, artefact, fact, expected };
    // A rule that meets a fault of this program may succeed when another input has changed.
    const isStuck = (message: string): Verdict =>
      blocked('Unreadable', `it cannot be judged: ${message}`, laterMs(now, lookAgainMs));
    let verdict = keeper.contain(artefact.name, () => judge(at), isStuck);
    if (input.onlyFaults === true && isRefresh(verdict))
      verdict = keep('RefreshDue', verdict.message, laterMs(now, idleMs));
    verdict = keeper.contain(artefact.name, () => heldByUnknown(at, verdict) ?? verdict, isStuck);
    const needsClock = verdict.origin !== undefined && originTraits[verdict.origin].needsClock;
    if (distrust !== undefined && (needsClock || verdict.reason === distrust.reason))
      verdict = { ...verdict, action: 'blocked', ...distrust };
    const { leaves, ...decision } = verdict;
    expected.set(artefact.name, decision.action === 'renew' ? leaves : whatStays(at, decision));
    decisions.push({ artefact: artefact.name, ...decision });
  }
  const recheckAt = earliest(laterMs(now, longestMs), ...decisions.map((decision) => decision.recheckAt));
  return { decisions, recheckAt, ...(keeper.faults.size > 0 && { faults: keeper.faults }) };
}

const emptiedAdvice =
  'what was taken over from it before stays: put a CA into it, or delete the ConfigMap, so that whoever maintains it makes it again';

const isRefresh = ({ action, reason }: Verdict): boolean => action === 'renew' && reason === 'RefreshDue';

/** Makes the same plan for another time, or without renewals ahead of time. */
export type Replan = (change: Partial<Pick<PlanInput, 'now' | 'onlyFaults'>>) => Plan;

/** Counts the clock as right at another time: its state then is unknown. */
export const replanOf =
  (input: PlanInput): Replan =>
  (change) => {
    const clock = change.now === undefined ? input.clock : { builtAt: input.clock.builtAt, synchronised: true };
    return plan({ ...input, clock, ...change });
  };

function judge(at: Case): Verdict {
  const { artefact, fact, now } = at;
  if (artefact.kind === 'external' && artefact.unread !== undefined)
    return bring('NotOurs', artefact.unread, laterMs(now, lookAgainMs));
  if (fact.state === 'unavailable') {
    return blocked('Unavailable', `it could not be read: ${fact.message}`, laterMs(now, unavailableMs));
  }
  const isRead = artefact.kind !== 'target' || superseded({ ...at, artefact }) === undefined;
  const ofOthers = isRead ? fileOfOthers(at) : undefined;
  if (ofOthers !== undefined) return ofOthers;
  switch (artefact.kind) {
    case 'signer':
      return judgeSigner({ ...at, artefact });
    case 'target':
      if (artefact.obtainedBy === 'request') return judgeRequested({ ...at, artefact });
      return fromSource({ ...at, artefact }, judgeTarget({ ...at, artefact }));
    case 'caBundle':
      return judgeBundle({ ...at, artefact });
    case 'composedBundle':
      return judgeComposedBundle({ ...at, artefact });
    case 'copy':
      return judgeCopy({ ...at, artefact });
    case 'kubeconfigs':
      return judgeKubeconfigs({ ...at, artefact });
    case 'external':
      if (artefact.location.kind === 'pemDirectory') return judgeDirectory({ ...at, artefact });
      if (artefact.followedAs !== undefined) return judgeFollowed({ ...at, artefact });
      if (isInput(artefact.name, at.resolved.artefacts)) return judgeInput({ ...at, artefact });
      return judgeExternal({ ...at, artefact });
    case 'keyPair':
    case 'opaque':
      return judgeForeign(artefact, at.fact, now);
  }
}

/** Reports an artefact that is never made here. */
function judgeForeign(artefact: ResolvedKeyPair | Opaque, fact: ArtefactFacts, now: Date): Verdict {
  const { kind, published, location } = artefact;
  // A key does not expire, and the next run sees a file that was brought.
  const recheckAt = laterMs(now, isFile(location) ? longestMs : idleMs);
  if (fact.state === 'present') return keep('Healthy', 'present', recheckAt);
  if (fact.state === 'absent' && published === 'optional') return keep('Healthy', 'absent, as it may be', recheckAt);
  const state = fact.state === 'absent' ? 'it is absent' : `it is broken: ${'message' in fact ? fact.message : ''}`;
  if (kind === 'keyPair' && artefact.keyWanted !== undefined)
    return bring('NotOurs', `${state}; ${artefact.keyWanted}`, recheckAt);
  if (isFile(location)) {
    const wanted = 'copy it from another control plane of the cluster, or from a backup';
    return bring('NotOurs', `${state}; a new key would make every token invalid: ${wanted}`, recheckAt);
  }
  const what = kind === 'keyPair' ? 'a key pair whose loss would make every token invalid' : 'an object of others';
  return blocked('NotOurs', `${state}; ${what} is never made here, restore it`, recheckAt);
}

/** Reports an external input only where it cannot be read: until then, artefacts made from it do without it. */
function judgeExternal(at: Case<External>): Verdict {
  const { artefact, fact, now } = at;
  const { location } = artefact;
  const recheckAt = laterMs(now, idleMs);
  const isAuths = contentIn(location) === 'registryAuths';
  const unusable = isFile(location) ? bundleToBring(at) : undefined;
  if (unusable !== undefined) return unusable;
  if (fact.state === 'absent') return keep('Healthy', 'absent, so it counts for nothing', recheckAt);
  if (fact.state === 'broken') {
    const message = `it is broken: ${fact.message}; nothing of it is used, and it is never made here: restore it`;
    return (isAuths ? bring : blocked)('NotOurs', message, recheckAt);
  }
  if (isAuths) return keep('Healthy', 'present', recheckAt);
  if (fact.state === 'present' && fact.emptied !== undefined)
    return keep('NotOurs', `${fact.emptied}; ${emptiedAdvice}`, recheckAt);
  const [certificate] = certificatesOf(fact);
  if (location.kind === 'secret' && certificate !== undefined && now >= certificate.notAfter) {
    const ended = `it expired at ${certificate.notAfter.toISOString()}`;
    return keep('NotOurs', `${ended}; whoever maintains it must renew it`, laterMs(now, lookAgainMs));
  }
  return keep('Healthy', `${certificatesOf(fact).length} certificate(s)`, recheckAt);
}

/** Judges a CA file that a flag names: without a valid certificate its component trusts no peer, or does not start. */
function bundleToBring(at: Case<External>): Verdict | undefined {
  const { fact, now } = at;
  const { location } = at.artefact;
  const wanted = `bring the CA certificates that are valid now to ${locationText(location)}`;
  const problem = (text: string): Verdict => bring('NotOurs', `${text}: ${wanted}`, laterMs(now, lookAgainMs));
  if (fact.state === 'absent') return problem('it is absent, and its component is told of it');
  if (fact.state === 'broken') return problem(`it is broken: ${fact.message}`);
  const certificates = certificatesOf(fact);
  if (validNow(fact, now).size > 0) {
    const unknown = unknownToReaders(at);
    if (unknown !== undefined) return bring('NotOurs', unknown, laterMs(now, lookAgainMs));
    const end = earliest(...certificates.map(({ notAfter }) => notAfter).filter((one) => one > now));
    const ended = certificates
      .filter(({ notAfter }) => notAfter <= now)
      .map(({ subject }) => `; ${subject} has expired`);
    return keep('Healthy', `valid until ${end.toISOString()}${ended.join('')}`, end);
  }
  const last = certificates
    .map(({ notAfter }) => notAfter)
    .toSorted((one, other) => other.getTime() - one.getTime())[0];
  if (last === undefined) return problem('it holds no certificate');
  return problem(last <= now ? `it expired at ${last.toISOString()}` : 'none of its certificates is valid now');
}

/** State that later artefacts can count on when an artefact is not renewed: its certificates that are valid now. */
function whatStays({ fact, now }: Case, { action, reason, recheckAt, byHand }: Omit<Decision, 'artefact'>): Expected {
  return {
    renewed: false,
    hasKey: fact.state === 'present',
    trusted: validNow(fact, now),
    newFrom: new Set(),
    certificate: certificatesOf(fact)[0],
    settlesAt: reason === 'Settling' ? recheckAt : undefined,
    blocked: action === 'blocked',
    byHand,
  };
}
