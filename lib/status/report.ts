// Report of `status` as plain data: one row for each artefact, and one word for the cluster's health. Pure: facts and
// decisions are the plan's, another time gives the report of another time.
import { isFile, isOnlyRead } from '../inventory/places.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { originalOf } from '../inventory/order.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { type ArtefactFacts, type Facts, usableCertificates } from '../plan/facts.ts';
import type { Decision } from '../plan/decision.ts';
import type { Plan, Replan } from '../plan/plan.ts';
import { endingReasons, type Reason } from '../plan/reasons.ts';
import { locationText } from '../store/store.ts';
import type { WebhookFinding } from '../webhooks/intercepting.ts';
import { announcedPart, defaultRecoveryServerName } from '../well-known.ts';
import { type Outlook, type Renewal, renewalOf } from './outlook.ts';

export type RowState = 'OK' | 'EXPIRING' | 'EXPIRED' | 'NOT YET VALID' | 'MISSING' | 'BROKEN' | 'UNKNOWN';

/** Files that readers use, compared with the object: same content, other content, or absent. */
export type OnDisk = 'same' | 'different' | 'missing';

/** Result of lib/proof. */
export interface Use {
  readonly state: 'proven' | 'unproven' | 'notApplicable';
  readonly message: string;
}

export interface StatusRow {
  readonly artefact: string;
  readonly kind: ResolvedArtefact['kind'];
  readonly location: string;
  readonly state: RowState;
  /** Dates of a pair's own certificate; for a bundle, of the certificate that expires last. */
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  /** Milliseconds; negative after the expiry. */
  readonly residualMs?: number;
  /** Signer in the inventory, if any. */
  readonly issuer?: string | undefined;
  /** Whether this program never makes it; on a kubeadm machine: whether its CA's key is elsewhere. */
  readonly isForeign: boolean;
  readonly action: Decision['action'];
  readonly reason: Reason;
  readonly message: string;
  readonly recheckAt: Date;
  /** Time of its renewal ahead of time, where configured. */
  readonly renewsAt?: Date | undefined;
  readonly onDisk?: OnDisk | undefined;
  readonly inUse?: Use | undefined;
  /** Kubeconfigs only: whether the embedded CA is the CA in the issuer's file. The plan decides the consequence. */
  readonly authority?: 'same' | 'different' | undefined;
  /** It has expired or is broken, and nothing here can make a new one. */
  readonly byHand?: boolean;
  /** Its first file, and the flags that name any of its files, where the components of its machine are known. */
  readonly readBy?: { readonly file: string; readonly flags: readonly string[] } | undefined;
  /** How the plan would renew it. */
  readonly renewal?: Renewal;
  /** It is healthy: renewed ahead of time, or to follow such a renewal. */
  readonly isAhead?: boolean;
  /** Decision at its expiry, where it still works and the expiry is announced. */
  readonly outlook?: Outlook | undefined;
}

/** Admission webhooks that could intercept recovery's requests, or why they are unknown. */
export type WebhookSight =
  | { readonly seen: true; readonly findings: readonly WebhookFinding[] }
  | { readonly seen: false; readonly message: string };

/**
 * `healthy`: nothing to do. `recovering`: something is wrong, and regen repairs it automatically. `stuck`: something is
 * wrong that needs the administrator.
 */
export type StatusClass = 'healthy' | 'recovering' | 'stuck';

export interface StatusReport {
  readonly inventory: string;
  /** Time that the report is for. */
  readonly at: Date;
  readonly class: StatusClass;
  /** Problems that need the administrator's action or attention; empty when healthy. */
  readonly problems: readonly string[];
  /** Why no object of the API is known; also among the problems. */
  readonly apiProblem?: string | undefined;
  readonly rows: readonly StatusRow[];
  readonly recheckAt: Date;
  /** A warning, not a problem: webhooks called today may also be called when certificates have expired. */
  readonly webhooks?: WebhookSight | undefined;
}

export interface ReportInput {
  readonly resolved: Resolved;
  readonly facts: Facts;
  readonly plan: Plan;
  readonly replan: Replan;
  /** Same time as the plan's. */
  readonly now: Date;
  readonly onDisk?: ReadonlyMap<string, OnDisk>;
  readonly inUse?: ReadonlyMap<string, Use>;
  readonly webhooks?: WebhookSight | undefined;
  /** Name whose certificate regen needs to reach the API once the other certificates have expired. */
  readonly recoveryServerName?: string | undefined;
}

