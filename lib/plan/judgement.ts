// The vocabulary shared by the rules: the case before them, the verdict they give, and small sentences. Pure.
import type { Location, Resolved, ResolvedArtefact, ResolvedTarget, Signer } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { clockSkewMs } from './clock-rules.ts';
import type { ArtefactFacts, CertificateFacts, Facts } from './facts.ts';
import type { ClockFacts, Decision, Reason, RenewalPolicy } from './plan-types.ts';
import { isFile } from '../inventory/places.ts';

/** What an artefact will hold once the plan is carried out, as far as others depend on it. */
export interface Expected {
  readonly renewed: boolean;
  /** A pair whose key is at hand. */
  readonly hasKey: boolean;
  /** Fingerprints of the valid certificates that will be in it. */
  readonly trusted: ReadonlySet<string>;
  /** Signers whose new certificate, not yet made, will be in it. */
  readonly newFrom: ReadonlySet<string>;
  /** Of a pair that stays: its certificate. */
  readonly certificate?: CertificateFacts;
  /** Of a pair that is renewed: when the new certificate will end. */
  readonly newNotAfter?: Date;
  /** It may be written anew then, so what is made of it now would soon be made again. */
  readonly settlesAt?: Date;
  /** It needs renewal, and that is not possible now. */
  readonly blocked?: true;
  /** It must be brought, and nothing can be made of it before that. */
  readonly byHand?: true;
  /** A signer whose certificate is put back: what it signs waits for that. */
  readonly isPutBack?: true;
}

export interface Case<A extends ResolvedArtefact> {
  readonly artefact: A;
  readonly fact: ArtefactFacts;
  readonly facts: Facts;
  readonly expected: ReadonlyMap<string, Expected>;
  readonly resolved: Resolved;
  readonly policy: RenewalPolicy;
  readonly clock: ClockFacts;
  readonly now: Date;
  /** As in PlanInput. */
  readonly unattended?: boolean;
}

/** What has a certificate and a key of its own. */
export type Pair = Signer | ResolvedTarget;
export type PairCase = Case<Pair>;

/** A copy of a pair as a pair of its own: what its original is, in the copy's place and by its name. */
export function pairOf(artefacts: readonly ResolvedArtefact[], copy: ResolvedArtefact): Pair | undefined {
  const original = originalOf(artefacts, copy);
  if (original?.kind !== 'signer' && original?.kind !== 'target') return undefined;
  return { ...original, name: copy.name, location: copy.location };
}

/** Whether a copy holds what its original holds; of a signer only the first certificate is copied. */
export function isSameAs(copy: ArtefactFacts, original: ArtefactFacts, kind: ResolvedArtefact['kind']): boolean {
  if (copy.state !== 'present' || original.state !== 'present') return false;
  if (kind !== 'signer') return copy.digest === original.digest;
  const [first, ...others] = copy.certificates;
  return others.length === 0 && first !== undefined && first.fingerprint === original.certificates[0]?.fingerprint;
}

/** A check's finding: renew for this reason, or leave it alone until then. */
export interface Finding {
  readonly reason: Reason;
  readonly message: string;
  readonly keepUntil?: Date;
  /** Left alone, and not because it is well. */
  readonly isBlocked?: true;
}
export type Check = (at: PairCase, certificate: CertificateFacts) => Finding | undefined;

/** A decision without its name, with what a renewal leaves behind for the artefacts that are judged later. */
export type Verdict = Omit<Decision, 'artefact'> & { readonly leaves: Expected };

const nothing: Expected = { renewed: false, hasKey: false, trusted: new Set(), newFrom: new Set() };

export function keep(reason: Reason, message: string, recheckAt: Date): Verdict {
  return { action: 'keep', reason, message, recheckAt, after: [], leaves: nothing };
}

export function blocked(reason: Reason, message: string, recheckAt: Date): Verdict {
  return { ...keep(reason, message, recheckAt), action: 'blocked' };
}

/** Blocked until somebody brings what cannot be made here. */
export function bring(reason: Reason, message: string, recheckAt: Date): Verdict {
  return { ...blocked(reason, message, recheckAt), byHand: true };
}

