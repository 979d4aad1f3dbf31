// The outcome of planning: one decision for each artefact, in the order in which they are carried out.

/** Why an artefact is renewed, or why not. Constants: shown by `status`, in logs and in Events. */
export type Reason =
  | 'Healthy'
  | 'Absent'
  | 'Unreadable'
  | 'MismatchedPair'
  | 'Expired'
  | 'InGrace'
  | 'NotYetValid'
  | 'SignerMissingFromBundle'
  | 'ExpiredInBundle'
  | 'IssuerNotTrusted'
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
  /** What others give has nothing valid for it: they may bring that at any moment. */
  readonly awaits?: true;
}

export interface Plan {
  /** Every artefact of the inventory once, in topological order. */
  readonly decisions: readonly Decision[];
  /** The earliest recheckAt. */
  readonly recheckAt: Date;
}

export interface RenewalPolicy {
  /** `OnlyWhenExpired`: only what is expired or broken is touched. `BeforeExpiry`: we own it and renew ahead of time. */
  readonly kind: 'OnlyWhenExpired' | 'BeforeExpiry';
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
}
