// When a CA bundle, a composed bundle or a copy is written anew. Pure.
// Trust is never lost by accident: a bundle keeps the former certificates of its signers until they expire, and a
// composed bundle keeps its own while one of its inputs has been lost.
import type { CaBundle, ComposedBundle, Copy, Resolved } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import type { CertificateFacts } from './facts.ts';
import {
  awaiting,
  blocked,
  type Case,
  damaged,
  type Difference,
  earliest,
  isSameAs,
  keep,
  laterMs,
  refusedByNewer,
  renew,
  settled,
  settlesAt,
  validNow,
  type Verdict,
} from './judgement.ts';

const lookAgainMs = 30_000;
const idleMs = 3_600_000;

type BundleCase = Case<CaBundle> | Case<ComposedBundle>;
/** Holds the live certificate of each of its signers, and the former ones until they expire. */
export function judgeBundle(at: Case<CaBundle>): Verdict {
  const { artefact, fact, expected, facts, now } = at;
  const present = validNow(fact, now);
  const signers = artefact.signers.map((name) => ({ name, state: expected.get(name) }));
  const unread = artefact.signers.find((name) => facts.get(name)?.state === 'unavailable');
  const renewedSigners = signers.filter(({ state }) => state?.renewed === true).map(({ name }) => name);
  const live = signers.flatMap(({ state }) =>
    state?.renewed === false && state.certificate !== undefined && state.trusted.has(state.certificate.fingerprint)
      ? [state.certificate.fingerprint]
      : [],
  );
  const leaves = { trusted: new Set([...present, ...live]), newFrom: new Set(renewedSigners) };
  const renewal = ({ reason, message }: Difference): Verdict =>
    renew({ reason, message, now, after: renewedSigners, leaves });

  const damage = damaged(at);
  if (damage !== undefined) {
    if (unread !== undefined) return cannotCompose(damage.message, unread, now);
    if (live.length + renewedSigners.length === 0) return noSigner(damage.message, now);
    return renewal(damage);
  }
  if (renewedSigners.length > 0) {
    return renewal({ reason: 'SignerMissingFromBundle', message: `${renewedSigners.join(', ')} is made anew` });
  }
  const missing = signers.filter(({ state }) => {
    const print = state?.certificate?.fingerprint;
    return print !== undefined && live.includes(print) && !present.has(print);
  });
  if (missing.length > 0) {
    const names = missing.map(({ name }) => name);
    const message = `it does not hold the certificate of ${names.join(', ')}`;
    return settled(at, [artefact.name, ...names], { reason: 'SignerMissingFromBundle', message }, renewal);
  }
  return withoutExpired(at, renewal) ?? healthy(at);
}