/** Looked for sooner than usual: what others give has nothing valid for it. */
export function awaiting(verdict: Verdict): Verdict {
  return { ...verdict, awaits: true };
}

export interface Renewal {
  readonly reason: Reason;
  readonly message: string;
  readonly now: Date;
  readonly after: readonly string[];
  readonly leaves: Omit<Expected, 'renewed' | 'hasKey'>;
}

export function renew({ reason, message, now, after, leaves }: Renewal): Verdict {
  return {
    action: 'renew',
    reason,
    message,
    recheckAt: now,
    after,
    leaves: { renewed: true, hasKey: true, ...leaves },
  };
}

export function laterMs(date: Date, ms: number): Date {
  return new Date(date.getTime() + ms);
}

export function earliest(...dates: readonly (Date | undefined)[]): Date {
  const known = dates.filter((date): date is Date => date !== undefined);
  return known.reduce((first, date) => (date < first ? date : first));
}

/** Files are also copied one after the other by people: they have more time, never so much that a kubelet waits. */
const settleMsOf = (location: Location, { settleMs }: RenewalPolicy): number =>
  isFile(location) ? Math.min(settleMs * 3, 3000) : settleMs;

/**
 * Two objects contradict each other, or two files. Another writer may stand between its two writes, so the contradiction
 * is believed only when none of them has changed for a while; returns until when to wait, or undefined.
 */
export function settlesAt(at: Case<ResolvedArtefact>, names: readonly string[]): Date | undefined {
  const { artefact, facts, policy, now } = at;
  let latest: Date | undefined;
  for (const name of names) {
    const fact = facts.get(name);
    const since = fact !== undefined && 'since' in fact ? fact.since : undefined;
    if (since !== undefined && (latest === undefined || since > latest)) latest = since;
  }
  if (latest === undefined) return undefined;
  const until = laterMs(latest, settleMsOf(artefact.location, policy));
  return now < until ? until : undefined;
}

/** Fingerprints of the certificates that are valid now, give or take the difference of two machines' clocks. */
export function validNow(fact: ArtefactFacts, now: Date): ReadonlySet<string> {
  const certificates = certificatesOf(fact);
  const begun = laterMs(now, clockSkewMs);
  return new Set(
    certificates
      .filter(({ notBefore, notAfter, isDamaged }) => notBefore <= begun && now < notAfter && isDamaged !== true)
      .map((c) => c.fingerprint),
  );
}

/** What can be read, also of something broken: a certificate without its key, the whole blocks of a torn bundle. */
export function certificatesOf(fact: ArtefactFacts): readonly CertificateFacts[] {
  if (fact.state === 'present') return fact.certificates;
  return fact.state === 'broken' ? (fact.certificates ?? []) : [];
}

/** What is to be told of something healthy, behind a message: which of its certificates newer Go refuses. */
export function refusedByNewer(certificates: readonly CertificateFacts[]): string {
  const refused = certificates.filter(({ newerGo }) => newerGo !== undefined);
  return refused.map(({ subject, newerGo }) => `; ${subject}: ${newerGo}`).join('');
}

/** Why something is to be written anew. */
export interface Difference {
  readonly reason: Reason;
  readonly message: string;
}

export function damaged({ fact }: Case<ResolvedArtefact>): Difference | undefined {
  if (fact.state === 'absent') return { reason: 'Absent', message: 'it is absent' };
  if (fact.state !== 'broken') return undefined;
  return { reason: reasonOf(fact), message: `it is broken: ${fact.message}` };
}

export function reasonOf({ problem }: ArtefactFacts & { state: 'broken' }): Reason {
  if (problem === 'damaged') return 'Damaged';
  return problem === 'mismatchedPair' ? 'MismatchedPair' : 'Unreadable';
}

/** A contradiction that has stood long enough is repaired; a fresh one may be another writer between two writes. */
export function settled(
  at: Case<ResolvedArtefact>,
  names: readonly string[],
  difference: Difference,
  renewal: (difference: Difference) => Verdict,
): Verdict {
  const until = settlesAt(at, names);
  if (until === undefined) return renewal(difference);
  return keep('Settling', `${difference.message}; looked at again before it is believed`, until);
}
