// Files of a host that are renewed ahead of time because the administrator configured it (`--renew-before`): by
// remaining life alone, spread over the nodes, in a window of time. Expired files wait for none of this. Pure.
import { isFile } from '../inventory/places.ts';
import type { ResolvedArtefact } from '../inventory/model.ts';
import { caDueMs, jitterPart, lifeMsOf } from '../pki/ca-due.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { confirmAdvice, isConfirmed } from './clock-rules.ts';
import { earliest, type Faulty, idleMs, keep, laterMs, type PairCase, type RenewAhead } from './decision.ts';
import type { RenewalPolicy, Verdict } from './decision.ts';
import { certificateOf } from './facts.ts';
import { durationText } from '../duration.ts';
import { listed } from '../summary.ts';
import { nextWindow } from './window.ts';

/** Largest part of a leaf's life that may remain at renewal. */
const mostOfLeafLife = 1 / 3;
/** The last part of a window belongs to nodes that have begun before it. */
const beginningPart = 0.75;
/** Leaves due within this time are renewed along with those renewed now, so that components restart once. */
export const batchMs = 24 * 3_600_000;

interface Dated {
  readonly artefact: string;
  readonly at: Date;
}

/** Renewals in their order, with the names of those that are made together. Pure. */
export function inBatches(
  dated: readonly Dated[],
): readonly { readonly at: Date; readonly names: readonly string[] }[] {
  const batches: { at: Date; names: string[] }[] = [];
  for (const { artefact, at } of dated.toSorted((one, other) => one.at.getTime() - other.at.getTime())) {
    const last = batches.at(-1);
    if (last !== undefined && at.getTime() - last.at.getTime() < batchMs) last.names.push(artefact);
    else batches.push({ at, names: [artefact] });
  }
  return batches;
}
/** Least gain under a CA that expires soon: less is not worth a restart. */
const leastGainMs = 3_600_000;

type Ruled = Pick<PairCase, 'artefact' | 'policy'>;

/**
 * Returns the remaining life at which it is due on this node, in milliseconds; undefined where none is configured.
 * `own`: certificate of a CA that is renewed for its own life again, which may be shorter than the declared one.
 */
export function thresholdMs({ artefact, policy: { ahead } }: Ruled, own?: CertificateFacts): number | undefined {
  if (ahead === undefined || !isFile(artefact.location)) return undefined;
  const { refresh } = artefact;
  const validity =
    artefact.kind === 'signer' && own !== undefined ? Math.min(artefact.validity, lifeMsOf(own)) : artefact.validity;
  const declared = artefact.renewAhead === true ? validity - refresh : undefined;
  const plain =
    declared ??
    (artefact.kind === 'signer' ? caDueMs(validity, ahead.signerBeforeMs) : leafDueMs(validity, ahead.beforeMs));
  return plain === undefined ? undefined : plain * (1 + ahead.jitter * jitterPart);
}

/** Remaining milliseconds at which a leaf of this life is due. */
const leafDueMs = (lifeMs: number, beforeMs: number | undefined): number | undefined =>
  beforeMs === undefined ? undefined : Math.min(beforeMs, lifeMs * mostOfLeafLife);

/** A sentence where the configured threshold is longer than some leaves may have; undefined where all have it in full. */
export function cutText(artefacts: readonly ResolvedArtefact[], policy: RenewalPolicy): string | undefined {
  const { beforeMs } = policy.ahead ?? {};
  const leaves = artefacts.flatMap((one) => (one.kind === 'target' && isRenewedAhead(one, policy) ? [one] : []));
  const cut = leaves.filter(
    ({ validity, renewAhead }) => renewAhead !== true && beforeMs !== leafDueMs(validity, beforeMs),
  );
  const [first] = cut.toSorted((a, b) => a.validity - b.validity);
  if (first === undefined || beforeMs === undefined) return undefined;
  const names = listed(cut.map(({ name }) => name));
  const least = durationText(Math.round(first.validity * mostOfLeafLife));
  return `${durationText(beforeMs)} before expiry is more than a third of the life of ${names}: renewed ${least} before it`;
}

/** Whether a leaf of this host has a configured threshold for renewal ahead of time. */
export const isRenewedAhead = (artefact: ResolvedArtefact, policy: RenewalPolicy): boolean =>
  artefact.kind === 'target' && artefact.rotatedBy === undefined && thresholdMs({ artefact, policy }) !== undefined;

/** Time in which this node may renew ahead of time, in the window that is open or comes next. */
function timeOfNode({ window, jitter }: RenewAhead, now: Date): { readonly from: Date; readonly until: Date } {
  if (window === undefined) return { from: now, until: now };
  const { from, until } = nextWindow(window, now);
  const begins = laterMs(from, jitter * beginningPart * (until.getTime() - from.getTime()));
  return { from: begins > now ? begins : now, until };
}

/** Time of its renewal, if nothing happens before: due at `due`, at this node's time. */
export function renewalAt({ ahead }: RenewalPolicy, due: Date): Date | undefined {
  return ahead === undefined || ahead.warnOnly ? undefined : timeOfNode(ahead, due).from;
}

/**
 * Whether this is the last useful renewal under a CA that expires soon: it gains little, and is made once all the same
 * before the leaf expires. The new leaf expires with the CA, so the next renewal would gain nothing.
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
 * Why a due renewal does not happen now: reporting only, outside the window, an unconfirmed clock, or another node
 * renews. A certificate that expires before the next window closes cannot wait.
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
 * Share of the threshold that is left when a node waits no longer: its own expiry is worse than two restarts at the
 * same time, and than a renewal by a clock that may be wrong.
 */
const waitsUntil = 0.1;

function latestOf({ artefact, policy }: PairCase, certificate: CertificateFacts): Date {
  const threshold = thresholdMs({ artefact, policy }, certificate) ?? artefact.validity - artefact.refresh;
  return laterMs(certificate.notAfter, -waitsUntil * threshold);
}

/**
 * Why an unconfirmed clock delays the renewal of a valid certificate: by a clock that is weeks ahead every certificate
 * is due. Unlike an expired one it can wait until the clock is confirmed.
 */
function unconfirmed(at: Faulty<PairCase>, certificate: CertificateFacts): Verdict | undefined {
  const { clock, fault, now } = at;
  const latest = latestOf(at, certificate);
  if (now >= latest || isConfirmed(clock, now)) return undefined;
  const shown = `its clock is not confirmed: it shows ${now.toISOString()}, and nothing says that this is right`;
  const told = `${fault.message}; ${shown}; ${confirmAdvice}; renewed all the same from ${latest.toISOString()}`;
  return { ...keep('ClockUnconfirmed', told, earliest(latest, laterMs(now, idleMs))), renewsAt: latest };
}

/** Why it waits for the Lease: another node renews, or the Lease cannot be read. */
function waiting(at: Faulty<PairCase>, certificate: CertificateFacts): Verdict | undefined {
  const { policy, fault, now } = at;
  const why = policy.ahead?.waits;
  const latest = latestOf(at, certificate);
  if (why === undefined || now >= latest) return undefined;
  const told = `${fault.message}; ${why}; renewed without it from ${latest.toISOString()}`;
  return { ...keep('Postponed', told, earliest(latest, laterMs(now, idleMs))), renewsAt: latest };
}
