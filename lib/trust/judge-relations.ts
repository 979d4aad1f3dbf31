// Whether everybody who must trust somebody does so, at a time. Pure.
import type { Certificate } from '../pki/certificate.ts';
import { announcedPart } from '../well-known.ts';
import { bundleCheck } from './bundle-check.ts';
import type { RelationCheck } from './check.ts';
import { checksOf } from './checks.ts';
import { bundleKinds, type Relation } from './relations.ts';
import type { TrustJudgement, Side, TrustFacts } from './trust-facts.ts';

export interface RelationRow extends TrustJudgement {
  readonly id: Relation['id'] | keyof typeof bundleKinds;
  readonly credential: Side;
  readonly trust: Side;
  /** What does not work where it does not hold. */
  readonly breaks: string;
  /** By what people see it. */
  readonly seen: string;
  /** The first time at which it does not hold any more; undefined: no date ends it. */
  readonly breaksFrom?: Date;
  /** Whether that is so soon that it is announced. */
  readonly isEnding?: true;
  /** Whether it held until the first of its certificates expired. */
  readonly isExpired?: true;
}

export function judgeRelations(relations: readonly Relation[], facts: TrustFacts, now: Date): readonly RelationRow[] {
  const all = [
    ...relations.flatMap((one) => checksOf(one, facts).map((check) => ({ ...one, check }))),
    ...facts.bundles.map((one) => ({ id: one.id, ...bundleKinds[one.id], check: bundleCheck(one, facts) })),
  ];
  return all.map(({ id, breaks, seen, check }): RelationRow => {
    const { credential, trust } = check;
    const answer = check.answer(now);
    return { id, credential, trust, ...answer, breaks, seen, ...endOf(check, answer, now) };
  });
}

function endOf(
  check: RelationCheck,
  { verdict }: TrustJudgement,
  now: Date,
): Pick<RelationRow, 'breaksFrom' | 'isEnding' | 'isExpired'> {
  const all = check.certificates.toSorted(
    (one, other) => one.facts.notAfter.getTime() - other.facts.notAfter.getTime(),
  );
  const first = all[0]?.facts.notAfter;
  if (verdict === 'fails' && first !== undefined && first < now)
    return check.answer(first).verdict === 'holds' ? { isExpired: true } : {};
  if (verdict !== 'holds') return {};
  const ends = all.filter(({ facts }) => facts.notAfter >= now);
  const last = ends.find((one) => check.answer(justAfter(one)).verdict !== 'holds');
  if (last === undefined) return {};
  const { notBefore, notAfter } = last.facts;
  const announcedMs = Math.min((notAfter.getTime() - notBefore.getTime()) * announcedPart, yearMs);
  const isEnding = notAfter.getTime() - now.getTime() < announcedMs;
  return { breaksFrom: notAfter, ...(isEnding && { isEnding }) };
}

/** A leaf made now outlives a CA that ends sooner. */
const yearMs = 365 * 24 * 3_600_000;

/** A certificate is valid until the end of its last second (Go's crypto/x509 compares with NotAfter itself). */
const justAfter = ({ facts }: Certificate): Date => new Date(facts.notAfter.getTime() + 1);