/** Holds every valid certificate of its inputs. */
export function judgeComposedBundle(at: Case<ComposedBundle>): Verdict {
  const { artefact, fact, expected, facts, now } = at;
  const present = validNow(fact, now);
  const inputs = artefact.inputs.map((name) => ({ name, state: expected.get(name) }));
  const unread = artefact.inputs.find((name) => facts.get(name)?.state === 'unavailable');
  const renewedInputs = inputs.filter(({ state }) => state?.renewed === true).map(({ name }) => name);
  // An input that was lost held former certificates which may be here alone now: then they stay.
  const isShort = artefact.inputs.some((name) => isLost(at, name));
  const leaves = {
    trusted: new Set([...(isShort ? present : []), ...inputs.flatMap(({ state }) => [...(state?.trusted ?? [])])]),
    newFrom: new Set(inputs.flatMap(({ state }) => [...(state?.newFrom ?? [])])),
  };
  // Whether an input is about to be written anew only its signers tell.
  const unsure = artefact.inputs.flatMap((name) => unreadSigners(at, name));
  const renewal = ({ reason, message }: Difference): Verdict => {
    if (unread !== undefined) return cannotCompose(message, unread, now);
    const until = settlesAt(at, unsure);
    if (until === undefined) return renew({ reason, message, now, after: renewedInputs, leaves });
    return keep('Settling', `${message}; ${unsure[0]} is read again first, so that this is written once`, until);
  };

  const damage = damaged(at);
  if (damage !== undefined) {
    if (leaves.trusted.size + leaves.newFrom.size > 0) return renewal(damage);
    return awaitingExternal(at, artefact.inputs, noSigner(damage.message, now));
  }
  const short = inputs.filter(({ state }) => [...(state?.trusted ?? [])].some((print) => !present.has(print)));
  const cleared = withoutExpired(at, renewal);
  const open = inputs.find(({ state }) => state?.settlesAt !== undefined);
  // What is only cleared of expired certificates, or put in order, brings nothing new to where they are not.
  const brings = leaves.newFrom.size + short.length > 0;
  const isDue = brings || cleared !== undefined;
  if (open?.state?.settlesAt !== undefined && isDue) {
    return keep(
      'Settling',
      `${open.name} is looked at again first, so that this is written once`,
      open.state.settlesAt,
    );
  }
  if (brings && renewedInputs.length > 0) {
    return renewal({ reason: 'InputsDiffer', message: `${renewedInputs.join(', ')} is written anew` });
  }
  if (short.length > 0) {
    const names = short.map(({ name }) => name);
    const difference: Difference = { reason: 'InputsDiffer', message: `it lacks certificates of ${names.join(', ')}` };
    return followsAtOnce(at, names, leaves.trusted)
      ? renewal(difference)
      : settled(at, [artefact.name, ...names], difference, renewal);
  }
  return cleared ?? healthy(at, artefact.inputs);
}

function unreadSigners({ facts, resolved: { artefacts } }: Case<ComposedBundle>, name: string): readonly string[] {
  const row = artefacts.find((one) => one.name === name);
  const original = row && originalOf(artefacts, row);
  const signers = original?.kind === 'caBundle' ? original.signers : [];
  return signers.filter((signer) => facts.get(signer)?.state === 'unavailable');
}

/** Whether an input has nothing usable. One that others maintain may be absent. */
function isLost({ facts, resolved }: Case<ComposedBundle>, name: string): boolean {
  const state = facts.get(name)?.state;
  return state === 'absent' ? !isExternal(resolved, name) : state !== 'present';
}

const isExternal = ({ artefacts }: Resolved, name: string): boolean => {
  const row = artefacts.find((one) => one.name === name);
  return row !== undefined && originalOf(artefacts, row)?.kind === 'external';
};

/** Holds the same bytes as its original. */
export function judgeCopy(at: Case<Copy>): Verdict {
  const { artefact, fact, facts, expected, now } = at;
  const original = expected.get(artefact.of);
  const originalFact = facts.get(artefact.of);
  const leaves = { trusted: original?.trusted ?? new Set<string>(), newFrom: original?.newFrom ?? new Set<string>() };
  const renewal = ({ reason, message }: Difference): Verdict =>
    renew({ reason, message, now, after: original?.renewed === true ? [artefact.of] : [], leaves });
  if (original?.renewed === true) {
    return renewal({ reason: 'OriginalDiffers', message: `${artefact.of} is written anew` });
  }
  if (originalFact?.state !== 'present') {
    const message = `its original ${artefact.of} is not there or not usable`;
    if (isExternal(at.resolved, artefact.of)) return withoutExternal(at, message);
    return blocked('Unavailable', message, laterMs(now, lookAgainMs));
  }
  const damage = damaged(at);
  if (damage !== undefined) return settled(at, [artefact.name], damage, renewal);
  const { kind = artefact.kind } = originalOf(at.resolved.artefacts, artefact) ?? {};
  if (isSameAs(fact, originalFact, kind)) return healthy(at, [artefact.of]);
  const difference: Difference = { reason: 'OriginalDiffers', message: `it differs from ${artefact.of}` };
  if (validNow(originalFact, now).size === 0 && validNow(fact, now).size > 0) {
    const message = `${difference.message}, which has no valid certificate; this copy still has one and stays`;
    return awaitingExternal(at, [artefact.of], keep('OriginalDiffers', message, laterMs(now, lookAgainMs)));
  }
  const brought = validNow(originalFact, now);
  if (brought.size > 0 && followsAtOnce(at, [artefact.of], brought)) return renewal(difference);
  return settled(at, [artefact.name, artefact.of], difference, renewal);
}

