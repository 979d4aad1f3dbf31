// The CAs that a machine without the key of the CA holds (`followedAs`): each file is judged by itself. A CA that has
// expired, or expires soon, is replaced by its successor where another file here holds it, or kube-public/cluster-info of
// the cluster. Nothing else is ever trusted: a machine cannot verify a CA by anything that it holds but its key
// (judge-authority.ts). Pure.
import { isRecent } from '../clock.ts';
import type { External, Location, ResolvedArtefact, ResolvedExternal } from '../inventory/model.ts';
import { type Certificate, isSame } from '../pki/certificate.ts';
import { locationText } from '../store/store.ts';
import { bring, type Case, earliest, idleMs, keep, laterMs, lookAgainMs, nothing, renew } from './decision.ts';
import { blocked, type Fault, type Verdict } from './decision.ts';
import type { ArtefactFacts, Facts } from './facts.ts';
import { dueOf, endingOf, followedBy, worstEnding } from './judge-authority.ts';
import { isOptionalInput, offeredTo, type United, unitedWith } from './union-rules.ts';

/** Interval for CAs that have not expired: a timer runs each minute. */
const askAgainMs = 3_600_000;

/** A file of CAs that is there, among those of this machine. */
interface FollowedCase extends Case<External> {
  readonly held: readonly Certificate[];
  /** CAs of all files of this machine. */
  readonly everywhere: readonly Certificate[];
  /** The same, with the successor that the cluster offers. */
  readonly known: readonly Certificate[];
  /** The entry by whose CAs the API server is verified; undefined: none holds one. */
  readonly asker: string | undefined;
}

export function judgeFollowed(at: Case<ResolvedExternal>): Verdict {
  const { artefact, fact, facts, resolved, now } = at;
  const { location, inputs = [] } = artefact;
  const isFileOfCas = location.kind !== 'kubeconfig';
  const offered = offeredTo(at);
  const isOptional = inputs.every((name) => isOptionalInput(name, resolved.artefacts));
  if (fact.state === 'absent' && isFileOfCas && isOptional && offered.length === 0)
    return keep('Healthy', 'absent, so it counts for nothing', laterMs(now, idleMs));
  if (fact.state !== 'present') return (isFileOfCas ? madeOfInputs(at) : undefined) ?? bringIt(at);
  if (fact.authorityIsForeign === true) return keep('Healthy', 'its CA is in a file of its own', laterMs(now, idleMs));
  const { held = [] } = fact;
  const asker = resolved.artefacts.find((one) => heldBy(one, facts, 'serverCa').length > 0)?.name;
  const everywhere = resolved.artefacts.flatMap((one) => heldBy(one, facts));
  const answer = at.offers?.get(asker ?? '')?.answer;
  const known = answer !== undefined && 'successor' in answer ? [...everywhere, answer.successor] : everywhere;
  const followed = followedBy(held, [...known, ...offered], now);
  const { becomes, fault, removesAt, full, kept } = mayUnite(at)
    ? unitedWith(followed ?? held, at)
    : alone(followed ?? held);
  const faults = [...(followed === undefined ? [] : [succession(held, followed, now)]), ...(fault ? [fault] : [])];
  const [first] = faults;
  const asksUse = kept !== undefined && at.inUse === undefined ? true : undefined;
  if (first === undefined && full !== undefined) {
    const message = [full, kept].filter((text) => text !== undefined).join('; ');
    return { ...bring('NotOurs', message, earliest(laterMs(now, lookAgainMs), removesAt)), asksUse };
  }
  if (first === undefined) {
    const verdict = withoutSuccessor({ ...at, held, everywhere, known, asker });
    if (kept !== undefined && verdict.reason === 'Healthy')
      return { ...keep('StillUsed', kept, laterMs(now, lookAgainMs)), asksUse };
    return { ...verdict, recheckAt: earliest(verdict.recheckAt, removesAt), asksUse };
  }
  const message = faults.map((one) => one.message).join('; ');
  if (artefact.isOfSigner === true)
    return bring('NotOurs', `${message}; ${ofSigner(location)}`, laterMs(now, lookAgainMs));
  return { ...renew({ ...at, fault: { ...first, message } }, [], {}, 'follow'), becomes, asksUse };
}

/** kube-controller-manager refuses more than one certificate in the file that it signs with (ca_provider.go, signer.go). */
const ofSigner = (location: Location): string =>
  `${locationText(location)} is also the certificate of a CA whose key is beside it, of which kube-controller-manager ` +
  'takes one alone: give the kubelet a file of its own, with a copy of it (authentication.x509.clientCAFile), and restart it';

function succession(held: readonly Certificate[], followed: readonly Certificate[], now: Date): Fault {
  const later = followed.find((one) => !held.includes(one)) ?? followed[0];
  const until = later?.facts.notAfter.toISOString() ?? '';
  const message = `${stateOf(held, now)}; its successor, valid until ${until}, comes in its place`;
  return { ...faultOf(held, now), message };
}

const alone = (becomes: readonly Certificate[]): United => ({ becomes, fault: undefined, removesAt: undefined });

/**
 * Whether the CAs of its inputs are added to a file that is there. To a kubeconfig of other clients only beside a CA of
 * this cluster: it may be used for another one, or know its server by the CAs of the system.
 */
