// Tells people what regen decides and does: log lines, metrics, Events, and the report at the end. A decision is told
// when it changes, not at every look; nothing here decides anything, and no field ever holds material.
import type { Clock } from '../clock.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { EventReason, EventRecorder } from '../kube/events.ts';
import type { Log, LogEvent, LogFields } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Facts } from '../plan/facts.ts';
import type { Decision, Plan } from '../plan/plan-types.ts';
import { locationText } from '../store/store.ts';
import type { StepOutcome, StepResult } from './execute.ts';
import { isFile } from '../inventory/places.ts';

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
  /** Every row is healthy, or blocked for a reason that is given; nothing is left to try. */
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
}

export interface JournalOptions {
  readonly resolved: Resolved;
  readonly clock: Clock;
  readonly log: Log;
  readonly dryRun: boolean;
  readonly metrics: Metrics;
  readonly events?: Pick<EventRecorder, 'record'>;
}

interface Entry {
  decision?: Decision;
  /** The decision that people were told of; none after it was carried out: what is decided then is news. */
  told?: Decision;
  outcome?: StepOutcome;
  err?: string;
  /** The failure that lasts: what it is, how often it was met, and when people were told. */
  failing?: { readonly text: string; readonly attempt: number; readonly toldAt: Date };
  writes: number;
}

const mode = 'regen';
/** A failure that lasts is told again after this time. */
const tellAgainMs = 60_000;

const writtenEvents: Readonly<Record<ResolvedArtefact['kind'], LogEvent>> = {
  signer: 'signer.regenerated',
  caBundle: 'caBundle.updated',
  composedBundle: 'caBundle.updated',
  copy: 'copy.updated',
  target: 'target.regenerated',
  kubeconfigs: 'copy.updated',
  keyPair: 'target.regenerated',
  given: 'target.regenerated',
  opaque: 'target.regenerated',
};

interface Note {
  readonly type: 'Normal' | 'Warning';
  readonly reason?: EventReason;
  readonly note: string;
}

/** As library-go names them; it has none for a copy. */
function eventReason({ kind }: ResolvedArtefact): Pick<Note, 'reason'> {
  if (kind === 'signer') return { reason: 'SignerUpdateRequired' };
  if (kind === 'target') return { reason: 'TargetUpdateRequired' };
  return kind === 'caBundle' || kind === 'composedBundle' ? { reason: 'CABundleUpdateRequired' } : {};
}

