// Tells people what regen decides and does: log lines, metrics, Events, and the report at the end. A decision is told
// when it changes, not at every look; nothing here decides anything, and no field ever holds material.
import type { Clock } from '../clock.ts';
import { faultText } from '../errors.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { EventReason, EventRecorder } from '../kube/events.ts';
import type { Log, LogEvent, LogFields } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Facts } from '../plan/facts.ts';
import type { Decision } from '../plan/decision.ts';
import type { Plan } from '../plan/plan.ts';
import { locationText } from '../store/store.ts';
import type { StepOutcome, StepResult } from './execute.ts';
import { isFile } from '../inventory/places.ts';
import { DailySummary, type Summary, summaryOf } from '../summary.ts';
import { backoffMs } from '../retry.ts';

export interface ArtefactReport {
  readonly artefact: string;
  /** The last decision about it. */
  readonly action: Decision['action'];
  readonly reason: Decision['reason'];
  readonly message: string;
  /** Somebody must bring it, or the CA that would sign it. */
  readonly byHand?: true;
  /** Of the last attempt to renew it; undefined when there was none. */
  readonly outcome?: StepOutcome;
  readonly err?: string;
  /** How often it was written. */
  readonly writes: number;
}

export interface RegenReport {
  /** Every artefact is healthy, or blocked for a reason that is given; nothing is left to try. */
  readonly converged: boolean;
  /** Why a single run gave up; undefined when it converged or was asked to stop. */
  readonly gaveUp?: string;
  /** In the order of the inventory. */
  readonly artefacts: readonly ArtefactReport[];
  readonly writes: number;
  readonly startedAt: Date;
  /** The first answer of the API to a read of an inventory object. */
  readonly firstAnswerAt?: Date;
  readonly lastWriteAt?: Date;
  /** When it was last told how all of it stands. */
  readonly summaryToldAt?: Date;
}

interface JournalOptions {
  readonly resolved: Resolved;
  readonly clock: Clock;
  readonly log: Log;
  readonly dryRun: boolean;
  readonly metrics: Metrics;
  readonly events?: Pick<EventRecorder, 'record'> | undefined;
  /** When an earlier run has last told how all of it stands. */
  readonly summaryToldAt?: Date | undefined;
}

interface Entry {
  decision?: Decision;
  /** Of its certificate, where it has one of its own. */
  notAfter?: Date;
  /** The decision that people were told of; none after it was carried out: what is decided then is news. */
  told?: Decision;
  outcome?: StepOutcome;
  err?: string;
  /** The failure that lasts: what it is, how often it was met and told, and when last. */
  failing?: { readonly text: string; readonly attempt: number; readonly told: number; readonly toldAt: Date };
  writes: number;
}

const mode = 'regen';
/** A failure that lasts is told again after this time, then after twice as long, and so on, up to an hour. */
const tellAgainMs = 60_000;
const longestQuietMs = 3_600_000;

interface Note {
  readonly type: 'Normal' | 'Warning';
  readonly reason: EventReason | undefined;
  readonly note: string;
}

