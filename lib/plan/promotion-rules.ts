// When a copy of a signer or of a leaf follows its original, where a new one must be trusted before it is used: at its
// promotion time while what the copy holds still works, at once when it does not. Pure.
// The rule is that of cluster-kube-controller-manager-operator (targetconfigcontroller.go, ManageCSRSigner); what is
// added to it is that nothing is promoted which cannot be used, or which readers do not know yet.
import { durationText } from '../duration.ts';
import type { Copy, DurationMs, ResolvedArtefact } from '../inventory/model.ts';
import { bundlesFor, madeOf, originalOf } from '../inventory/order.ts';
import { isFile } from '../inventory/places.ts';
import { madeAt } from '../pki/facts.ts';
import { expired, notYetValid, undated } from './certificate-rules.ts';
import type { ArtefactFacts } from './facts.ts';
import { blocked, bring, type Case, type Expected, type Finding, keep, laterMs } from './judgement.ts';
import { earliest, isSameAs, type Pair, reasonOf, renew, settlesAt, type Verdict } from './judgement.ts';
import { expiryWithGrace, isOwner } from './refresh-rules.ts';
import { holds, notTrusted } from './trust-rules.ts';

const lookAgainMs = 30_000;

/** A copy, what is to be promoted to it, and who must know that first. */
interface Promotion extends Case<Copy> {
  readonly promoteAfter: DurationMs;
  /** What the copy is in the end a copy of, in the copy's place. */
  readonly pair: Pair;
  readonly source: Source;
  readonly trust: Trust;
}

interface Source {
  readonly name: string;
  readonly fact: ArtefactFacts;
  readonly expected: Expected | undefined;
}

interface Trust {
  /** The bundles that hold the original, or its signer. */
  readonly bundles: readonly ResolvedArtefact[];
  /** With what is composed of them, or copied. */
  readonly all: readonly ResolvedArtefact[];
}

/** Holds the same bytes as its original, once that may be used. */
export function judgePromotion(given: Case<Copy>, promoteAfter: DurationMs): Verdict {
  const { artefacts } = given.resolved;
  const { artefact, now } = given;
  const original = originalOf(artefacts, artefact);
  if (original?.kind !== 'signer' && original?.kind !== 'target') {
    return blocked('Unavailable', `its original ${artefact.of} is no signer and no target`, laterMs(now, lookAgainMs));
  }
  const bundles = bundlesFor(artefacts, original);
  const trust = { bundles, all: [...bundles, ...madeOf(artefacts, bundles)] };
  const pair = { ...original, location: artefact.location };
  const at: Promotion = { ...given, promoteAfter, pair, source: sourceOf(given), trust };

  const finding = fault(at);
  const isDead = finding !== undefined && finding.keepUntil === undefined;
  const unfit = unfitness(at, isDead ? trust.bundles : trust.all);
  if (isDead) return unfit === undefined ? promoted(at, finding) : waitFor(finding, unfit);
  if (isSame(at)) return finding === undefined ? healthy(at) : keepFor(finding, now);
  const due = dueAt(at);
  if (due !== undefined && now < due) {
    const wait = `${at.source.name} is used from ${due.toISOString()}, when all trust it; until then what is here stays`;
    const until = earliest(due, finding?.keepUntil ?? endOf(at));
    return finding === undefined ? keep('NotPromotedYet', wait, until) : keep(finding.reason, finding.message, until);
  }
  if (unfit !== undefined) {
    const until = earliest(unfit.until, finding?.keepUntil ?? endOf(at));
    return keep('NotPromotedYet', `${unfit.message}; until then what is here stays`, until);
  }
  const settles = settlesAt(at, [artefact.name, at.source.name]);
  const message = `it differs from ${at.source.name}`;
  if (settles !== undefined) return keep('Settling', `${message}; looked at again before it is believed`, settles);
  return promoted(at, { reason: 'OriginalDiffers', message: `${message}, which is ${durationText(promoteAfter)} old` });
}

/** What the copy would hold: its original, or where that is a copy which is written anew, what that will hold. */
function sourceOf({ artefact, facts, expected, resolved }: Case<Copy>): Source {
  for (let name = artefact.of; ;) {
    const row = resolved.artefacts.find((one) => one.name === name);
    const state = expected.get(name);
    if (row?.kind !== 'copy' || state?.renewed !== true) {
      return { name, fact: facts.get(name) ?? { state: 'absent' }, expected: state };
    }
    name = row.of;
  }
}

/** Why what the copy holds cannot be used, or not for long (`keepUntil`). */
function fault(at: Promotion): Finding | undefined {
  const { artefact, fact, pair } = at;
  if (fact.state === 'absent') return { reason: 'Absent', message: 'it is absent' };
  if (fact.state === 'broken') {
    const message = `it is broken: ${fact.message}`;
    const keepUntil = settlesAt(at, [artefact.name]);
    if (keepUntil !== undefined) {
      return { reason: 'Settling', message: `${message}; looked at again before it is believed`, keepUntil };
    }
    return { reason: reasonOf(fact), message };
  }
  const certificate = fact.state === 'present' ? fact.certificates[0] : undefined;
  if (certificate === undefined) return undefined;
  for (const check of [notYetValid, expired, notTrusted, undated]) {
    const finding = check({ ...at, artefact: pair }, certificate);
    if (finding === undefined) continue;
    const settles = check === notTrusted ? settlesAt(at, [artefact.name]) : undefined;
    if (settles === undefined || finding.keepUntil !== undefined) return finding;
    const message = `${finding.message}; looked at again before it is believed`;
    return { reason: 'Settling', message, keepUntil: settles };
  }
  return undefined;
}