/** An artefact of the inventory with its row. */
export interface Told {
  readonly artefact: ResolvedArtefact;
  readonly row: StatusRow;
}

export function tellEach(input: ReportInput): readonly Told[] {
  const decisions = new Map(input.plan.decisions.map((decision) => [decision.artefact, decision]));
  const sound = soundToday(input);
  return input.resolved.artefacts.flatMap((artefact) => {
    const decision = decisions.get(artefact.name);
    const isAhead = decision !== undefined && decision.action !== 'keep' && sound.has(artefact.name);
    return decision === undefined ? [] : [{ artefact, row: rowOf(artefact, { decision, isAhead }, input) }];
  });
}

/** Names of artefacts that the plan would keep if it renewed nothing ahead of time. */
function soundToday({ plan, replan }: ReportInput): ReadonlySet<string> {
  if (plan.decisions.every(({ action }) => action === 'keep')) return new Set();
  const { decisions } = replan({ onlyFaults: true });
  return new Set(decisions.flatMap(({ artefact, action }) => (action === 'keep' ? [artefact] : [])));
}

export function report(input: ReportInput, told = tellEach(input)): StatusReport {
  const { resolved, plan, now, recoveryServerName = defaultRecoveryServerName } = input;
  const rows = told.map(({ row }) => row);
  const apiProblem = whyApiUnread(input);
  const isTold = ({ artefact, row }: Told): boolean =>
    apiProblem !== undefined && row.state === 'UNKNOWN' && !isFile(artefact.location);
  const stuck = told
    .filter(({ row: { action, reason } }) => action === 'blocked' || reason === 'HostnameUnknown')
    .filter((one) => !isGoneOption(one) && !isTold(one))
    .map(({ row }) => `${row.artefact}: ${row.message}`);
  const unreachable = told.flatMap((one) => recoveryProblem(one, recoveryServerName));
  const problems = [...(apiProblem === undefined ? [] : [apiProblem]), ...stuck, ...unreachable];
  const isWrong = rows.some(
    ({ action, isAhead, onDisk }) => (action === 'renew' && isAhead !== true) || (onDisk ?? 'same') !== 'same',
  );
  return {
    inventory: resolved.name,
    at: now,
    class: classOf(problems, isWrong),
    problems,
    apiProblem,
    rows,
    recheckAt: plan.recheckAt,
    webhooks: input.webhooks,
  };
}

export function classOf(problems: readonly string[], isRecovering: boolean): StatusClass {
  if (problems.length > 0) return 'stuck';
  return isRecovering ? 'recovering' : 'healthy';
}

/** Groups in the order of printing. */
export function groupsOf({ rows }: StatusReport) {
  const own = rows.filter(({ isForeign }) => !isForeign);
  return {
    certificates: rows.filter(({ kind }) => kind === 'target'),
    authorities: own.filter(({ kind }) => kind !== 'target'),
    others: rows.filter(({ isForeign }) => isForeign),
  };
}

/** When no object of several could be read, the API itself is the problem: reported once, with the first error. */
function whyApiUnread({ resolved, facts }: ReportInput): string | undefined {
  const reads = resolved.artefacts.filter(({ location }) => !isFile(location)).map(({ name }) => facts.get(name));
  const failures = reads.flatMap((fact) => (fact?.state === 'unavailable' ? [fact.message] : []));
  const [first] = failures;
  if (first === undefined || reads.length < 2 || failures.length < reads.length) return undefined;
  return `the API cannot be read: ${first.replace(/^Cannot \w+ \w+ "[^"]*": /, '')}`;
}

interface Decided {
  readonly decision: Decision;
  readonly isAhead: boolean;
}