export class Journal {
  readonly startedAt: Date;
  firstAnswerAt: Date | undefined;
  lastWriteAt: Date | undefined;
  readonly #options: JournalOptions;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #artefacts: ReadonlyMap<string, ResolvedArtefact>;
  readonly #summary: DailySummary;
  #recovery: { readonly since: Date; readonly writes: number } | undefined;
  /** Whether a plan was seen since the API's first answer. */
  #hasLooked = false;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.startedAt = options.clock.now();
    this.#entries = new Map(options.resolved.artefacts.map(({ name }) => [name, { writes: 0 }]));
    this.#artefacts = new Map(options.resolved.artefacts.map((artefact) => [artefact.name, artefact]));
    const { clock, log, summaryToldAt: toldAt } = options;
    this.#summary = new DailySummary({ clock, log, event: 'regen.summary', toldAt });
  }

  get writes(): number {
    return [...this.#entries.values()].reduce((sum, { writes }) => sum + writes, 0);
  }

  /** Decisions about what was looked at. */
  decided({ decisions }: Plan, lookedAt: (artefact: ResolvedArtefact) => boolean): void {
    const { log, dryRun, clock } = this.#options;
    for (const decision of decisions) {
      const [artefact, entry] = [this.#artefacts.get(decision.artefact), this.#entries.get(decision.artefact)];
      if (artefact === undefined || entry === undefined || !lookedAt(artefact)) continue;
      const news = entry.told?.action !== decision.action || entry.told.reason !== decision.reason;
      entry.decision = decision;
      if (!news) continue;
      const isResolved =
        decision.action === 'keep' && (entry.told?.action === 'blocked' || entry.failing !== undefined);
      entry.told = decision;
      const { reason, message } = decision;
      const fields = { ...fieldsOf(artefact), reason, message, recheckAt: decision.recheckAt.toISOString() };
      if (decision.action === 'renew') {
        log.info('rotation.decided', fields);
        this.#record(artefact, { type: 'Normal', note: message, reason: renewals[artefact.kind][1] });
      } else if (isResolved) {
        delete entry.failing;
        log.info('rotation.resolved', fields);
      } else if (decision.action === 'keep') {
        log.debug('rotation.decided', fields);
      } else if (reason === 'ClockImplausible' || reason === 'ClockJumped') {
        log.warn('clock.implausible', fields);
      } else if (reason !== 'Unavailable' || this.firstAnswerAt !== undefined) {
        log.warn('rotation.blocked', fields); // before the API has answered, api.waiting says it for all
      }
    }
    // What the first look after the API's first answer finds has lasted since then.
    const isFirst = this.firstAnswerAt !== undefined && !this.#hasLooked;
    this.#hasLooked = this.firstAnswerAt !== undefined;
    if (this.#recovery !== undefined || dryRun || !decisions.some(({ action }) => action === 'renew')) return;
    this.#recovery = { since: (isFirst ? this.firstAnswerAt : undefined) ?? clock.now(), writes: this.writes };
    log.info('recovery.started', { count: decisions.filter(({ action }) => action === 'renew').length });
  }

  #record({ location }: ResolvedArtefact, { type, reason, note }: Note): void {
    const { events, dryRun } = this.#options;
    if (events === undefined || dryRun || reason === undefined || isFile(location)) return;
    const kind = location.kind === 'secret' ? 'Secret' : 'ConfigMap';
    const regarding = { kind, namespace: location.namespace, name: location.name } as const;
    events.record({ type, reason, regarding, note: `${locationText(location)}: ${note}` });
  }

  /** One step has ended. */
  stepped({ artefact, decision, outcome, err, certificates, because }: StepResult): void {
    const { log, metrics, clock } = this.#options;
    const entry = this.#entries.get(artefact.name);
    if (entry !== undefined) {
      entry.outcome = outcome;
      delete entry.err;
      if (err !== undefined) entry.err = err.message;
      if (outcome === 'written') {
        entry.writes += 1;
        delete entry.told;
        delete entry.failing;
      }
    }
    const fields: LogFields = { ...fieldsOf(artefact), reason: decision.reason };
    if (outcome !== 'skipped') metrics.wrote(mode, outcome);
    switch (outcome) {
      case 'written': {
        this.lastWriteAt = clock.now();
        const [first] = certificates ?? [];
        log.info(decision.putsBack === true ? 'signer.restored' : renewals[artefact.kind][0], {
          ...fields,
          ...(first !== undefined && {
            notBefore: first.facts.notBefore.toISOString(),
            notAfter: first.facts.notAfter.toISOString(),
          }),
          ...(certificates !== undefined && { count: certificates.length }),
        });
        break;
      }
      case 'conflict':
        log.warn('publish.conflicted', { ...fields, message: 'it has changed since it was read; looking again' });
        break;
      case 'failed':
        metrics.failed(mode, err?.code ?? 'unknown');
        this.#failed(artefact, { ...fields, code: err?.code ?? 'unknown', err: err?.message ?? 'unknown' });
        break;
      case 'skipped':
        log.debug('rotation.blocked', { ...fields, message: because ?? '' });
    }
  }

  /** Reading or judging it met a fault of this program: told with its place in the code. */
  faulted(name: string, err: unknown): void {
    const artefact = this.#artefacts.get(name);
    if (artefact === undefined) return; // not of this run
    this.#options.metrics.failed(mode, 'unexpected');
    this.#failed(artefact, { ...fieldsOf(artefact), code: 'unexpected', err: faultText(err) });
  }

  /** The same failure again and again is told now and then, with how often it was met. */
  #failed(artefact: ResolvedArtefact, fields: LogFields & { readonly err: string }): void {
    const { log, clock } = this.#options;
    const entry = this.#entries.get(artefact.name);
    const now = clock.now();
    const last = entry?.failing?.text === fields.err ? entry.failing : { attempt: 0, told: 0, toldAt: now };
    const attempt = last.attempt + 1;
    const quietMs = now.getTime() - last.toldAt.getTime();
    // negative: the clock was set back
    const isTold =
      last.told === 0 ||
      quietMs < 0 ||
      quietMs >= backoffMs(last.told, { firstMs: tellAgainMs, longestMs: longestQuietMs });
    if (isTold) {
      log.error('rotation.failed', { ...fields, ...(attempt > 1 && { attempt }) });
      this.#record(artefact, { type: 'Warning', reason: 'CertificateUpdateFailed', note: fields.err });
    }
    if (entry === undefined) return;
    const told = last.told + (isTold ? 1 : 0);
    entry.failing = { text: fields.err, attempt, told, toldAt: isTold ? now : last.toldAt };
  }

  /** Nothing is left to do at present. */
  settled(): void {
    const { clock, log } = this.#options;
    this.#summary.tell(() => this.#standing());
    if (this.#recovery === undefined) return;
    const { since } = this.#recovery;
    const count = this.writes - this.#recovery.writes;
    this.#recovery = undefined;
    log.info('recovery.finished', { count, duration: clock.now().getTime() - since.getTime() });
  }

  /** Undefined where nothing was looked at. */
  #standing(): Summary | undefined {
    const seen = [...this.#entries].flatMap(([name, { decision, notAfter }]) =>
      decision === undefined ? [] : [{ name, isGood: decision.action === 'keep', notAfter }],
    );
    return seen.length === 0 ? undefined : summaryOf(seen, 'artefacts are good');
  }

  measured(facts: Facts): void {
    for (const artefact of this.#artefacts.values()) {
      const { name, location } = artefact;
      const fact = facts.get(name);
      if (fact === undefined || fact.state === 'unavailable') continue;
      const certificates = fact.state === 'present' ? fact.certificates : [];
      const [first, ...rest] = isPair(artefact) ? certificates.slice(0, 1) : certificates;
      const dates = first && rest.reduce((soonest, each) => (each.notAfter < soonest.notAfter ? each : soonest), first);
      const entry = this.#entries.get(name);
      if (entry !== undefined && dates !== undefined && isPair(artefact)) entry.notAfter = dates.notAfter;
      this.#options.metrics.certificate({ artefact: name, location: locationText(location) }, dates);
    }
  }

  report(converged: boolean, gaveUp?: string): RegenReport {
    const artefacts = [...this.#entries].flatMap(([artefact, { decision, outcome, err, writes }]) => {
      if (decision === undefined) return [];
      const { action, reason, message, byHand } = decision;
      const last = { ...(outcome !== undefined && { outcome }), ...(err !== undefined && { err }) };
      return [{ artefact, action, reason, message, ...(byHand && { byHand }), ...last, writes }];
    });
    const { startedAt, firstAnswerAt, lastWriteAt, writes } = this;
    const told = this.#summary.toldAt;
    const times = {
      ...(firstAnswerAt !== undefined && { firstAnswerAt }),
      ...(lastWriteAt !== undefined && { lastWriteAt }),
      ...(told !== undefined && { summaryToldAt: told }),
    };
    return { converged, ...(gaveUp !== undefined && { gaveUp }), artefacts, writes, startedAt, ...times };
  }
}

function isPair({ kind }: ResolvedArtefact): boolean {
  return kind === 'signer' || kind === 'target';
}

/** How a renewal is told: the log event, and the reason of its Event as library-go names it, which has none for a copy. */
const renewals: Readonly<Record<ResolvedArtefact['kind'], readonly [LogEvent, EventReason?]>> = {
  signer: ['signer.regenerated', 'SignerUpdateRequired'],
  caBundle: ['caBundle.updated', 'CABundleUpdateRequired'],
  composedBundle: ['caBundle.updated', 'CABundleUpdateRequired'],
  copy: ['copy.updated'],
  target: ['target.regenerated', 'TargetUpdateRequired'],
  kubeconfigs: ['copy.updated'],
  keyPair: ['target.regenerated'],
  external: ['target.regenerated'],
  opaque: ['target.regenerated'],
};

function fieldsOf({ name, location }: ResolvedArtefact): LogFields {
  if (location.kind === 'secret') return { artefact: name, namespace: location.namespace, secret: location.name };
  if (location.kind === 'configMap') return { artefact: name, namespace: location.namespace, configMap: location.name };
  return { artefact: name, path: location.kind === 'pemPair' ? location.certFile : location.file };
}
