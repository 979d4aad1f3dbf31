// When a CA bundle or a composed bundle is rewritten. Pure. Trust is never lost by accident: a bundle keeps the former
// certificates of its signers until they expire, and a composed bundle keeps its own while any of its inputs has been
// lost.
import type { CaBundle, ComposedBundle, Copy, Resolved } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import { blocked, bring, type Case, decide, earliest, type Expected, type Fault, type Faulty } from './decision.ts';
import { type Finding, idleMs, keep, laterMs, lookAgainMs, nothing, refusedByNewer } from './decision.ts';
import { renew, renewedOf, unusable, validNow, type Verdict, writtenOf } from './decision.ts';
import { afterPart, partSettles, settled, settlesAt } from './settling.ts';
import { type CertificateFacts, clockSkewMs, hasEnded } from '../pki/certificate.ts';
import { usableCertificates } from './facts.ts';

/** A bundle with the future content of its signers. */
interface BundleCase extends Case<CaBundle> {
  readonly present: ReadonlySet<string>;
  /** Signers that are regenerated. */
  readonly renewed: readonly string[];
  /** The certificates of all other signers, where these are valid. */
  readonly live: readonly { readonly name: string; readonly print: string }[];
}

/** Judges a bundle: it holds the live certificate of each of its signers, and the former ones until they expire. */
export function judgeBundle(given: Case<CaBundle>): Verdict {
  const { artefact, fact, expected, now } = given;
  const present = validNow(fact, now);
  const renewed = renewedOf(artefact.signers, given);
  const live = artefact.signers.flatMap((name) => {
    const state = expected.get(name);
    const print = state?.renewed === false ? state.certificate?.fingerprint : undefined;
    return print !== undefined && state?.trusted.has(print) === true ? [{ name, print }] : [];
  });
  const at: BundleCase = { ...given, present, renewed, live };
  // Certificates signed by the old certificate of a signer renewed with its own key verify under the new one.
  const former = renewed.flatMap((name) => [...(expected.get(name)?.trusted ?? [])]);
  const leaves = {
    trusted: new Set([...present, ...live.map(({ print }) => print), ...former]),
    newFrom: new Set(renewed),
  };
  return decide(at, {
    checks: [signerUnread, noSignerAtHand, unusable, signerRegenerated, signerMissing, holdsExpired],
    otherwise: healthy,
    renewal: (faulty) => renew(faulty, writtenOf(artefact.signers, given), leaves),
  });
}

function signerUnread(at: BundleCase): Verdict | undefined {
  const fault = unusable(at);
  const unread = at.artefact.signers.find((name) => at.facts.get(name)?.state === 'unavailable');
  return fault && unread !== undefined ? cannotCompose(fault, unread, at.now) : undefined;
}

function noSignerAtHand(at: BundleCase): Verdict | undefined {
  const fault = unusable(at);
  return fault && at.live.length + at.renewed.length === 0 ? nothingToHold(at, at.artefact.signers, fault) : undefined;
}

function signerRegenerated({ renewed }: BundleCase): Fault | undefined {
  if (renewed.length === 0) return undefined;
  return { reason: 'SignerMissingFromBundle', message: `${renewed.join(', ')} is regenerated` };
}

function signerMissing(at: BundleCase): Finding | undefined {
  const names = at.live.flatMap(({ name, print }) => (at.present.has(print) ? [] : [name]));
  if (names.length === 0) return undefined;
  const message = `it does not hold the certificate of ${names.join(', ')}`;
  return settled(at, [at.artefact.name, ...names], { reason: 'SignerMissingFromBundle', message });
}

/**
 * Finds expired certificates, which only the owner removes once they have expired by the clock of every machine;
 * otherwise they are harmless and stay.
 */
function holdsExpired({ fact, policy, now }: Case): Fault | undefined {
  const all = policy.kind === 'BeforeExpiry' ? usableCertificates(fact) : [];
  const old = all.filter((one) => hasEnded(one, now)).length;
  if (old === 0 || old === all.length) return undefined;
  return { reason: 'ExpiredInBundle', message: `it holds ${old} expired certificate(s)` };
}

/** `from`: its inputs. */
export function healthy(at: Case<CaBundle | ComposedBundle | Copy>, from: readonly string[] = []): Verdict {
  const { fact, facts, now } = at;
  const certificates = usableCertificates(fact);
  const dates = certificates.map(({ notAfter }) => notAfter);
  const ends = [...dates, ...dates.map((end) => laterMs(end, clockSkewMs))].filter((date) => date > now);
  const message =
    dates.length > 0 ? `${dates.length} certificate(s)${refusedByNewer(certificates)}` : 'as its original';
  const verdict = keep('Healthy', message, earliest(laterMs(now, idleMs), ...ends));
  const hasNothing = (name: string): boolean =>
    usableCertificates(facts.get(name)).length > 0 && validNow(facts.get(name), now).size === 0;
  return awaitingExternal(at, from.filter(hasNothing), verdict);
}

function cannotCompose({ message }: Fault, unread: string, now: Date): Verdict {
  return blocked('Unavailable', `${message}; ${unread} could not be read`, laterMs(now, 1000));
}

function nothingToHold({ expected, now }: Case, parts: readonly string[], { message }: Fault): Verdict {
  const isByHand = parts.some((name) => expected.get(name)?.byHand === true);
  const told = `${message}; none of its certificates is at hand`;
  return (isByHand ? bring : blocked)('SignerUnusable', told, laterMs(now, lookAgainMs));
}

