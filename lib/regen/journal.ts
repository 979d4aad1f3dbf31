// Reports decisions and actions of regen: log lines, metrics, Events, and the report at the end. A decision is logged
// when it changes, not at every pass; nothing here decides anything, and no field ever holds material.
import { faultText } from '../errors.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { EventReason, EventRecorder, RecordedEvent } from '../kube/events.ts';
import { apiKinds } from '../kube/resources.ts';
import { type LogEvent, type LogFields, Repeats, type Running } from '../log.ts';
import { type Metrics, noMetrics } from '../metrics.ts';
import type { Facts } from '../plan/facts.ts';
import { origins } from '../origin/origins.ts';
import type { Decision } from '../plan/decision.ts';
import type { Plan } from '../plan/plan.ts';
import { isInput } from '../plan/union-rules.ts';
import { leavingReasons, type Reason } from '../plan/reasons.ts';
import { locationText } from '../store/store.ts';
import type { StepOutcome, StepResult } from './execute.ts';
import { isObject } from '../inventory/places.ts';
import { fieldsOf, placeLabels } from './artefact-fields.ts';
import { DailySummary, type Summary, summaryOf } from '../summary.ts';

/** An artefact with the last decision about it. */
export interface ArtefactReport extends Pick<
  Decision,
  'artefact' | 'action' | 'reason' | 'message' | 'byHand' | 'obtains' | 'renewsAt'
> {
  /** Outcome of the last attempt to renew it; undefined when there was none. */
  readonly outcome?: StepOutcome | undefined;
  readonly err?: string | undefined;
  /** End of its own certificate, where it has one. */
  readonly notAfter?: Date | undefined;
  /** Number of writes. */
  readonly writes: number;
}

export interface RegenReport {
  /** Every artefact is healthy, or blocked for a stated reason; nothing is left to try. */
  readonly converged: boolean;
  /** Why a single run gave up; undefined when it converged or was stopped. */
  readonly gaveUp?: string | undefined;
  /** In inventory order. */
  readonly artefacts: readonly ArtefactReport[];
  readonly writes: number;
  /** Time of the last summary. */
  readonly summaryLoggedAt?: Date | undefined;
}

export interface JournalOptions extends Pick<Running, 'clock' | 'log'> {
  readonly resolved: Resolved;
  readonly dryRun: boolean;
  readonly metrics?: Metrics;
  readonly events?: Pick<EventRecorder, 'record'> | undefined;
  /** Time of the last summary of an earlier run: a timer that runs each minute logs it once a day. */
  readonly summaryLoggedAt?: Date | undefined;
  /**
   * The administrator has started this run: an artefact that is due and not renewed is reported immediately. Default:
   * once a day, with the summary.
   */
  readonly isByHand?: boolean | undefined;
}

interface Entry {
  readonly artefact: ResolvedArtefact;
  decision?: Decision;
  /** notAfter of its own certificate, where it has one. */
  notAfter?: Date;
  /** The decision that was logged last; undefined after it was carried out: the next decision is news. */
  logged?: Decision | undefined;
  outcome?: StepOutcome;
  err?: string | undefined;
  writes: number;
}

const mode = 'regen';
const saidDaily: readonly Reason[] = ['WarnOnly', 'ClockUnconfirmed', 'NotOffered', 'StillUsed'];
const minuteMs = 60_000;

type Note = Pick<RecordedEvent, 'type' | 'note'> & { readonly reason: EventReason | undefined };

export class Journal {
  firstAnswerAt: Date | undefined;
  readonly #options: JournalOptions;
  readonly #metrics: Metrics;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #failures: Repeats;
  readonly #summary: DailySummary;
  #recovery: { readonly since: Date; readonly writes: number } | undefined;
  /** Whether a plan was made since the API's first answer. */
  #hasLooked = false;

  constructor(options: JournalOptions) {
    const { resolved, clock, log, metrics = noMetrics, summaryLoggedAt: loggedAt } = options;
    this.#options = options;
    this.#metrics = metrics;
    this.#entries = new Map(resolved.artefacts.map((artefact) => [artefact.name, { artefact, writes: 0 }]));
    this.#failures = new Repeats(clock, minuteMs, 60 * minuteMs);
    this.#summary = new DailySummary({ clock, log, event: 'regen.summary', loggedAt });
  }

