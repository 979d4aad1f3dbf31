// What is decided about one artefact, and how the rules of each kind come to it: a chain of named checks, of which the first
// that finds something decides. Pure.
import type { IssuedPair, PolicyKind, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import type { ClockFacts } from './clock-rules.ts';
import { type CertificateFacts, clockSkewMs } from '../pki/certificate.ts';
import { type ArtefactFacts, certificatesOf, type Facts, type Offers } from './facts.ts';
import type { Action, Reason } from './reasons.ts';
import type { RenewalWindow } from './window.ts';

/** How a renewal obtains its content, with what the rules must know of each way. */
export const origins = {
  /** Made here: signed, or composed of what is made here. */
  sign: { needsClock: true },
  /** A CA that is signed again with its own key: what it has signed stays. */
  ownKey: { needsClock: true },
  /** The successor of a CA, with its key, that a file here holds: what the CA has signed stays. */
  follow: { needsClock: false },
  /** The certificate of a CA as its copies have it. */
  putBack: { needsClock: false },
  /** A CA with its key as another artefact (`holder`) has both. */
  sibling: { needsClock: false },
  /** The CA of a kubeconfig alone: its credentials stay. */
  authority: { needsClock: true },
  /** A pair that its source has. */
  fetch: { needsClock: false },
} as const satisfies Readonly<Record<string, { readonly needsClock: boolean }>>;

export type Origin = keyof typeof origins;

export interface Decision {
  readonly artefact: string;
  readonly action: Action;
  readonly reason: Reason;
  /** One sentence for people: the state, the wanted state, and what to do where a person must act. */
  readonly message: string;
  /** When this decision can change by the passing of time alone. */
  readonly recheckAt: Date;
  /** Artefacts whose renewal must have succeeded before this one is carried out. */
  readonly after: readonly string[];
  /** Somebody must bring it, or the CA that would sign it: waiting and trying again do not help. */
  readonly byHand?: true | undefined;
  /** Of a renewal, also of one that the clock keeps from being carried out. */
  readonly origin?: Origin;
  /** The artefact that has a signer with its key (`sibling`). */
  readonly holder?: string;
  /** The source of it is to be asked, and then it is decided again (offer-rules.ts). */
  readonly asks?: true;
  /** An external input has nothing valid for it: others may bring that at any moment. */
  readonly awaits?: true;
  /** When it is renewed ahead of time, where that was asked for and nothing happens before. */
  readonly renewsAt?: Date | undefined;
}

/** Renewal of files of this host before they expire (`--renew-before`). */
export interface RenewAhead {
  /** Remaining life of a leaf, in milliseconds; undefined: only of entries that have a threshold of their own. */
  readonly beforeMs?: number | undefined;
  /** Remaining life of a CA, in milliseconds. */
  readonly signerBeforeMs: number;
  /** From 0 to less than 1, always the same on one node: spreads the nodes over the threshold and over the window. */
  readonly jitter: number;
  /** Undefined: at any time. */
  readonly window?: RenewalWindow | undefined;
  /** Why this node may not renew now, where the control-plane nodes of a cluster renew one after the other. */
  readonly waits?: string | undefined;
  /** Says what is due and renews nothing before it has expired. */
  readonly warnOnly: boolean;
}

export interface RenewalPolicy {
  /** `OnlyWhenExpired`: only what is expired or broken is touched. `BeforeExpiry`: we own it and renew ahead of time. */
  readonly kind: PolicyKind;
  /** How long after notAfter an object in the API is left to the cluster's own rotator. Files have no other rotator. */
  readonly graceMs: number;
  /**
   * How long two objects in the API must stand in contradiction (a bundle without its signer, a copy unlike its
   * original) before it is taken for a fault and not for another writer's work between two writes.
   */
  readonly settleMs: number;
  readonly ahead?: RenewAhead | undefined;
  /**
   * What becomes of a CA in files that has expired and whose key is here. `SameKey` (default): it is renewed with that key.
   * `Report`: it is reported.
   */
  readonly caRenewal?: 'SameKey' | 'Report';
  /** Fingerprints of CAs in files that may sign although all that lies here was signed by another one. */
  readonly acceptedAuthorities?: ReadonlySet<string> | undefined;
}

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
  readonly certificate?: CertificateFacts | undefined;
  /** Of a pair that is renewed: when the new certificate will end. */
  readonly newNotAfter?: Date | undefined;
  /** It may be rewritten then, so what is made of it now would soon be made again. */
  readonly settlesAt?: Date | undefined;
  /** It needs renewal, and that is not possible now. */
  readonly blocked?: boolean;
  /** It must be brought, and nothing can be made of it before that. */
  readonly byHand?: true | undefined;
  /** How it is renewed. Certificates that a CA in `trusted` has signed stay valid with `ownKey` and `follow`. */
  readonly origin?: Origin;
}

export interface PlanInput {
  readonly resolved: Resolved;
  readonly facts: Facts;
  readonly policy: RenewalPolicy;
  readonly clock: ClockFacts;
  readonly now: Date;
  /**
   * Something that had expired was found so within the last minute, after its owner's grace: nobody else seems to renew
   * these objects, so external inputs are followed without waiting.
   */
  readonly unattended?: boolean;
  /** By artefact: since when each look has found it in a contradiction that was not believed (settling.ts). */
  readonly settlingSince?: ReadonlyMap<string, Date> | undefined;
  /** Leaves alone what is only due for refresh: the plan of what is wrong today. */
  readonly onlyFaults?: boolean;
  /** What others have made for targets that have a source. */
  readonly offers?: Offers | undefined;
}

