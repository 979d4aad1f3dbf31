// The outcome of planning: one decision for each artefact, in the order in which they are carried out.
import type { PolicyKind } from '../inventory/model.ts';

import type { Faults } from './faults.ts';

/** Why an artefact is renewed, or why not. Constants: shown by `status`, in logs and in Events. */
export type Reason =
  | 'Healthy'
  | 'Absent'
  | 'Unreadable'
  | 'MismatchedPair'
  | 'Damaged'
  | 'Expired'
  | 'InGrace'
  | 'NotYetValid'
  | 'SignerMissingFromBundle'
  | 'ExpiredInBundle'
  | 'IssuerNotTrusted'
  | 'Unfit'
  | 'HostnameMissing'
  | 'HostnameUnknown'
  | 'AuthorityDiffers'
  | 'InputsDiffer'
  | 'OriginalDiffers'
  | 'NotPromotedYet'
  | 'Settling'
  | 'RefreshDue'
  | 'SignerTooYoung'
  | 'SignerEnding'
  | 'SignerUnusable'
  | 'SignerExternal'
  | 'Unavailable'
  | 'ClockImplausible'
  | 'ClockJumped'
  | 'NotOurs';

export interface Decision {
  readonly artefact: string;
  /** `renew`: it is made anew. `keep`: nothing to do now. `blocked`: it needs renewal and that is not possible now. */
  readonly action: 'renew' | 'keep' | 'blocked';
  readonly reason: Reason;
  /** One sentence for people: the state, the wanted state, and what to do where a person must act. */
  readonly message: string;
  /** When this decision can change by the passing of time alone. */
  readonly recheckAt: Date;
  /** Artefacts whose renewal must have succeeded before this one is carried out. */
  readonly after: readonly string[];
  /** Somebody must bring it, or the CA that would sign it: waiting and trying again do not help. */
  readonly byHand?: true;
  /** A signer of which only the certificate is written, as its copies have it: nothing is signed. */
  readonly putsBack?: true;
  /** What others give has nothing valid for it: they may bring that at any moment. */
  readonly awaits?: true;
}

export interface Plan {
  /** Every artefact of the inventory once, in topological order. */
  readonly decisions: readonly Decision[];
  /** The earliest recheckAt. */
  readonly recheckAt: Date;
  /** What was thrown while an artefact was judged: it is blocked, and the others are not concerned. */
  readonly faults?: Faults;
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
}

/** What is known about this machine's clock; the judgement over it is part of the plan. */
export interface ClockFacts {
  /** The program was built then: no correct clock shows an earlier time. */
  readonly builtAt: Date;
  /** Whether something on this machine says that its clock is synchronised. */
  readonly synchronised: boolean;
  /** Until then nothing is signed, because the clock has just jumped. */
  readonly settlesAt?: Date;
  /**
   * Fingerprints of certificates that this process has made while nothing confirmed its clock, which may have been set
   * since: they only repeat what it showed.
   */
  readonly made?: ReadonlySet<string>;
  /** Of other machines, as they have just been seen; none where none was asked. */
  readonly others?: readonly OtherClock[];
}

/** The clock of another machine, which has written the time while we looked. */
export interface OtherClock {
  /** For messages: which machine, and where it wrote. */
  readonly of: string;
  /** By how much our clock is at least ahead of it, milliseconds; negative: behind. */
  readonly aheadMs: number;
}