  get writes(): number {
    return [...this.#entries.values()].reduce((sum, { writes }) => sum + writes, 0);
  }

  /** Reports decisions about the artefacts of this pass. */
  decided({ decisions }: Plan, lookedAt: (artefact: ResolvedArtefact) => boolean): void {
    const { resolved, log, dryRun, clock, isByHand = false } = this.#options;
    for (const decision of decisions) {
      const entry = this.#entries.get(decision.artefact);
      if (entry === undefined || !lookedAt(entry.artefact)) continue;
      const { artefact, logged, outcome = '' } = entry;
      entry.decision = decision;
      this.#metrics.decided(artefact.name, { ...decision, outcome });
      if (logged?.action === decision.action && logged.reason === decision.reason) continue;
      entry.logged = decision;
      const { action, reason, message } = decision;
      const fields = { ...fieldsOf(artefact), reason, message, recheckAt: decision.recheckAt.toISOString() };
      if (decision.obtains !== undefined && (action !== 'renew' || !dryRun)) {
        log.debug('rotation.blocked', fields); // decided again, once its source has answered
      } else if (action === 'renew') {
        log.info('rotation.decided', fields);
        this.#record(artefact, { type: 'Normal', note: message, reason: renewals[artefact.kind][1] });
      } else if (action === 'keep') {
        if (this.#failures.ended(artefact.name) || logged?.action === 'blocked') log.info('rotation.resolved', fields);
        else if (isByHand && leavingReasons.includes(reason)) this.#warnOfOne(entry, decision);
        else log[reason === 'NodesLag' ? 'info' : 'debug']('rotation.decided', fields);
      } else if (reason === 'ClockImplausible' || reason === 'ClockJumped') {
        log.warn('clock.implausible', fields);
      } else if (reason !== 'Unavailable' || this.firstAnswerAt !== undefined) {
        log.warn('rotation.blocked', fields); // before the API has answered, api.waiting reports it for all
        if (isInput(artefact.name, resolved.artefacts))
          this.#record(artefact, { type: 'Warning', note: message, reason: 'CertificateUpdateFailed' });
      }
    }
    // Problems found by the first pass after the API's first answer have lasted since that answer.
    const isFirst = this.firstAnswerAt !== undefined && !this.#hasLooked;
    this.#hasLooked = this.firstAnswerAt !== undefined;
    const count = decisions.filter(({ action, obtains }) => action === 'renew' && obtains === undefined).length;
    if (this.#recovery !== undefined || dryRun || count === 0) return;
    this.#recovery = { since: (isFirst ? this.firstAnswerAt : undefined) ?? clock.now(), writes: this.writes };
    log.info('recovery.started', { count });
  }

  #record({ location }: ResolvedArtefact, { type, reason, note }: Note): void {
    const { events, dryRun } = this.#options;
    if (events === undefined || dryRun || reason === undefined || !isObject(location)) return;
    const regarding = { kind: apiKinds[location.kind], namespace: location.namespace, name: location.name };
    events.record({ type, reason, regarding, note: `${locationText(location)}: ${note}` });
  }

  /** Reports the result of one step. */
  stepped({ artefact, decision, outcome, err, certificates, because }: StepResult): void {
    const { log } = this.#options;
    const entry = this.#entries.get(artefact.name) ?? { artefact, writes: 0 };
    entry.outcome = outcome;
    entry.err = err?.message;
    this.#metrics.decided(artefact.name, { ...decision, outcome });
    const fields: LogFields = { ...fieldsOf(artefact), reason: decision.reason };
    if (outcome !== 'skipped') this.#metrics.wrote(mode, outcome);
    switch (outcome) {
      case 'written': {
        entry.writes += 1;
        entry.logged = undefined;
        this.#failures.ended(artefact.name);
        const facts = certificates?.[0]?.facts;
        const event = eventOf(artefact, decision);
        log[event === 'target.restored' ? 'warn' : 'info'](event, {
          ...fields,
          message: origins[decision.origin ?? 'sign'].logsMessage && decision.message,
          notBefore: facts?.notBefore.toISOString(),
          notAfter: facts?.notAfter.toISOString(),
          count: certificates?.length,
        });
        break;
      }
      case 'conflict':
        log.warn('publish.conflicted', { ...fields, message: 'it has changed since it was read; looking again' });
        break;
      case 'failed':
        this.#metrics.failed(mode, err?.code ?? 'unknown');
        this.#failed(artefact, { ...fields, code: err?.code ?? 'unknown', err: err?.message ?? 'unknown' });
        break;
      case 'skipped':
        log.debug('rotation.blocked', { ...fields, message: because ?? '' });
    }
  }

  /** Reports a fault of this program while it read or judged an artefact, with its place in the code. */
  faulted(name: string, err: unknown): void {
    const artefact = this.#entries.get(name)?.artefact;
    if (artefact === undefined) return; // not part of this run
    this.#metrics.failed(mode, 'unexpected');
    this.#failed(artefact, { ...fieldsOf(artefact), code: 'unexpected', err: faultText(err) });
  }

  #failed(artefact: ResolvedArtefact, fields: LogFields & { readonly err: string }): void {
    const attempt = this.#failures.met(artefact.name, fields.err);
    if (attempt === undefined) return;
    this.#options.log.error('rotation.failed', { ...fields, attempt: attempt > 1 ? attempt : undefined });
    this.#record(artefact, { type: 'Warning', reason: 'CertificateUpdateFailed', note: fields.err });
  }

  /** Called when nothing is left to do at present. */
  settled(): void {
    const { clock, log } = this.#options;
    const { loggedAt } = this.#summary;
    this.#summary.tell(() => this.#standing());
    if (this.#summary.loggedAt !== loggedAt) this.#warnOfDue();
    if (this.#recovery === undefined) return;
    const { since } = this.#recovery;
    const count = this.writes - this.#recovery.writes;
    this.#recovery = undefined;
    const duration = clock.now().getTime() - since.getTime();
    log.info('recovery.finished', { count, duration });
    this.#metrics.recovered(count, duration);
  }

  /**
   * Logged with the summary, so once a day: certificates that expire and wait for the administrator. Certificates
   * signed by such a CA are not listed next to it.
   */
  #warnOfDue(): void {
    if (this.#options.isByHand === true) return; // logged already
    for (const entry of this.#entries.values()) {
      const { artefact, decision } = entry;
      const isCa = decision?.reason === 'SignerEnding' && artefact.kind === 'signer';
      if (decision !== undefined && (isCa || saidDaily.includes(decision.reason))) this.#warnOfOne(entry, decision);
    }
  }

  #warnOfOne({ artefact, notAfter }: Entry, { reason, message }: Decision): void {
    this.#options.log.warn('rotation.due', {
      ...fieldsOf(artefact),
      reason,
      message,
      notAfter: notAfter?.toISOString(),
    });
  }

