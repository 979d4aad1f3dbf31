// When a copy follows its original: immediately, or, where its content must be trusted before it is used
// (`promoteAfter`), at its promotion time while the copy's present content still works. Pure. The rule of promotion is
// taken from cluster-kube-controller-manager-operator (targetconfigcontroller.go, ManageCSRSigner), with two additions:
// nothing is promoted that cannot be used, or that readers do not know yet.
import { durationText } from '../duration.ts';
import type { Copy, DurationMs, IssuedPair, ResolvedArtefact } from '../inventory/model.ts';
import { bundlesFor, madeOf, originalOf } from '../inventory/order.ts';
import { isFile } from '../inventory/places.ts';
import { madeAt } from '../pki/certificate.ts';
import { awaitingExternal, followsAtOnce, healthy, isExternal } from './bundle-rules.ts';
import { certificateIs, expired, notYetValid, undated } from './certificate-rules.ts';
import { blocked, bring, type Case, decide, earliest, type Expected, type Fault, type Faulty } from './decision.ts';
import { type Finding, firstOf, isVerdict, keep, laterMs, lookAgainMs, nothing } from './decision.ts';
import { renew, renewedOf, validNow, type Verdict } from './decision.ts';
import { settled, settlesAt, stillUnusable } from './settling.ts';
import { type ArtefactFacts, certificateOf, isValid } from './facts.ts';
import { mayNewCaSign, type Permission } from './fleet-rules.ts';
import { expiryWithGrace, isOwner, latestRenewal } from './refresh-rules.ts';
import { holds, notTrusted } from './trust-rules.ts';
import { isOptionalInput } from './union-rules.ts';

/** Judges a copy that holds the same bytes as its original. */
export function judgeCopy(at: Case<Copy>): Verdict {
  const { artefact, expected } = at;
  if (artefact.promoteAfter !== undefined) return judgePromotion(at, artefact.promoteAfter);
  const { trusted, newFrom } = expected.get(artefact.of) ?? nothing;
  return decide(at, {
    checks: [originalRewritten, originalUnusable, stillUnusable, sameAsOriginal, originalExpired],
    otherwise: differs,
    renewal: (faulty) => renew(faulty, renewedOf([artefact.of], at), { trusted, newFrom }),
  });
}

function originalRewritten(at: Case<Copy>): Fault | undefined {
  const [renewed] = renewedOf([at.artefact.of], at);
  return renewed === undefined ? undefined : { reason: 'OriginalDiffers', message: `${renewed} is rewritten` };
}

/** Keeps the copy of an external original until its owner brings that. */
function originalUnusable({ artefact, fact, facts, resolved, now }: Case<Copy>): Verdict | undefined {
  const from = facts.get(artefact.of);
  if (from?.state === 'present' && from.emptied === undefined) return undefined;
  const message = `its original ${artefact.of} is not there or not usable`;
  const later = laterMs(now, lookAgainMs);
  const stays = `${message}; what is here stays`;
  // No date shows until when credentials can be used.
  if (artefact.location.kind === 'registryAuths') {
    const mayLack = fact.state === 'absent' && isOptionalInput(artefact.of, resolved.artefacts);
    const isTold = from?.state === 'broken' || (from?.state === 'absent' && !mayLack);
    return (isTold ? bring : keep)(isTold ? 'NotOurs' : 'Healthy', stays, later);
  }
  if (!isExternal(resolved, artefact.of)) return blocked('Unavailable', message, later);
  if (validNow(fact, now).size > 0) return keep('Healthy', stays, later);
  const wanted = 'it is made by others and copied as soon as it is there';
  return { ...blocked('Unavailable', `${message}; ${wanted}`, later), awaits: true };
}

const original = ({ artefact, facts }: Case<Copy>): ArtefactFacts | undefined => facts.get(artefact.of);

function sameAsOriginal(at: Case<Copy>): Verdict | undefined {
  const { artefact, fact, resolved } = at;
  const { kind = artefact.kind } = originalOf(resolved.artefacts, artefact) ?? {};
  return isSameAs(fact, original(at), kind) ? healthy(at, [artefact.of]) : undefined;
}

function originalExpired(at: Case<Copy>): Verdict | undefined {
  const { artefact, fact, now } = at;
  if (validNow(original(at), now).size > 0 || validNow(fact, now).size === 0) return undefined;
  const message = `it differs from ${artefact.of}, which has no valid certificate; this copy still has one and stays`;
  return awaitingExternal(at, [artefact.of], keep('OriginalDiffers', message, laterMs(now, lookAgainMs)));
}

