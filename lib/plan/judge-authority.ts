// The CAs that a machine without their key holds, and their successors in the cluster: which of them has expired or
// expires soon, which CA may follow it, and what its file holds then. Such a machine cannot verify a CA by anything that
// it holds: it accepts only a CA with the same name and key as a CA it trusts already, signed by that key. Pure.
import { bounds } from '../bounds.ts';
import { errorText } from '../errors.ts';
import { caThresholdMs } from '../pki/ca-due.ts';
import { isSame, type Certificate, parseCertificates } from '../pki/certificate.ts';
import { isSuccessor, lastToEnd, newestSuccessor, replaced, successorProblem } from '../pki/successor.ts';

export type Ending = 'expired' | 'ending';

/** Control-plane nodes without a setting renew their CA by then. */
export const dueOf = ({ facts }: Certificate): Date => new Date(facts.notAfter.getTime() - caThresholdMs(facts));

/** Undefined: more of its life is left than is needed. */
export function endingOf(certificate: Certificate, now: Date): Ending | undefined {
  if (now >= certificate.facts.notAfter) return 'expired';
  return now >= dueOf(certificate) ? 'ending' : undefined;
}

/** The worst state among the CAs held. */
export function worstEnding(held: readonly Certificate[], now: Date): Ending | undefined {
  const all = held.map((one) => endingOf(one, now));
  return all.find((ending) => ending === 'expired') ?? all.find((ending) => ending !== undefined);
}

export type OfferJudgement =
  | { readonly state: 'successor'; readonly certificate: Certificate }
  /** The cluster has no successor yet: it offers a CA that is held here already. */
  | { readonly state: 'none' }
  | { readonly state: 'refused'; readonly reason: string };

const mostOffered = bounds.clusterInfo.most.CAs;

/** Whether a CA offered (PEM) may replace a CA held that expires: each is judged by itself. */
export function judgeOffer(offered: Uint8Array, held: readonly Certificate[], now: Date): OfferJudgement {
  let all: readonly Certificate[];
  try {
    all = parseCertificates(offered, 'the CA that is offered');
  } catch (err) {
    return { state: 'refused', reason: errorText(err) };
  }
  if (all.length === 0 || all.length > mostOffered)
    return { state: 'refused', reason: `it is ${all.length} certificates, wanted one to ${mostOffered}` };
  const judgements = all.map((one) => judgeOne(one, held, now));
  const latest = lastToEnd(judgements.flatMap((one) => (one.state === 'successor' ? [one.certificate] : [])));
  if (latest !== undefined) return { state: 'successor', certificate: latest };
  return judgements.find(({ state }) => state === 'none') ?? (judgements[0] as OfferJudgement);
}

function judgeOne(certificate: Certificate, held: readonly Certificate[], now: Date): OfferJudgement {
  const refused = (reason: string): OfferJudgement => ({ state: 'refused', reason });
  if (held.some((one) => isSame(one, certificate))) return { state: 'none' };
  const { subject, fingerprint, notBefore, notAfter } = certificate.facts;
  const what = `"${subject}" (sha256 ${fingerprint.slice(0, 16)}, until ${notAfter.toISOString()})`;
  const ending = held.filter((one) => endingOf(one, now) !== undefined);
  const followed = ending.find((one) => isSuccessor(certificate, one));
  if (followed === undefined) {
    // A successor offered early, which is not needed here yet.
    if (held.some((one) => isSuccessor(certificate, one))) return { state: 'none' };
    const [nearest] = ending.toSorted(
      (a, b) => Number(b.facts.subject === subject) - Number(a.facts.subject === subject),
    );
    const problem = nearest && successorProblem(certificate, nearest);
    return refused(
      `${what} is no renewal of "${nearest?.facts.subject ?? ''}" with its own key: ${problem ?? 'none ends'}`,
    );
  }
  if (now < notBefore) return refused(`${what} is not valid before ${notBefore.toISOString()}`);
  if (now >= notAfter) return refused(`${what} has expired`);
  return { state: 'successor', certificate };
}

/**
 * The certificates of a file, each expiring one replaced by its successor among `known`; undefined where none is
 * replaced.
 */
export const followedBy = (
  held: readonly Certificate[],
  known: readonly Certificate[],
  now: Date,
): readonly Certificate[] | undefined =>
  replaced(held, (one) => (endingOf(one, now) === undefined ? undefined : newestSuccessor(one, known, now)));