export class Journal {
  readonly startedAt: Date;
  firstAnswerAt: Date | undefined;
  lastWriteAt: Date | undefined;
  readonly #options: JournalOptions;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #rows: ReadonlyMap<string, ResolvedArtefact>;
  #recovery: { readonly since: Date; readonly writes: number } | undefined;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.startedAt = options.clock.now();
    this.#entries = new Map(options.resolved.artefacts.map(({ name }) => [name, { writes: 0 }]));
    this.#rows = new Map(options.resolved.artefacts.map((row) => [row.name, row]));
  }

  get writes(): number {
    return [...this.#entries.values()].reduce((sum, { writes }) => sum + writes, 0);
  }

  /** Decisions about the rows that were looked at. */
  decided({ decisions }: Plan, lookedAt: (row: ResolvedArtefact) => boolean): void {
    const { log, dryRun, clock } = this.#options;
    for (const decision of decisions) {
      const [row, entry] = [this.#rows.get(decision.artefact), this.#entries.get(decision.artefact)];
      if (row === undefined || entry === undefined || !lookedAt(row)) continue;
      const news = entry.told?.action !== decision.action || entry.told.reason !== decision.reason;
      entry.decision = decision;
      if (!news) continue;
      entry.told = decision;
      const { reason, message } = decision;
      const fields = { ...fieldsOf(row), reason, message, recheckAt: decision.recheckAt.toISOString() };
      if (decision.action === 'renew') {
        log.info('rotation.decided', fields);
        this.#record(row, { type: 'Normal', note: message, ...eventReason(row) });
      } else if (decision.action === 'keep') {
        log.debug('rotation.decided', fields);
      } else if (reason === 'ClockImplausible' || reason === 'ClockJumped') {
        log.warn('clock.implausible', fields);
      } else if (reason !== 'Unavailable' || this.firstAnswerAt !== undefined) {
        log.warn('rotation.blocked', fields); // before the API has answered, api.waiting says it for all
      }
    }
    if (this.#recovery !== undefined || dryRun || !decisions.some(({ action }) => action === 'renew')) return;
    this.#recovery = { since: clock.now(), writes: this.writes };
    log.info('recovery.started', { count: decisions.filter(({ action }) => action === 'renew').length });
  }

  #record({ truth }: ResolvedArtefact, { type, reason, note }: Note): void {
    const { events, dryRun } = this.#options;
    if (events === undefined || dryRun || reason === undefined) return;
    if (isFile(truth)) return;
    const kind = truth.kind === 'secret' ? 'Secret' : 'ConfigMap';
    const regarding = { kind, namespace: truth.namespace, name: truth.name } as const;
    events.record({ type, reason, regarding, note: `${locationText(truth)}: ${note}` });
  }

  /** One step has ended. */
  stepped({ artefact: row, decision, outcome, err, certificates, because }: StepResult): void {
    const { log, metrics, clock } = this.#options;
    const entry = this.#entries.get(row.name);
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
    const fields: LogFields = { ...fieldsOf(row), reason: decision.reason };
    if (outcome !== 'skipped') metrics.wrote(mode, outcome);
    switch (outcome) {
      case 'written': {
        this.lastWriteAt = clock.now();
        const [first] = certificates ?? [];
        log.info(writtenEvents[row.kind], {
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
        this.#record(row, { type: 'Warning', reason: 'CertificateUpdateFailed', note: err?.message ?? 'unknown' });
        this.#failed(entry, { ...fields, code: err?.code ?? 'unknown', err: err?.message ?? 'unknown' });
        break;
      case 'skipped':
        log.debug('rotation.blocked', { ...fields, message: because ?? '' });
    }
  }

  /** The same failure again and again is told now and then, with how often it was met. */
  #failed(entry: Entry | undefined, fields: LogFields & { readonly err: string }): void {
    const { log, clock } = this.#options;
    const now = clock.now();
    const last = entry?.failing?.text === fields.err ? entry.failing : undefined;
    const attempt = (last?.attempt ?? 0) + 1;
    const quietMs = last === undefined ? tellAgainMs : now.getTime() - last.toldAt.getTime();
    const isTold = quietMs >= tellAgainMs || quietMs < 0; // negative: the clock was set back
    if (isTold) log.error('rotation.failed', { ...fields, ...(attempt > 1 && { attempt }) });
    if (entry === undefined) return;
    entry.failing = { text: fields.err, attempt, toldAt: isTold ? now : (last?.toldAt ?? now) };
  }

  /** Nothing is left to do at present. */
  settled(): void {
    const { clock, log } = this.#options;
    if (this.#recovery === undefined) return;
    // The first recovery of a process counts from the moment when it could begin: the API's first answer.
    const isFirst = this.#recovery.writes === 0;
    const since = (isFirst ? this.firstAnswerAt : undefined) ?? this.#recovery.since;
    const count = this.writes - this.#recovery.writes;
    this.#recovery = undefined;
    log.info('recovery.finished', { count, duration: clock.now().getTime() - since.getTime() });
  }

  measured(facts: Facts): void {
    for (const row of this.#rows.values()) {
      const fact = facts.get(row.name);
      if (fact === undefined || fact.state === 'unavailable') continue;
      const certificates = fact.state === 'present' ? fact.certificates : [];
      const [first, ...rest] = isPair(row) ? certificates.slice(0, 1) : certificates;
      const dates = first && rest.reduce((soonest, each) => (each.notAfter < soonest.notAfter ? each : soonest), first);
      this.#options.metrics.certificate({ artefact: row.name, location: locationText(row.truth) }, dates);
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
    const times = {
      ...(firstAnswerAt !== undefined && { firstAnswerAt }),
      ...(lastWriteAt !== undefined && { lastWriteAt }),
    };
    return { converged, ...(gaveUp !== undefined && { gaveUp }), artefacts, writes, startedAt, ...times };
  }
}

function isPair({ kind }: ResolvedArtefact): boolean {
  return kind === 'signer' || kind === 'target';
}

function fieldsOf({ name, truth }: ResolvedArtefact): LogFields {
  const artefact = { artefact: name };
  switch (truth.kind) {
    case 'secret':
      return { ...artefact, namespace: truth.namespace, secret: truth.name };
    case 'configMap':
      return { ...artefact, namespace: truth.namespace, configMap: truth.name };
    case 'pemPair':
      return { ...artefact, path: truth.certFile };
    case 'pemFile':
    case 'combinedPem':
    case 'kubeconfig':
      break;
  }
  return { ...artefact, path: truth.file };
}