function differs(at: Case<Copy>): Finding {
  const { artefact, now } = at;
  const fault = { reason: 'OriginalDiffers', message: `it differs from ${artefact.of}` } as const;
  const brought = validNow(original(at), now);
  if (brought.size > 0 && followsAtOnce(at, [artefact.of], brought)) return fault;
  return settled(at, [artefact.name, artefact.of], fault);
}

/** Whether a copy has the content of its original; only the signer's own certificate is copied from its file. */
function isSameAs(copy: ArtefactFacts, from: ArtefactFacts | undefined, kind: ResolvedArtefact['kind']): boolean {
  if (copy.state !== 'present' || from?.state !== 'present') return false;
  if (kind !== 'signer') return copy.digest === from.digest;
  const [first, ...others] = copy.certificates;
  return others.length === 0 && first !== undefined && first.fingerprint === from.certificates[0]?.fingerprint;
}

/** A copy, its source, and the bundles that must know the source first. */
interface Promotion extends Case<Copy> {
  readonly promoteAfter: DurationMs;
  /** The original at the root of the chain of copies, in the copy's place. */
  readonly pair: IssuedPair;
  /** New content of the copy. */
  readonly source: {
    readonly name: string;
    readonly fact: ArtefactFacts | undefined;
    readonly expected?: Expected | undefined;
  };
  /** The bundles that hold the original, or its signer. */
  readonly bundles: readonly ResolvedArtefact[];
  /** These bundles, with their compositions and copies. */
  readonly readers: readonly ResolvedArtefact[];
  /** Why the copy's present content cannot be used, or not for long; undefined: it can. */
  readonly held: Finding | undefined;
  /** Whether the source is used yet. */
  readonly permission: Permission;
}

/** Judges a copy that holds the same bytes as its original, once the original may be used. */
function judgePromotion(given: Case<Copy>, promoteAfter: DurationMs): Verdict {
  const { artefact, now, resolved } = given;
  const from = originalOf(resolved.artefacts, artefact);
  if (from?.kind !== 'signer' && from?.kind !== 'target') {
    return blocked('Unavailable', `its original ${artefact.of} is no signer and no target`, laterMs(now, lookAgainMs));
  }
  const bundles = bundlesFor(resolved.artefacts, from);
  const readers = [...bundles, ...madeOf(resolved.artefacts, bundles)];
  const pair = { ...from, location: artefact.location };
  const held = heldFinding(given, pair);
  const judged = { ...given, promoteAfter, pair, source: sourceOf(given), bundles, readers, held };
  const at: Promotion = { ...judged, permission: permissionOf(judged) };
  const checks = [heldUnusable, sameAsSource, notDueYet, unknownToReaders];
  return decide(at, { checks, otherwise: promotionDue, renewal: promoted });
}

/** The present content cannot be used any more: the original replaces it as soon as possible. */
function heldUnusable(at: Promotion): Finding | undefined {
  const { held, bundles } = at;
  if (held === undefined || isVerdict(held)) return undefined;
  const obstacle = obstacleOf(at, bundles);
  return obstacle === undefined ? held : { ...obstacle, message: `${held.message}; ${obstacle.message}` };
}

function sameAsSource(at: Promotion): Finding | undefined {
  if (!isSame(at)) return undefined;
  const certificate = certificateOf(at.fact);
  const message = certificate === undefined ? '' : `valid until ${certificate.notAfter.toISOString()}`;
  return at.held ?? keep('Healthy', message, endOf(at) ?? laterMs(at.now, lookAgainMs));
}

function notDueYet(at: Promotion): Verdict | undefined {
  const { wait } = at.permission;
  if (wait === undefined) return undefined;
  const { reason, message } = at.held ?? wait;
  return { ...wait, reason, message, recheckAt: whileHeld(at, wait.recheckAt) };
}

function permissionOf(at: Omit<Promotion, 'permission'>): Permission {
  const { now, source, pair, fact } = at;
  const due = dueAt(at);
  const wait = `${source.name} is used from ${due?.toISOString() ?? ''}, when all trust it; until then what is here stays`;
  const young = due !== undefined && now < due ? keep('NotPromotedYet', wait, due) : undefined;
  const present = certificateOf(fact);
  const latest = present === undefined ? now : latestRenewal(pair, present);
  return mayNewCaSign(at, { signer: pair.name, certificate: source.expected?.certificate, young, latest });
}

function unknownToReaders(at: Promotion): Verdict | undefined {
  const obstacle = obstacleOf(at, at.readers);
  if (obstacle === undefined) return undefined;
  return keep(
    'NotPromotedYet',
    `${obstacle.message}; until then what is here stays`,
    whileHeld(at, obstacle.recheckAt),
  );
}

