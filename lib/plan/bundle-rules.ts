// When a CA bundle, a composed bundle or a copy is written anew. Pure.
// Trust is never lost by accident: a bundle keeps the former certificates of its signers until they expire, and a
// composed bundle keeps its own while one of its inputs has been lost.
import type { CaBundle, ComposedBundle, Copy, Resolved } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import {
  blocked,
  type Case,
  damaged,
  type Difference,
  earliest,
  isSameAs,
  keep,
  laterMs,
  renew,
  settled,
  validNow,
  type Verdict,
} from './judgement.ts';

const lookAgainMs = 30_000;
const idleMs = 3_600_000;
/** So soon is looked again where only others can bring what is needed, */
const awaitedMs = 5000;
/** and so soon, for a minute, where they have just brought something: recoveries go in steps, and more may come, */
const restlessMs = 2000;
/** or where what they have brought, or had at our start, has ended: after a power-off they are at work on it now. */
const endedMs = 500;
const restlessForMs = 60_000;

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
  const renewal = ({ reason, message }: Difference): Verdict =>
    unread === undefined
      ? renew({ reason, message, now, after: renewedInputs, leaves })
      : cannotCompose(message, unread, now);

  const damage = damaged(at);
  if (damage !== undefined) {
    return leaves.trusted.size + leaves.newFrom.size === 0 ? noSigner(damage.message, now) : renewal(damage);
  }
  const short = inputs.filter(({ state }) => [...(state?.trusted ?? [])].some((print) => !present.has(print)));
  const open = inputs.find(({ state }) => state?.settlesAt !== undefined);
  if (open?.state?.settlesAt !== undefined && renewedInputs.length + short.length > 0) {
    return keep(
      'Settling',
      `${open.name} is looked at again first, so that this is written once`,
      open.state.settlesAt,
    );
  }
  if (renewedInputs.length > 0) {
    return renewal({ reason: 'InputsDiffer', message: `${renewedInputs.join(', ')} is written anew` });
  }
  if (short.length > 0) {
    const names = short.map(({ name }) => name);
    const message = `it lacks certificates of ${names.join(', ')}`;
    return settled(at, [artefact.name, ...names], { reason: 'InputsDiffer', message }, renewal);
  }
  return withoutExpired(at, renewal) ?? healthy(at, artefact.inputs);
}

/** Whether an input has nothing usable. One that others maintain may be absent. */
function isLost({ facts, resolved }: Case<ComposedBundle>, name: string): boolean {
  const state = facts.get(name)?.state;
  return state === 'absent' ? !isGiven(resolved, name) : state !== 'present';
}

const isGiven = ({ artefacts }: Resolved, name: string): boolean => {
  const row = artefacts.find((one) => one.name === name);
  return row !== undefined && originalOf(artefacts, row)?.kind === 'given';
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
    if (isGiven(at.resolved, artefact.of)) return withoutGiven(at, message);
    return blocked('Unavailable', message, laterMs(now, lookAgainMs));
  }
  const damage = damaged(at);
  if (damage !== undefined) return settled(at, [artefact.name], damage, renewal);
  const { kind = artefact.kind } = originalOf(at.resolved.artefacts, artefact) ?? {};
  if (isSameAs(fact, originalFact, kind)) return healthy(at, [artefact.of]);
  const difference: Difference = { reason: 'OriginalDiffers', message: `it differs from ${artefact.of}` };
  if (validNow(originalFact, now).size === 0 && validNow(fact, now).size > 0) {
    const message = `${difference.message}, which has no valid certificate; this copy still has one and stays`;
    return keep('OriginalDiffers', message, laterMs(now, lookAgainMs));
  }
  return settled(at, [artefact.name, artefact.of], difference, renewal);
}

/** Others maintain the original: until they bring it, what is here stays. */
function withoutGiven({ fact, now }: Case<Copy>, message: string): Verdict {
  if (validNow(fact, now).size > 0) return keep('Healthy', `${message}; what is here stays`, laterMs(now, lookAgainMs));
  const wanted = 'it is made by others and copied as soon as it is there';
  return blocked('Unavailable', `${message}; ${wanted}`, laterMs(now, awaitedMs));
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

/** `from`: what it is made of. What others maintain may be renewed by them at any moment. */
function healthy(at: Case<CaBundle | ComposedBundle | Copy>, from: readonly string[] = []): Verdict {
  const { fact, now } = at;
  const count = fact.state === 'present' ? fact.certificates.length : 0;
  const ends = fact.state === 'present' ? fact.certificates.map((c) => c.notAfter).filter((date) => date > now) : [];
  const recheckAt = earliest(laterMs(now, idleMs), ...ends, ...from.map((name) => othersMayWrite(at, name)));
  return keep('Healthy', `${count} certificate(s)`, recheckAt);
}

/** When to look again for what others may have made of an artefact of theirs; undefined: no sooner than usual. */
function othersMayWrite(
  { facts, resolved, now }: Case<CaBundle | ComposedBundle | Copy>,
  name: string,
): Date | undefined {
  const fact = facts.get(name);
  if (fact?.state !== 'present' || !isGiven(resolved, name)) return undefined;
  const hasEnded = fact.certificates.length > 0 && validNow(fact, now).size === 0;
  if (fact.since !== undefined && now < laterMs(fact.since, restlessForMs)) {
    return laterMs(now, hasEnded ? endedMs : restlessMs);
  }
  return hasEnded ? laterMs(now, awaitedMs) : undefined;
}

function cannotCompose(message: string, unread: string, now: Date): Verdict {
  return blocked('Unavailable', `${message}; ${unread} could not be read`, laterMs(now, 1000));
}

function noSigner(message: string, now: Date): Verdict {
  return blocked('SignerUnusable', `${message}; none of its certificates is at hand`, laterMs(now, lookAgainMs));
}