export interface Case<A extends ResolvedArtefact = ResolvedArtefact> extends PlanInput {
  readonly artefact: A;
  readonly fact: ArtefactFacts;
  readonly expected: ReadonlyMap<string, Expected>;
}

/** What has a certificate and a key of its own. */
export type PairCase = Case<IssuedPair>;

/** A copy of a pair as a pair of its own: what its original is, in the copy's place and by its name. */
export function pairOf(artefacts: readonly ResolvedArtefact[], copy: ResolvedArtefact): IssuedPair | undefined {
  const original = originalOf(artefacts, copy);
  if (original?.kind !== 'signer' && original?.kind !== 'target') return undefined;
  return { ...original, name: copy.name, location: copy.location };
}

/** Something is wrong with it: a renewal puts that right. */
export interface Fault {
  readonly reason: Reason;
  readonly message: string;
}

/** A decision without its name, with what a renewal leaves behind for the artefacts that are judged later. */
export type Verdict = Omit<Decision, 'artefact'> & { readonly leaves: Expected };

/** A fault, or why it is left alone all the same. */
export type Finding = Fault | Verdict;
export type Check<C> = (at: C) => Finding | undefined;

export const isVerdict = (finding: Finding): finding is Verdict => 'action' in finding;

/** What the first of these checks that finds something has found. */
export function firstOf<C, F extends Finding>(at: C, checks: readonly ((at: C) => F | undefined)[]): F | undefined {
  for (const check of checks) {
    const finding = check(at);
    if (finding !== undefined) return finding;
  }
  return undefined;
}

export type Faulty<C> = C & { readonly fault: Fault };

interface Rules<C> {
  readonly checks: readonly Check<C>[];
  /** What is found where no check finds anything. */
  readonly otherwise: (at: C) => Finding;
  /** Why a fault is not, or not simply, renewed away. */
  readonly obstacles?: readonly ((at: Faulty<C>) => Verdict | undefined)[];
  readonly renewal: (at: Faulty<C>) => Verdict;
}

/** The verdict of the first check that finds something: a fault is renewed away, unless an obstacle stands in the way. */
export function decide<C>(at: C, { checks, otherwise, obstacles = [], renewal }: Rules<C>): Verdict {
  const finding = firstOf(at, checks) ?? otherwise(at);
  if (isVerdict(finding)) return finding;
  const faulty = { ...at, fault: finding };
  return firstOf(faulty, obstacles) ?? renewal(faulty);
}

export const nothing: Expected = { renewed: false, hasKey: false, trusted: new Set(), newFrom: new Set() };

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

/** `after`: what must have been renewed before. */
export function renew(
  { fault, now }: Faulty<Case>,
  after: readonly string[],
  leaves?: Partial<Expected>,
  origin: Origin = 'sign',
): Verdict {
  const left = { ...nothing, renewed: true, hasKey: true, ...leaves, origin };
  return { ...fault, action: 'renew', origin, recheckAt: now, after, leaves: left };
}

/** Whether the same plan writes it: a renewal, or a CA that is put back. */
const isWritten = (state: Expected | undefined): boolean =>
  state?.renewed === true || state?.origin === 'putBack' || state?.origin === 'sibling';

export const writtenOf = (names: readonly string[], { expected }: Case): readonly string[] =>
  names.filter((name) => isWritten(expected.get(name)));

/** Those of them that are renewed by the same plan. */
export const renewedOf = (names: readonly string[], { expected }: Case): readonly string[] =>
  names.filter((name) => expected.get(name)?.renewed === true);

export function laterMs(date: Date, ms: number): Date {
  return new Date(date.getTime() + ms);
}

export function earliest(...dates: readonly (Date | undefined)[]): Date {
  const known = dates.filter((date): date is Date => date !== undefined);
  return known.reduce((first, date) => (date < first ? date : first));
}

/** When what needs no attention, or waits for something that nobody announces, is looked at again. */
export const idleMs = 3_600_000;
export const lookAgainMs = 30_000;
/** What a cluster that is being put together lacks comes soon. */
export const soonMs = 5000;

/** It is absent, or broken. */
export function unusable({ fact }: Case): Fault | undefined {
  if (fact.state === 'absent') return { reason: 'Absent', message: 'it is absent' };
  if (fact.state !== 'broken') return undefined;
  const { problem } = fact;
  const known = { damaged: 'Damaged', mismatchedPair: 'MismatchedPair' } as const;
  const reason = problem === 'damaged' || problem === 'mismatchedPair' ? known[problem] : 'Unreadable';
  return { reason, message: `it is broken: ${fact.message}` };
}

/** Fingerprints of the certificates that are valid now, give or take the difference of two machines' clocks. */
export function validNow(fact: ArtefactFacts | undefined, now: Date): ReadonlySet<string> {
  const begun = laterMs(now, clockSkewMs);
  return new Set(
    certificatesOf(fact)
      .filter(({ notBefore, notAfter, isDamaged }) => notBefore <= begun && now < notAfter && isDamaged !== true)
      .map((c) => c.fingerprint),
  );
}

/** What is to be told of something healthy, behind a message: which of its certificates newer Go refuses. */
export function refusedByNewer(certificates: readonly CertificateFacts[]): string {
  const refused = certificates.filter(({ newerGo }) => newerGo !== undefined);
  return refused.map(({ subject, newerGo }) => `; ${subject}: ${newerGo}`).join('');
}
