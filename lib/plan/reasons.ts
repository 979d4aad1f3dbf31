// Why an artefact is renewed, or why not: words that never change, shown by `status`, in logs and in Events. The table in
// docs/reasons.md is written from these (scripts/reasons.ts).

/** `renew`: it is reissued, regenerated or rewritten. `keep`: nothing to do now. `blocked`: it needs renewal, not possible now. */
export type Action = 'renew' | 'keep' | 'blocked';

interface Explained {
  /** With which it is given. */
  readonly action: Action | `${Action}, ${Action}`;
  /** Of an artefact, in a few words. */
  readonly meaning: string;
  readonly follows: string;
}

export const reasons = {
  Healthy: { action: 'keep', meaning: 'as it should be', follows: 'looked at again at its end' },
  Absent: { action: 'renew, blocked', meaning: 'not there', follows: 'made; blocked: see the message' },
  Unreadable: { action: 'renew, blocked', meaning: 'broken PEM, or an entry is missing', follows: 'renewed' },
  MismatchedPair: { action: 'renew', meaning: 'key and certificate differ', follows: 'reissued' },
  Damaged: {
    action: 'renew, blocked',
    meaning: "a CA's own signature is wrong",
    follows: 'put back from copies, see below',
  },
  Expired: { action: 'renew', meaning: 'past its end and its grace', follows: 'renewed' },
  InGrace: { action: 'keep', meaning: 'past its end, within its grace', follows: 'renewed when the grace ends' },
  NotYetValid: { action: 'keep, renew', meaning: 'begins in the future', follows: 'waits up to 5 minutes' },
  SignerMissingFromBundle: {
    action: 'renew, blocked',
    meaning: 'a bundle lacks its signer',
    follows: 'the bundle first, then targets',
  },
  ExpiredInBundle: {
    action: 'renew',
    meaning: 'a bundle holds expired certificates',
    follows: 'cleared by `BeforeExpiry`',
  },
  IssuerNotTrusted: { action: 'renew', meaning: 'nothing in its bundle has signed it', follows: 'reissued' },
  Unfit: { action: 'renew', meaning: 'usage or subject are refused by all', follows: 'reissued, as declared' },
  HostnameMissing: { action: 'renew', meaning: 'a declared host name is not in it', follows: 'reissued' },
  HostnameUnknown: {
    action: 'keep, blocked',
    meaning: 'a name of it cannot be read now',
    follows: 'made once its names are known',
  },
  AuthorityDiffers: {
    action: 'renew',
    meaning: 'a kubeconfig knows only a former CA',
    follows: 'rewritten, with the CA',
  },
  InputsDiffer: { action: 'renew', meaning: 'a composed bundle lacks an input', follows: 'written' },
  OriginalDiffers: { action: 'renew, keep', meaning: 'a copy differs from its original', follows: 'written' },
  NotPromotedYet: {
    action: 'keep',
    meaning: 'its original is still too young',
    follows: 'written at its promotion time',
  },
  Settling: { action: 'keep', meaning: 'two objects or files contradict', follows: 'believed after `policy.settle`' },
  RefreshDue: { action: 'renew', meaning: 'past its refresh time', follows: 'renewed by `BeforeExpiry`' },
  SignerTooYoung: { action: 'keep', meaning: 'due, but its signer is fresh', follows: 'renewed when all trust it' },
  SignerEnding: { action: 'keep', meaning: 'due, but its signer ends too soon', follows: 'the signer must be renewed' },
  SignerUnusable: {
    action: 'blocked',
    meaning: 'its signer cannot sign now',
    follows: 'a person must look, see below',
  },
  SignerExternal: {
    action: 'keep, blocked',
    meaning: "its CA's key is not on this machine",
    follows: 'bring it by hand, see below',
  },
  Unavailable: { action: 'blocked', meaning: 'it could not be read', follows: 'asked again' },
  ClockImplausible: { action: 'blocked', meaning: 'the clock cannot be right', follows: 'set the clock, see below' },
  ClockJumped: { action: 'blocked', meaning: 'the clock was set while this ran', follows: 'waits a minute at most' },
  NotOurs: { action: 'keep, blocked', meaning: 'not made here, or not before an end', follows: 'bring or restore it' },
} as const satisfies Readonly<Record<string, Explained>>;

export type Reason = keyof typeof reasons;
