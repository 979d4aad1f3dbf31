// One check of a relation: both sides on this machine, and the answer at a time. Pure.
import type { Certificate } from '../pki/certificate.ts';
import type { Rule } from './relations.ts';
import type { TrustJudgement, Side } from './trust-facts.ts';

export type RuleOf<Kind extends Rule['kind']> = Extract<Rule, { readonly kind: Kind }>;

export interface RelationCheck {
  readonly credential: Side;
  readonly trust: Side;
  /** Certificates whose end may be the end of it. */
  readonly certificates: readonly Certificate[];
  readonly answer: (at: Date) => TrustJudgement;
}

/** A check whose answer is the same at all times. */
export const timeless = (credential: Side, trust: Side, answer: TrustJudgement): RelationCheck => ({
  credential,
  trust,
  certificates: [],
  answer: () => answer,
});