const isSame = ({ fact, source, pair }: Promotion): boolean =>
  source.expected?.renewed !== true && isSameAs(fact, source.fact, pair.kind);

/**
 * When the promotion is due; undefined when nothing there tells its age. Who only recovers leaves it to the owner first,
 * as it does at the end of a certificate.
 */
function dueAt(at: Promotion): Date | undefined {
  const { source, promoteAfter, pair, policy, now } = at;
  const isOurs = isOwner({ ...at, artefact: pair }) || isFile(pair.location);
  const wait = promoteAfter + (isOurs ? 0 : policy.graceMs + policy.settleMs);
  if (source.expected?.renewed === true) return laterMs(now, wait);
  const certificate = source.fact.state === 'present' ? source.fact.certificates[0] : undefined;
  return certificate === undefined ? undefined : laterMs(madeAt(certificate), wait);
}

interface Unfitness {
  readonly reason: 'Unavailable' | 'SignerMissingFromBundle';
  readonly message: string;
  readonly until: Date;
  readonly byHand?: true;
}

/** Why the original cannot be promoted now: it cannot be used itself, or one of these does not know it. */
function unfitness(at: Promotion, readers: readonly ResolvedArtefact[]): Unfitness | undefined {
  const { source, expected, now } = at;
  const { name, fact } = source;
  const later = laterMs(now, lookAgainMs);
  const unusable = { reason: 'Unavailable', message: `its original ${name} cannot be used now`, until: later } as const;
  if (source.expected === undefined || fact.state === 'unavailable') {
    return { ...unusable, message: `its original ${name} could not be read`, until: laterMs(now, 1000) };
  }
  if (!source.expected.renewed) {
    const certificate = fact.state === 'present' ? fact.certificates[0] : undefined;
    const { settlesAt: until = later, byHand } = source.expected;
    const isUsable = certificate !== undefined && certificate.notBefore <= now && now < certificate.notAfter;
    if (!isUsable || source.expected.blocked === true || until !== later || isSame(at)) {
      return { ...unusable, until, ...(byHand === true && { byHand }) };
    }
  }
  const without = readers.find((row) => !knows(at, expected.get(row.name)));
  if (without === undefined) return undefined;
  const until = settlesAt(at, [name, without.name]) ?? later;
  return { reason: 'SignerMissingFromBundle', message: `${without.name} does not hold ${name} yet`, until };
}

/** Whether a bundle holds the signer that is promoted, or the one that has signed the leaf. */
function knows({ pair, source, expected }: Promotion, bundle: Expected | undefined): boolean {
  if (bundle === undefined || source.expected === undefined) return false;
  if (pair.kind === 'signer') return holds(bundle, source.name, source.expected);
  const { certificate, renewed } = source.expected;
  if (!renewed) return certificate?.signedBy.some((print) => bundle.trusted.has(print)) === true;
  const signer = expected.get(pair.issuer ?? '');
  return signer !== undefined && holds(bundle, pair.issuer ?? '', signer);
}

function promoted({ artefact, source, trust, expected, now }: Promotion, { reason, message }: Finding): Verdict {
  const { trusted = new Set<string>(), newFrom = new Set<string>(), certificate, newNotAfter } = source.expected ?? {};
  const before = [artefact.of, ...trust.all.map(({ name }) => name)];
  return renew({
    reason,
    message,
    now,
    after: before.filter((name) => expected.get(name)?.renewed === true),
    leaves: {
      trusted,
      newFrom,
      ...(certificate !== undefined && { certificate }),
      ...(newNotAfter !== undefined && { newNotAfter }),
    },
  });
}

/** What the copy holds cannot be used, and its original cannot either. */
function waitFor({ message }: Finding, { reason, message: why, until, byHand }: Unfitness): Verdict {
  return (byHand === true ? bring : blocked)(reason, `${message}; ${why}`, until);
}

function keepFor({ reason, message, keepUntil, isBlocked }: Finding, now: Date): Verdict {
  return (isBlocked === true ? blocked : keep)(reason, message, keepUntil ?? laterMs(now, lookAgainMs));
}

/** When what the copy holds can no longer be used. */
function endOf(at: Promotion): Date | undefined {
  const certificate = at.fact.state === 'present' ? at.fact.certificates[0] : undefined;
  return certificate === undefined ? undefined : expiryWithGrace({ ...at, artefact: at.pair }, certificate);
}

function healthy(at: Promotion): Verdict {
  const certificate = at.fact.state === 'present' ? at.fact.certificates[0] : undefined;
  const until = certificate === undefined ? '' : `valid until ${certificate.notAfter.toISOString()}`;
  return keep('Healthy', until, endOf(at) ?? laterMs(at.now, lookAgainMs));
}