function rowOf(artefact: ResolvedArtefact, { decision, isAhead }: Decided, input: ReportInput): StatusRow {
  const { now, facts } = input;
  const { action, reason, message, recheckAt, renewsAt } = decision;
  const fact: ArtefactFacts = facts.get(artefact.name) ?? { state: 'unavailable', message: '' };
  const { kind } = originalOf(input.resolved.artefacts, artefact) ?? artefact;
  const isPair = kind === 'signer' || kind === 'target';
  const certificate = leading(fact, isPair);
  return {
    artefact: artefact.name,
    kind: artefact.kind,
    location: locationText(artefact.location),
    state: stateOf(fact, isPair, { decision, isAhead }, now),
    ...(certificate && datesOf(certificate, now)),
    issuer: 'issuer' in artefact ? artefact.issuer : undefined,
    isForeign: isOnlyRead(artefact),
    action,
    reason,
    message,
    recheckAt,
    ...(renewsAt && { renewsAt }),
    byHand: decision.byHand === true,
    ...(action === 'renew' && { renewal: renewalOf(decision) }),
    ...(isAhead && { isAhead }),
    onDisk: input.onDisk?.get(artefact.name),
    inUse: input.inUse?.get(artefact.name),
  };
}

export function datesOf(
  { notBefore, notAfter }: CertificateFacts,
  now: Date,
): Pick<StatusRow, 'notBefore' | 'notAfter' | 'residualMs'> {
  return { notBefore, notAfter, residualMs: notAfter.getTime() - now.getTime() };
}

/** Certificate whose dates represent the artefact: a pair's own; for a bundle, the one that expires last. */
function leading(fact: ArtefactFacts, isPair: boolean): CertificateFacts | undefined {
  const [first, ...others] = usableCertificates(fact);
  if (isPair) return first;
  return others.reduce<CertificateFacts | undefined>(
    (last, one) => (last === undefined || one.notAfter > last.notAfter ? one : last),
    first,
  );
}

/** `isPair`: a certificate with its key, or a copy of one. */
function stateOf(fact: ArtefactFacts, isPair: boolean, { decision, isAhead }: Decided, now: Date): RowState {
  const { action, reason } = decision;
  const certificate = leading(fact, isPair);
  if (fact.state === 'unavailable') return 'UNKNOWN';
  if (fact.state === 'absent') return 'MISSING';
  if (fact.state === 'broken') return isKeptByOthers(fact) ? stateOfOthers(fact, now) : 'BROKEN';
  if (certificate !== undefined) {
    if (now >= certificate.notAfter) return 'EXPIRED';
    if (now < certificate.notBefore) return 'NOT YET VALID';
  }
  if (endingReasons.includes(reason)) return 'EXPIRING';
  if (action !== 'keep' && !isAhead) return 'BROKEN'; // valid by its dates, and still refused by its readers
  if (certificate === undefined || !isPair) return 'OK';
  const life = certificate.notAfter.getTime() - certificate.notBefore.getTime();
  return certificate.notAfter.getTime() - now.getTime() < life * announcedPart ? 'EXPIRING' : 'OK';
}

type Broken = Extract<ArtefactFacts, { readonly state: 'broken' }>;

/** Whether a kubeconfig holds foreign credentials. */
export const isKeptByOthers = (fact: ArtefactFacts): fact is Broken =>
  fact.state === 'broken' && fact.problem === 'foreign' && fact.isOtherDocument !== true;

/** A token's validity is unknown, so it counts as OK. */
export function stateOfOthers({ certificates: [certificate] = [] }: Broken, now: Date): RowState {
  return certificate !== undefined && now >= certificate.notAfter ? 'EXPIRED' : 'OK';
}

/** Whether this is an absent optional object of another controller, which is healthy. */
function isGoneOption({ artefact, row }: Told): boolean {
  return artefact.kind === 'opaque' && artefact.published !== 'required' && row.state === 'MISSING';
}

/** Recovery needs this certificate: without it no client can verify the API server, and nothing in it can be healed. */
function recoveryProblem({ artefact, row }: Told, recoveryServerName: string): string[] {
  if (artefact.kind !== 'target' || !artefact.hostnames.includes(recoveryServerName)) return [];
  if (isFile(artefact.location) || (row.state !== 'EXPIRED' && row.state !== 'NOT YET VALID')) return [];
  const state = row.state === 'EXPIRED' ? 'it has expired' : 'it has not begun';
  return [
    `${row.artefact}: ${state}, so regen cannot verify the API server as "${recoveryServerName}"; ` +
      'renew it by hand on this host, or look at the clock',
  ];
}