function promotionDue(at: Promotion): Finding {
  const { artefact, source, promoteAfter, permission } = at;
  const told = `it differs from ${source.name}`;
  const finding = settled(at, [artefact.name, source.name], { reason: 'OriginalDiffers', message: told });
  if (isVerdict(finding)) return finding;
  return { ...finding, message: `${told}${permission.note || `, which is ${durationText(promoteAfter)} old`}` };
}

/** Rechecked then, or when the judgement of the copy's present content changes. */
const whileHeld = (at: Promotion, until: Date): Date =>
  earliest(until, at.held !== undefined && isVerdict(at.held) ? at.held.recheckAt : endOf(at));

/** Returns its original, or the new content of that original where it is a copy that is rewritten. */
function sourceOf({ artefact, facts, expected, resolved }: Case<Copy>): Promotion['source'] {
  for (let name = artefact.of; ;) {
    const from = resolved.artefacts.find((one) => one.name === name);
    const state = expected.get(name);
    if (from?.kind !== 'copy' || state?.renewed !== true) return { name, fact: facts.get(name), expected: state };
    name = from.of;
  }
}

function heldFinding(at: Case<Copy>, pair: IssuedPair): Finding | undefined {
  if (certificateOf(at.fact) === undefined) return stillUnusable(at);
  const trustGone: typeof notTrusted = (one, certificate) => {
    const finding = notTrusted(one, certificate);
    return finding === undefined || isVerdict(finding) ? finding : settled(at, [at.artefact.name], finding);
  };
  return firstOf({ ...at, artefact: pair }, certificateIs(notYetValid, expired, trustGone, undated));
}

const isSame = ({ fact, source, pair }: Promotion): boolean =>
  source.expected?.renewed !== true && isSameAs(fact, source.fact, pair.kind);

/**
 * Time of the promotion; undefined when no certificate shows its age. Without ownership it is left to the owner first,
 * like an expired certificate.
 */
function dueAt(at: Omit<Promotion, 'permission'>): Date | undefined {
  const { source, promoteAfter, pair, policy, now } = at;
  const isOurs = isOwner({ ...at, artefact: pair }) || isFile(pair.location);
  const wait = promoteAfter + (isOurs ? 0 : policy.graceMs + policy.settleMs);
  if (source.expected?.renewed === true) return laterMs(now, wait);
  const certificate = certificateOf(source.fact);
  return certificate === undefined ? undefined : laterMs(madeAt(certificate), wait);
}

/** Why the original cannot be promoted now: it cannot be used itself, or a reader does not know it. */
function obstacleOf(at: Promotion, readers: readonly ResolvedArtefact[]): Verdict | undefined {
  const { source, expected, now } = at;
  const { name, fact } = source;
  const later = laterMs(now, lookAgainMs);
  if (source.expected === undefined || fact?.state === 'unavailable') {
    return blocked('Unavailable', `its original ${name} could not be read`, laterMs(now, 1000));
  }
  if (!source.expected.renewed) {
    const { settlesAt: until = later, byHand } = source.expected;
    if (!isValid(certificateOf(fact), now) || source.expected.blocked === true || until !== later || isSame(at)) {
      return (byHand === true ? bring : blocked)('Unavailable', `its original ${name} cannot be used now`, until);
    }
  }
  const without = readers.find((reader) => !knows(at, expected.get(reader.name)));
  if (without === undefined) return undefined;
  const until = settlesAt(at, [name, without.name]) ?? later;
  return blocked('SignerMissingFromBundle', `${without.name} does not hold ${name} yet`, until);
}

/** Whether a bundle holds the promoted signer, or the signer of the promoted leaf. */
function knows({ pair, source, expected }: Promotion, bundle: Expected | undefined): boolean {
  if (bundle === undefined || source.expected === undefined) return false;
  if (pair.kind === 'signer') return holds(bundle, source.name, source.expected);
  const { certificate, renewed } = source.expected;
  if (!renewed) return certificate?.signedBy.some((print) => bundle.trusted.has(print)) === true;
  const signer = expected.get(pair.issuer ?? '');
  return signer !== undefined && holds(bundle, pair.issuer ?? '', signer);
}

function promoted(at: Faulty<Promotion>): Verdict {
  const { artefact, source, readers } = at;
  const { trusted, newFrom, certificate, newNotAfter } = source.expected ?? nothing;
  const after = renewedOf([artefact.of, ...readers.map(({ name }) => name)], at);
  return renew(at, after, { trusted, newFrom, certificate, newNotAfter });
}

/** Time from which the copy's present content cannot be used any more. */
function endOf(at: Promotion): Date | undefined {
  const certificate = certificateOf(at.fact);
  return certificate === undefined ? undefined : expiryWithGrace({ ...at, artefact: at.pair }, certificate);
}
