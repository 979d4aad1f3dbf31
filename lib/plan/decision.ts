// The decision about one artefact, and how the rules of each kind reach it: a chain of named checks, of which the first
// that finds something decides. Pure.
import type { IssuedPair, PolicyKind, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import type { ClockFacts } from './clock-rules.ts';
import { type Certificate, type CertificateFacts, clockSkewMs } from '../pki/certificate.ts';
import { type ArtefactFacts, type CasByName, certificatesOf, type Facts, type InUse, type Offers } from './facts.ts';
import type { Fleet, NewCa } from './judge-fleet.ts';
import type { Action, Reason } from './reasons.ts';
import type { RenewalWindow } from './window.ts';

interface OriginTraits {
  /** Dates are signed, so the time must be known. */
  readonly needsClock: boolean;
  /** The renewal in the words of `status`. */
  readonly done: string;
}

/** Ways in which a renewal obtains its content, as the plan knows them. `origins` in lib/origin carries them out. */
export const originTraits = {
  /** Made here: signed, or composed of artefacts made here. */
  sign: { needsClock: true, done: 'reissued' },
  /** A CA that is signed again with its own key: the certificates it has signed stay. */
  ownKey: { needsClock: true, done: 'renewed with its own key' },
  /** The successor of a CA, with its key, that a file here or the cluster holds: what the CA has signed stays valid. */
  follow: { needsClock: false, done: 'replaced by its successor' },
  /** A certificate issued for the present key, and signed elsewhere. */
  request: { needsClock: false, done: 'requested with its key' },
  /** The certificate of a CA, restored from its copies; an earlier pair of a kubelet. */
  putBack: { needsClock: false, done: 'put back' },
  /** A CA with its key, copied from the artefact (`holder`) that has both. */
  sibling: { needsClock: false, done: 'put back' },
  /** The CA of a kubeconfig alone: its credentials stay. */
  authority: { needsClock: true, done: 'given the new CA' },
  /** A pair fetched from its source. */
  fetch: { needsClock: false, done: 'brought from its source' },
} as const satisfies Readonly<Record<string, OriginTraits>>;

export type Origin = keyof typeof originTraits;

export interface Decision {
  readonly artefact: string;
  readonly action: Action;
  readonly reason: Reason;
  /** One sentence for people: the state, the wanted state, and the action where a person must act. */
  readonly message: string;
  /** When this decision can change by the passing of time alone. */
  readonly recheckAt: Date;
  /** Artefacts whose renewal must have succeeded before this one is carried out. */
  readonly after: readonly string[];
  /** The administrator must bring it, or the CA that would sign it: retries do not help. */
  readonly byHand?: true | undefined;
  /** Origin of a renewal, also where the clock blocks it. */
  readonly origin?: Origin;
  /** The artefact that has a signer with its key (`sibling`). */
  readonly holder?: string;
  /** Origin from which its content is obtained first, between two passes. Then it is decided again. */
  readonly obtains?: Origin;
  /** The CAs that its file holds then (`follow` of a file of CAs); of a directory, those of each file that changes. */
  readonly becomes?: readonly Certificate[] | CasByName;
  /** An external input has nothing valid for it: its owner may bring that at any moment. */
  readonly awaits?: true;
  /** It waits for nodes, which were not asked yet. Then it is decided again. */
  readonly asksNodes?: NewCa;
  /** It depends on the certificates in use here, which were not read yet. Then it is decided again. */
  readonly asksUse?: true | undefined;
  /** Time of its renewal ahead of time, where that is configured and nothing happens before. */
  readonly renewsAt?: Date | undefined;
}

/** Renewal of files of this host before they expire (`--renew-before`). */
export interface RenewAhead {
  /** Remaining life of a leaf, in milliseconds; undefined: only entries that have a threshold of their own. */
  readonly beforeMs?: number | undefined;
  /** Remaining life of a CA, in milliseconds. */
  readonly signerBeforeMs: number;
  /** Same on one node always, 0 to below 1: spreads the nodes over the threshold and over the window. */
  readonly jitter: number;
  /** Undefined: at any time. */
  readonly window?: RenewalWindow | undefined;
  /** Why this node must wait, where the control-plane nodes of a cluster renew one after the other. */
  readonly waits?: string | undefined;
  /** Reports due renewals and renews nothing before it has expired. */
  readonly warnOnly: boolean;
}

export interface RenewalPolicy {
  /** `OnlyWhenExpired`: only expired or broken artefacts are touched. `BeforeExpiry`: ours, renewed ahead of time. */
  readonly kind: PolicyKind;
  /** How long after notAfter an object in the API is left to the cluster's own rotator. Files have no other rotator. */
  readonly graceMs: number;
  /**
   * How long two objects in the API must contradict each other (a bundle without its signer, a copy unlike its
   * original) before it is taken for a fault and not for another writer's work between two writes.
   */
  readonly settleMs: number;
  readonly ahead?: RenewAhead | undefined;
  /**
   * Treatment of a CA in files that has expired and whose key is here. `SameKey` (default): it is renewed with that
   * key. `Report`: it is reported.
   */
  readonly caRenewal?: 'SameKey' | 'Report';
  /** How long the CAs of its inputs are in a file before a CA that was named for removal leaves it. Default: 24 h. */
  readonly caOverlapMs?: number | undefined;
  /** Fingerprints of CAs in files that may sign although another CA has signed all leaves that lie here. */
  readonly acceptedAuthorities?: ReadonlySet<string> | undefined;
  /** Bundles of nodes that must hold a new CA before it signs, by signer. */
  readonly waitForNodes?: ReadonlyMap<string, readonly string[]> | undefined;
  /** Nodes that are not waited for. */
  readonly acceptedLagging?: ReadonlySet<string> | undefined;
}

/** Content of an artefact once the plan is carried out, as far as later artefacts depend on it. */
export interface Expected {
  readonly renewed: boolean;
  /** A pair whose key is at hand. */
  readonly hasKey: boolean;
  /** Fingerprints of the valid certificates that will be in it. */
  readonly trusted: ReadonlySet<string>;
  /** Signers whose new certificate, not yet made, will be in it. */
  readonly newFrom: ReadonlySet<string>;
  /** Certificate of a pair that stays. */
  readonly certificate?: CertificateFacts | undefined;
  /** notAfter of the new certificate of a pair that is renewed. */
  readonly newNotAfter?: Date | undefined;
  /** Time at which it may be rewritten, so an artefact made from it now would soon be made again. */
  readonly settlesAt?: Date | undefined;
  /** Its renewal is needed, and not possible now. */
  readonly blocked?: boolean;
  /** A person must bring it, and nothing can be made of it before that. */
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
   * Something had already expired, after its owner's grace, within the last minute: no other controller seems to renew
   * these objects, so external inputs are followed without waiting.
   */
  readonly unattended?: boolean;
  /** Since when each pass has found an artefact in a contradiction that was not believed (settling.ts), by artefact. */
  readonly settlingSince?: ReadonlyMap<string, Date> | undefined;
  /** Leaves out renewals that are only due for refresh: the plan of today's faults. */
  readonly onlyFaults?: boolean;
  /** Pairs from the sources of targets that have one. */
  readonly offers?: Offers | undefined;
  /** Undefined: nodes cannot be asked. */
  readonly fleet?: Fleet | undefined;
  /** Undefined: not read. */
  readonly inUse?: InUse | undefined;
}

export interface Case<A extends ResolvedArtefact = ResolvedArtefact> extends PlanInput {
  readonly artefact: A;
  readonly fact: ArtefactFacts;
  readonly expected: ReadonlyMap<string, Expected>;
}

/** Artefact that has a certificate and a key of its own. */
export type PairCase = Case<IssuedPair>;

/** Returns a copy of a pair as a pair of its own: its original, at the copy's place and under its name. */
export function pairOf(artefacts: readonly ResolvedArtefact[], copy: ResolvedArtefact): IssuedPair | undefined {
  const original = originalOf(artefacts, copy);
  if (original?.kind !== 'signer' && original?.kind !== 'target') return undefined;
  return { ...original, name: copy.name, location: copy.location };
}

/** Fault that a renewal repairs. */
export interface Fault {
  readonly reason: Reason;
  readonly message: string;
}

/** A decision without its name, with the content that a renewal leaves for the artefacts that are judged later. */
export type Verdict = Omit<Decision, 'artefact'> & { readonly leaves: Expected };

/** A fault, or why it is left alone. */
export type Finding = Fault | Verdict;
export type Check<C> = (at: C) => Finding | undefined;

export const isVerdict = (finding: Finding): finding is Verdict => 'action' in finding;

/** Returns the finding of the first check that finds something. */
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
  /** Finding where no check finds anything. */
  readonly otherwise: (at: C) => Finding;
  /** Why a fault is not, or not simply, repaired by a renewal. */
  readonly obstacles?: readonly ((at: Faulty<C>) => Verdict | undefined)[];
  readonly renewal: (at: Faulty<C>) => Verdict;
}

/** Returns the verdict of the first check with a finding: a fault is renewed, unless an obstacle prevents it. */
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

/** Blocked until a person brings material that cannot be made here. */
export function bring(reason: Reason, message: string, recheckAt: Date): Verdict {
  return { ...blocked(reason, message, recheckAt), byHand: true };
}

/** `after`: artefacts that must have been renewed before. */
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

/** Recheck interval of artefacts that need no attention, or wait for something that no watch announces. */
export const idleMs = 3_600_000;
export const lookAgainMs = 30_000;
/** Recheck interval of inputs that a cluster still lacks while it is being set up. */
export const soonMs = 5000;

/** Fault where an artefact is absent or broken. */
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

/** Suffix for the message about a healthy artefact: which of its certificates newer Go refuses. */
export function refusedByNewer(certificates: readonly CertificateFacts[]): string {
  const refused = certificates.filter(({ newerGo }) => newerGo !== undefined);
  return refused.map(({ subject, newerGo }) => `; ${subject}: ${newerGo}`).join('');
}