/**
 * Whether nobody else is at work who would take over what is given: he would not have left what has ended, here or
 * beside it, for longer than his grace. Nothing valid is taken away so: what holds more than its parts may be the work of
 * another one of us, who has read them later.
 */
function followsAtOnce(
  at: Case<ComposedBundle> | Case<Copy>,
  from: readonly string[],
  brought: ReadonlySet<string>,
): boolean {
  const { fact, resolved, policy, now, unattended = false } = at;
  if (!from.every((name) => isExternal(resolved, name))) return false;
  if ([...validNow(fact, now)].some((print) => !brought.has(print))) return false;
  const certificates = fact.state === 'present' ? fact.certificates : [];
  const isOver = ({ notAfter }: CertificateFacts): boolean => now >= laterMs(notAfter, policy.graceMs);
  return unattended || (certificates.length > 0 && certificates.every(isOver));
}

/** What is made of these is looked for sooner where one of them is given: others may bring it at any moment. */
function awaitingExternal(
  { resolved }: Pick<BundleCase, 'resolved'>,
  from: readonly string[],
  verdict: Verdict,
): Verdict {
  return from.some((name) => isExternal(resolved, name)) ? awaiting(verdict) : verdict;
}

/** Others maintain the original: until they bring it, what is here stays. */
function withoutExternal({ fact, now }: Case<Copy>, message: string): Verdict {
  if (validNow(fact, now).size > 0) return keep('Healthy', `${message}; what is here stays`, laterMs(now, lookAgainMs));
  const wanted = 'it is made by others and copied as soon as it is there';
  return awaiting(blocked('Unavailable', `${message}; ${wanted}`, laterMs(now, lookAgainMs)));
}

/** The owner also clears expired certificates away; otherwise they are harmless and stay. */
function withoutExpired(at: BundleCase, renewal: (difference: Difference) => Verdict): Verdict | undefined {
  const { fact, policy, now } = at;
  if (policy.kind !== 'BeforeExpiry' || fact.state !== 'present') return undefined;
  const old = fact.certificates.filter(({ notAfter }) => notAfter <= now).length;
  const kept = fact.certificates.length - old;
  return old > 0 && kept > 0
    ? renewal({ reason: 'ExpiredInBundle', message: `it holds ${old} expired certificate(s)` })
    : undefined;
}

/** `from`: what it is made of. */
function healthy(at: Case<CaBundle | ComposedBundle | Copy>, from: readonly string[] = []): Verdict {
  const { fact, facts, now } = at;
  const count = fact.state === 'present' ? fact.certificates.length : 0;
  const ends = fact.state === 'present' ? fact.certificates.map((c) => c.notAfter).filter((date) => date > now) : [];
  const refused = refusedByNewer(fact.state === 'present' ? fact.certificates : []);
  const verdict = keep('Healthy', `${count} certificate(s)${refused}`, earliest(laterMs(now, idleMs), ...ends));
  const hasNothing = (name: string): boolean => {
    const given = facts.get(name);
    return given?.state === 'present' && given.certificates.length > 0 && validNow(given, now).size === 0;
  };
  return awaitingExternal(at, from.filter(hasNothing), verdict);
}

function cannotCompose(message: string, unread: string, now: Date): Verdict {
  return blocked('Unavailable', `${message}; ${unread} could not be read`, laterMs(now, 1000));
}

function noSigner(message: string, now: Date): Verdict {
  return blocked('SignerUnusable', `${message}; none of its certificates is at hand`, laterMs(now, lookAgainMs));
}