function mayUnite({ artefact, fact, facts, resolved }: Case<External>): boolean {
  const { location, inputs = [] } = artefact;
  if (inputs.length === 0 || fact.state !== 'present') return false;
  const { held = [] } = fact;
  if (location.kind !== 'kubeconfig') return true;
  if (location.context === 'current') return held.length > 0;
  const ofCluster = resolved.artefacts.flatMap((one) =>
    one.location.kind === 'kubeconfig' && one.location.context === 'current' ? heldBy(one, facts) : [],
  );
  return held.some((one) => ofCluster.some((other) => isSame(one, other)));
}

/** A file of CAs that is absent, or of which nothing can be read, is made of its inputs. */
function madeOfInputs(at: Case<External>): Verdict | undefined {
  const { artefact, fact, facts, now } = at;
  if (fact.state === 'broken' && fact.problem === 'foreign') return undefined;
  const state = missingText(fact);
  const { becomes, fault } = unitedWith([], at);
  const unread = artefact.inputs?.find((name) => facts.get(name)?.state === 'unavailable');
  if (fault === undefined && unread !== undefined)
    return blocked('Unavailable', `${state}; ${unread}, of which it is made, could not be read`, laterMs(now, 1000));
  if (fault === undefined) return undefined;
  const reason = fact.state === 'absent' ? 'Absent' : 'Unreadable';
  const message = `${state}; the CAs of the cluster come in its place`;
  return { ...renew({ ...at, fault: { reason, message } }, [], {}, 'follow'), becomes };
}

const missingText = (fact: ArtefactFacts): string =>
  fact.state === 'broken' ? `it is broken: ${fact.message}` : 'it is absent';

function bringIt({ artefact: { location }, fact, now }: Case<External>): Verdict {
  const state = missingText(fact);
  return bring('NotOurs', `${state}; bring ${locationText(location)} here by hand`, laterMs(now, lookAgainMs));
}

function withoutSuccessor(at: FollowedCase): Verdict {
  const { artefact, held, everywhere, known, asker, now } = at;
  const state = stateOf(held, now);
  const recheckAt = earliest(laterMs(now, idleMs), ...held.map(dueOf).filter((due) => due > now));
  const kept = (message: string): Verdict => keep('SignerExternal', `${state}; ${message}`, recheckAt);
  const isAsking = artefact.name === asker;
  const left = isAsking ? (followedBy(everywhere, known, now) ?? everywhere) : held;
  // Beside a CA that comes from the cluster, a former one waits for its end alone.
  const isUnited = artefact.inputs !== undefined && held.some((one) => endingOf(one, now) === undefined);
  if (isUnited || worstEnding(left, now) === undefined) return keep('Healthy', state, recheckAt);
  if (!isAsking) return kept('followed when the cluster has renewed it');
  const { answer, askedAt } = at.offers?.get(artefact.name) ?? {};
  const isUrgent = areExpired(held, now);
  if (answer !== undefined) {
    const why = 'problem' in answer ? answer.problem : 'the cluster has no later one';
    return isUrgent ? blocked('SignerExternal', `${state}; ${why}`, laterMs(now, lookAgainMs)) : kept(why);
  }
  if (!isUrgent && isRecent(askedAt, askAgainMs, now)) return kept('the cluster is asked for a later one once an hour');
  const wanted = 'a later one is asked for';
  if (!isUrgent) return { ...kept(wanted), obtains: 'follow' };
  const fault = { reason: 'Expired', message: `${state}; ${wanted}` } as const;
  return { ...renew({ ...at, fault }, [], {}, 'follow'), obtains: 'follow', leaves: nothing };
}

type Around = Pick<Case, 'facts' | 'resolved' | 'expected' | 'offers' | 'now'>;

/**
 * Whether the CAs by which the API server is verified have all expired, so that no API server can be verified: until the
 * cluster was asked for a later one (`untilAsked`), or although it was (`forNow`).
 */
export function isShutOut({ facts, resolved, expected, offers, now }: Around): 'untilAsked' | 'forNow' | undefined {
  const out = resolved.artefacts.filter(
    (one) => areExpired(heldBy(one, facts, 'serverCa'), now) && expected.get(one.name)?.renewed !== true,
  );
  if (out.length === 0) return undefined;
  return out.some(({ name }) => offers?.get(name)?.answer !== undefined) ? 'forNow' : 'untilAsked';
}

/** An expired CA next to a valid one shuts out no API server: CAs stay in bundles until they have expired. */
const areExpired = (held: readonly Certificate[], now: Date): boolean =>
  held.length > 0 && held.every((one) => endingOf(one, now) === 'expired');

/** CAs of an artefact that is followed, or followed so; none of a kubeconfig that names a file for them. */
export function heldBy(artefact: ResolvedArtefact, facts: Facts, as?: External['followedAs']): readonly Certificate[] {
  if (artefact.kind !== 'external' || artefact.followedAs === undefined) return [];
  if (artefact.location.kind === 'pemDirectory') return []; // CAs of others than this cluster
  const fact = facts.get(artefact.name);
  const counts = as === undefined || artefact.followedAs === as;
  return counts && fact?.state === 'present' && fact.authorityIsForeign !== true ? (fact.held ?? []) : [];
}

const faultOf = (held: readonly Certificate[], now: Date): Pick<Fault, 'reason'> => ({
  reason: worstEnding(held, now) === 'expired' ? 'Expired' : 'RefreshDue',
});

function stateOf(held: readonly Certificate[], now: Date): string {
  const ends = held.map(({ facts }) => facts.notAfter);
  if (ends.length === 0) return 'it holds no CA';
  const first = earliest(...ends);
  return now >= first ? `a CA in it expired at ${first.toISOString()}` : `valid until ${first.toISOString()}`;
}