  /** Undefined where no artefact was checked. */
  #standing(): Summary | undefined {
    const seen = [...this.#entries].flatMap(([name, { decision, notAfter }]) =>
      decision === undefined ? [] : [{ name, isGood: decision.action === 'keep', notAfter }],
    );
    return seen.length === 0 ? undefined : summaryOf(seen, 'artefacts are good');
  }

  measured(facts: Facts, isClockConfirmed: boolean): void {
    this.#metrics.set('kube_cert_recovery_clock_confirmed', Number(isClockConfirmed));
    for (const entry of this.#entries.values()) {
      const { artefact } = entry;
      const { name, location } = artefact;
      const fact = facts.get(name);
      if (fact === undefined || fact.state === 'unavailable') continue;
      const certificates = fact.state === 'present' ? fact.certificates : [];
      const [first, ...rest] = isPair(artefact) ? certificates.slice(0, 1) : certificates;
      const dates = first && rest.reduce((soonest, each) => (each.notAfter < soonest.notAfter ? each : soonest), first);
      if (dates !== undefined && isPair(artefact)) entry.notAfter = dates.notAfter;
      this.#metrics.certificate(name, placeLabels(location), dates);
    }
  }

  report(converged: boolean, gaveUp?: string): RegenReport {
    const artefacts = [...this.#entries].flatMap(([artefact, { decision, outcome, err, notAfter, writes }]) => {
      if (decision === undefined) return [];
      const { action, reason, message, byHand, obtains, renewsAt } = decision;
      const told = { artefact, action, reason, message, byHand, ...(obtains && { obtains }), renewsAt };
      return [{ ...told, outcome, err, notAfter, writes }];
    });
    return { converged, gaveUp, artefacts, writes: this.writes, summaryLoggedAt: this.#summary.loggedAt };
  }
}

function isPair({ kind }: ResolvedArtefact): boolean {
  return kind === 'signer' || kind === 'target';
}

const eventOf = ({ kind }: ResolvedArtefact, { origin = 'sign' }: Decision): LogEvent =>
  origins[origin].events?.[kind] ?? renewals[kind][0];

/**
 * Report of a renewal: the log event, and the reason of its Event as library-go names it, which has none for a copy.
 */
const renewals: Readonly<Record<ResolvedArtefact['kind'], readonly [LogEvent, EventReason?]>> = {
  signer: ['signer.regenerated', 'SignerUpdateRequired'],
  caBundle: ['caBundle.updated', 'CABundleUpdateRequired'],
  composedBundle: ['caBundle.updated', 'CABundleUpdateRequired'],
  copy: ['copy.updated'],
  target: ['target.regenerated', 'TargetUpdateRequired'],
  kubeconfigs: ['copy.updated'],
  keyPair: ['target.regenerated'],
  external: ['authority.updated'],
  opaque: ['target.regenerated'],
};
