// Files of a host that are renewed ahead of time because the administrator asked for it (`--renew-before`): by remaining
// life alone, spread over the nodes, in a window of time. What has expired waits for nothing of this. Pure.
import { isFile } from '../inventory/places.ts';
import type { ResolvedArtefact } from '../inventory/model.ts';
import { jitterPart, lifeMsOf, mostOfLife } from '../pki/ca-due.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { confirmAdvice, isConfirmed } from './clock-rules.ts';
import { earliest, type Faulty, idleMs, keep, laterMs, type PairCase, type RenewAhead } from './decision.ts';
import type { RenewalPolicy, Verdict } from './decision.ts';
import { certificateOf } from './facts.ts';
import { nextWindow } from './window.ts';

/** The last part of a window belongs to nodes that have begun before it. */
const beginningPart = 0.75;
/** What is due within this time goes along with what is renewed now, so that components restart once. */
export const batchMs = 24 * 3_600_000;
/** Under a CA that ends soon: less is not worth a restart. */
const leastGainMs = 3_600_000;

type Ruled = Pick<PairCase, 'artefact' | 'policy'>;

/**
 * How much remaining life makes it due on this node, in milliseconds; undefined where nobody asked for that. `own`: of a CA
 * that is renewed for its own life again, which may be shorter than the declared one.
 */
export function thresholdMs({ artefact, policy: { ahead } }: Ruled, own?: CertificateFacts): number | undefined {
  if (ahead === undefined || !isFile(artefact.location)) return undefined;
  const { refresh } = artefact;
  const validity =
    artefact.kind === 'signer' && own !== undefined ? Math.min(artefact.validity, lifeMsOf(own)) : artefact.validity;
  const asked = artefact.kind === 'signer' ? ahead.signerBeforeMs : ahead.beforeMs;
  const declared = artefact.renewAhead === true ? validity - refresh : undefined;
  const plain = declared ?? (asked === undefined ? undefined : Math.min(asked, validity * mostOfLife));
  return plain === undefined ? undefined : plain * (1 + ahead.jitter * jitterPart);
}

/** Leaves of this host that are renewed ahead of time by somebody who asked for it. */
export const isRenewedAhead = (artefact: ResolvedArtefact, policy: RenewalPolicy): boolean =>
  artefact.kind === 'target' && artefact.rotatedBy === undefined && thresholdMs({ artefact, policy }) !== undefined;

/** When this node may renew ahead of time: from when on in the window that is open or comes next, and until when. */
function timeOfNode({ window, jitter }: RenewAhead, now: Date): { readonly from: Date; readonly until: Date } {
  if (window === undefined) return { from: now, until: now };
  const { from, until } = nextWindow(window, now);
  const begins = laterMs(from, jitter * beginningPart * (until.getTime() - from.getTime()));
  return { from: begins > now ? begins : now, until };
}

/** When it will be renewed, if nothing happens before: due at `due`, at this node's time. */
export function renewalAt({ ahead }: RenewalPolicy, due: Date): Date | undefined {
  return ahead === undefined || ahead.warnOnly ? undefined : timeOfNode(ahead, due).from;
}

/**
 * Under a CA that ends soon a renewal gains little, and is made once all the same before the leaf ends: what it makes
 * ends with the CA, so the next one would gain nothing.
 */
export function isLastCall(
  { policy: { ahead }, now }: PairCase,
  { notAfter }: CertificateFacts,
  gainMs: number,
): boolean {
  if (ahead === undefined || gainMs < leastGainMs) return false;
  return now >= laterMs(notAfter, -batchMs) || (ahead.window !== undefined && notAfter <= timeOfNode(ahead, now).until);
}

/**
 * Due, and not now: only reported, outside the window, by a clock that nothing confirms, or while another node renews. What
 * would end before the next window does cannot wait.
 */
export function postponed(at: Faulty<PairCase>): Verdict | undefined {
  const { artefact, fact, policy, fault, now } = at;
  const { ahead } = policy;
  const certificate = certificateOf(fact);
  if (fault.reason !== 'RefreshDue' || !isFile(artefact.location) || certificate === undefined) return undefined;
  if (ahead === undefined) return unconfirmed(at, certificate);
  const { notAfter } = certificate;
  if (ahead.warnOnly) {
    const told = `${fault.message}; only reported (warnOnly), so it is renewed when it has expired: renew it before`;
    return keep('WarnOnly', told, earliest(notAfter, laterMs(now, idleMs)));
  }
  const { from, until } = timeOfNode(ahead, now);
  if (from <= now || notAfter <= until) return unconfirmed(at, certificate) ?? waiting(at, certificate);
  const verdict = keep(
    'Postponed',
    `${fault.message}; renewed in the window, on this node at ${from.toISOString()}`,
    from,
  );
  return { ...verdict, renewsAt: from };
}

/**
 * The share of the threshold that is left when a node waits no longer: its own end is worse than two restarts at once, and
 * than a renewal by a clock that may be wrong.
 */
const waitsUntil = 0.1;

function latestOf({ artefact, policy }: PairCase, certificate: CertificateFacts): Date {
  const threshold = thresholdMs({ artefact, policy }, certificate) ?? artefact.validity - artefact.refresh;
  return laterMs(certificate.notAfter, -waitsUntil * threshold);
}

/**
 * What is still valid may not be due at all: by a clock that is weeks ahead everything is. Unlike what has expired it can
 * wait until somebody says that the clock is right.
 */
function unconfirmed(at: Faulty<PairCase>, certificate: CertificateFacts): Verdict | undefined {
  const { clock, fault, now } = at;
  const latest = latestOf(at, certificate);
  if (now >= latest || isConfirmed(clock, now)) return undefined;
  const shown = `its clock is not confirmed: it shows ${now.toISOString()}, and nothing says that this is right`;
  const told = `${fault.message}; ${shown}; ${confirmAdvice}; renewed all the same from ${latest.toISOString()}`;
  return { ...keep('ClockUnconfirmed', told, earliest(latest, laterMs(now, idleMs))), renewsAt: latest };
}

/** Another node renews, or nobody can say that none does. */
function waiting(at: Faulty<PairCase>, certificate: CertificateFacts): Verdict | undefined {
  const { policy, fault, now } = at;
  const why = policy.ahead?.waits;
  const latest = latestOf(at, certificate);
  if (why === undefined || now >= latest) return undefined;
  const told = `${fault.message}; ${why}; renewed without it from ${latest.toISOString()}`;
  return { ...keep('Postponed', told, earliest(latest, laterMs(now, idleMs))), renewsAt: latest };
}
