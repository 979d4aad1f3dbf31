// Why an artefact is renewed, or why not: words that never change, shown by `status`, in logs and in Events. The table
// in docs/reasons.md is written from these (scripts/reasons.ts). Pure.

/**
 * `renew`: it is reissued, regenerated or rewritten. `keep`: nothing to do now. `blocked`: it needs renewal, not
 * possible now.
 */
export type Action = 'renew' | 'keep' | 'blocked';

/** The actions of a reason, its meaning in a few words, and the consequence. */
type Explained = readonly [action: Action | `${Action}, ${Action}`, meaning: string, follows: string];

export const reasons = {
  Healthy: ['keep', 'as it should be', 'looked at again at its end'],
  Absent: ['renew, blocked', 'not there', 'made; blocked: see the message'],
  Unreadable: ['renew, blocked', 'broken PEM, or an entry is missing', 'renewed'],
  MismatchedPair: ['renew', 'key and certificate differ', 'reissued'],
  Damaged: ['renew, blocked', "a CA's own signature is wrong", 'put back from copies, see below'],
  Expired: ['renew', 'past its end and its grace', 'renewed'],
  InGrace: ['keep', 'past its end, within its grace', 'renewed when the grace ends'],
  NotYetValid: ['keep, renew', 'begins in the future', 'waits up to 5 minutes'],
  SignerMissingFromBundle: ['renew, blocked', 'a bundle lacks its signer', 'the bundle first, then targets'],
  ExpiredInBundle: ['renew', 'a bundle holds expired certificates', 'cleared by `BeforeExpiry`'],
  IssuerNotTrusted: ['renew', 'nothing in its bundle has signed it', 'reissued'],
  Unfit: ['renew', 'usage or subject are refused by all', 'reissued, as declared'],
  HostnameMissing: ['renew', 'a name it must hold is not in it', 'reissued'],
  HostnameUnknown: ['keep, blocked', 'a name of it cannot be read now', 'made once its names are known'],
  AuthorityDiffers: ['renew', 'a kubeconfig knows only a former CA', 'rewritten, with the CA'],
  InputsDiffer: ['renew', 'a composed bundle lacks an input', 'written'],
  OriginalDiffers: ['renew, keep', 'a copy differs from its original', 'written'],
  NotPromotedYet: ['keep', 'its original is still too young', 'written at its promotion time'],
  Settling: ['keep', 'two objects or files contradict', 'believed after `policy.settle`'],
  NotOffered: ['keep', 'its source has it no more', 'stays; delete it by hand'],
  StillUsed: ['keep', 'a CA named for removal is in use', 'leaves once nothing needs it'],
  RefreshDue: ['renew', 'past its refresh time', 'renewed by `BeforeExpiry`'],
  Postponed: ['keep', 'due, outside of the window', 'renewed in the next one'],
  ClockUnconfirmed: ['keep', 'due, by a clock in doubt', 'renewed when it is confirmed'],
  WarnOnly: ['keep', 'due, and only reported', 'renewed when it has expired'],
  SignerTooYoung: ['keep', 'due, but its signer is fresh', 'renewed when all trust it'],
  NodesLag: ['keep', 'due, but nodes lack the new CA', 'renewed when they have it'],
  SignerEnding: ['keep', 'due, but its signer ends too soon', 'the signer must be renewed'],
  SignerUnusable: ['blocked', 'its signer cannot sign now', 'a person must look, see below'],
  SignerUnknown: ['blocked', 'a CA that none of its leaves knows', 'restore or accept it, see below'],
  SignerExternal: ['keep, blocked', "its CA's key is not on this machine", 'bring it by hand, see below'],
  OfferedBySource: ['renew', 'its source has one that ends later', 'brought from there'],
  Unavailable: ['blocked', 'it could not be read', 'asked again'],
  ClockImplausible: ['blocked', 'the clock cannot be right', 'set the clock, see below'],
  ClockJumped: ['blocked', 'the clock was set while this ran', 'waits a minute at most'],
  NotOurs: ['keep, blocked', 'not made here, or not before an end', 'bring or restore it'],
} as const satisfies Readonly<Record<string, Explained>>;

export type Reason = keyof typeof reasons;

/** Reasons of due or expired artefacts that a rule leaves unchanged for now: shown to a person who starts a run. */
export const leavingReasons: readonly Reason[] = [
  'InGrace',
  'Postponed',
  'ClockUnconfirmed',
  'WarnOnly',
  'SignerTooYoung',
  'NodesLag',
  'SignerEnding',
  'SignerExternal',
  'NotOffered',
  'StillUsed',
];

/** Reasons of artefacts that are valid and soon to be renewed: `status` shows them as EXPIRING. */
export const endingReasons: readonly Reason[] = [
  'RefreshDue',
  'Postponed',
  'ClockUnconfirmed',
  'WarnOnly',
  'SignerTooYoung',
  'NodesLag',
  'SignerEnding',
];

const dueReasons: ReadonlySet<Reason> = new Set<Reason>(['RefreshDue', 'WarnOnly', 'ClockUnconfirmed']);

/** Whether an end is announced: now, as it is due; never, as it is renewed before; or by the time that is left. */
export const announcedAs = (by: { readonly reason: Reason; readonly renewsAt?: Date | undefined }) =>
  dueReasons.has(by.reason) ? 'due' : by.renewsAt === undefined ? 'byTime' : 'renewed';