/** A composed bundle with the future content of its inputs. */
interface ComposedCase extends Case<ComposedBundle> {
  readonly renewed: readonly string[];
  /** Inputs of which it lacks certificates. */
  readonly lacking: readonly string[];
  readonly leaves: Pick<Expected, 'trusted' | 'newFrom'>;
}

/** Judges a composed bundle: it holds every valid certificate of its inputs. */
export function judgeComposedBundle(given: Case<ComposedBundle>): Verdict {
  const { artefact, fact, expected, now } = given;
  const present = validNow(fact, now);
  const { inputs } = artefact;
  const states = inputs.map((name) => expected.get(name) ?? nothing);
  // A lost input held former certificates which may be here alone now: then they stay.
  const kept = inputs.some((name) => isLost(given, name)) ? present : [];
  const leaves = {
    trusted: new Set([...kept, ...states.flatMap(({ trusted }) => [...trusted])]),
    newFrom: new Set(states.flatMap(({ newFrom }) => [...newFrom])),
  };
  const lacking = inputs.filter((_, at) => [...(states[at]?.trusted ?? [])].some((print) => !present.has(print)));
  const at: ComposedCase = { ...given, renewed: renewedOf(inputs, given), lacking, leaves };
  return decide(at, {
    checks: [nothingFromInputs, unusable, inputSettles, inputRewritten, inputMissing, holdsExpired],
    otherwise: () => healthy(at, inputs),
    obstacles: [inputUnread, signerOfInputUnread],
    renewal: (faulty) => renew(faulty, at.renewed, leaves),
  });
}

function nothingFromInputs(at: ComposedCase): Verdict | undefined {
  const fault = unusable(at);
  if (fault === undefined || at.leaves.trusted.size + at.leaves.newFrom.size > 0) return undefined;
  return awaitingExternal(at, at.artefact.inputs, nothingToHold(at, at.artefact.inputs, fault));
}

/** Whether a rewrite adds certificates; removing expired certificates, or sorting, does not count. */
const brings = ({ leaves, lacking }: ComposedCase): boolean => leaves.newFrom.size + lacking.length > 0;

function inputSettles(at: ComposedCase): Verdict | undefined {
  return brings(at) || holdsExpired(at) !== undefined ? partSettles(at, at.artefact.inputs) : undefined;
}

function inputRewritten(at: ComposedCase): Fault | undefined {
  if (!brings(at) || at.renewed.length === 0) return undefined;
  return { reason: 'InputsDiffer', message: `${at.renewed.join(', ')} is rewritten` };
}

function inputMissing(at: ComposedCase): Finding | undefined {
  const { artefact, lacking, leaves } = at;
  if (lacking.length === 0) return undefined;
  const fault = { reason: 'InputsDiffer', message: `it lacks certificates of ${lacking.join(', ')}` } as const;
  return followsAtOnce(at, lacking, leaves.trusted) ? fault : settled(at, [artefact.name, ...lacking], fault);
}

function inputUnread({ artefact, facts, now, fault }: Faulty<ComposedCase>): Verdict | undefined {
  const unread = artefact.inputs.find((name) => facts.get(name)?.state === 'unavailable');
  return unread === undefined ? undefined : cannotCompose(fault, unread, now);
}

/** Only its signers show whether an input is about to be rewritten. */
function signerOfInputUnread(at: Faulty<ComposedCase>): Verdict | undefined {
  const { artefact, facts, resolved, fault } = at;
  const unsure = artefact.inputs.flatMap((name) => {
    const input = resolved.artefacts.find((one) => one.name === name);
    const original = input && originalOf(resolved.artefacts, input);
    const signers = original?.kind === 'caBundle' ? original.signers : [];
    return signers.filter((signer) => facts.get(signer)?.state === 'unavailable');
  });
  const until = settlesAt(at, unsure);
  return until && afterPart(unsure[0] ?? '', until, fault);
}

/** Whether an input has nothing usable. An external one may be absent. */
function isLost({ facts, resolved }: Case<ComposedBundle>, name: string): boolean {
  const fact = facts.get(name);
  return fact?.state === 'absent' ? !isExternal(resolved, name) : usableCertificates(fact).length === 0;
}

export const isExternal = ({ artefacts }: Resolved, name: string): boolean => {
  const artefact = artefacts.find((one) => one.name === name);
  return artefact !== undefined && originalOf(artefacts, artefact)?.kind === 'external';
};

/** Marks for a shorter recheck where an input is external: its owner may bring something valid at any moment. */
export function awaitingExternal({ resolved }: Case, from: readonly string[], verdict: Verdict): Verdict {
  return from.some((name) => isExternal(resolved, name)) ? { ...verdict, awaits: true } : verdict;
}

/**
 * Whether no other controller seems to manage external inputs: it would not have left expired certificates, in this
 * artefact or its neighbours, for longer than its grace. Nothing valid is removed this way: content beyond its parts
 * may be written by another instance of this program, which has read them later.
 */
export function followsAtOnce(at: Case, from: readonly string[], brought: ReadonlySet<string>): boolean {
  const { fact, resolved, policy, now, unattended = false } = at;
  if (!from.every((name) => isExternal(resolved, name))) return false;
  if ([...validNow(fact, now)].some((print) => !brought.has(print))) return false;
  const certificates = usableCertificates(fact);
  const isOver = ({ notAfter }: CertificateFacts): boolean => now >= laterMs(notAfter, policy.graceMs);
  return unattended || (certificates.length > 0 && certificates.every(isOver));
}
