// Reports about requests, in the log, as Events and in metrics: a reason once for each request, not at every pass.
// Under a flood, left requests are counted instead: requesters must not decide how much every approver writes to etcd.
import { errorText, RecoveryError } from '../errors.ts';
import type { EventReason } from '../kube/events.ts';
import { type LogFields, Repeats } from '../log.ts';
import { shellWord } from '../next-command.ts';
import type { PendingReason, ApprovalVerdict } from './judge.ts';
import { batchEveryMs, mostAtOnce, type RequestSummary } from './batch.ts';
import type { OtherRequest } from './other-requesters.ts';
import { longestName } from './request.ts';
import type { ApproverOptions } from './settings.ts';

const longestMessage = 600;
/** Interval between reports about a flood that goes on. */
const floodMs = 10 * 60_000;

export interface Reported {
  readonly summary: RequestSummary;
  /** Reasons already reported of the request. */
  readonly reported: Set<string>;
}

type ReporterOptions = Pick<ApproverOptions, 'log' | 'clock' | 'events' | 'metrics' | 'dryRun'>;

type Leave = Extract<ApprovalVerdict, { action: 'leave' }>;

export class Reporter {
  readonly #options: ReporterOptions;
  /** Undefined: there is no flood. */
  #flood: { reportedAt: number; readonly left: Map<PendingReason, number> } | undefined;

  readonly #longNames: Repeats;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#longNames = new Repeats(options.clock, floodMs);
  }

  /** `count` requests are due, more than fit into this round, and `one` is one of those; undefined: all fit. */
  flooded(count: number | undefined, one: RequestSummary | undefined): void {
    const { log, clock } = this.#options;
    const now = clock.now().getTime();
    if (count === undefined) {
      if (this.#flood === undefined) return;
      const message = `all are looked at at once again; left meanwhile: ${this.#counted()}`;
      this.#flood = undefined;
      log.info('csr.flooded', { count: 0, message });
      return;
    }
    const isNew = this.#flood === undefined;
    this.#flood ??= { reportedAt: now, left: new Map() };
    if (!isNew && Math.abs(now - this.#flood.reportedAt) < floodMs) return;
    this.#flood.reportedAt = now;
    const pace = `${mostAtOnce} are looked at every ${batchEveryMs / 1000} s, this machine's node first, then nodes that exist`;
    const left = isNew ? '' : `; left so far: ${this.#counted()}`;
    const message = `${pace}${left}; deny or delete what nobody needs`;
    log.warn('csr.flooded', { count, message });
    if (one !== undefined) this.#event('CertificateRequestPending', one, `${count} requests wait: ${message}`);
  }

  /** Whether a name is too long for its request to be read, which is reported now and then. */
  refusesName(name: string): boolean {
    if (name.length <= longestName) return false;
    const what = `${name.slice(0, 100)}...`;
    const message = `its name has ${name.length} characters, wanted ${longestName} at most: no kubelet's has so many`;
    const fields = { csr: what, reason: 'RequestTooLarge', message };
    if (this.#longNames.met('name') === undefined) this.#options.log.debug('csr.pending', fields);
    else this.#options.log.warn('csr.pending', fields);
    return true;
  }

  approved({ summary }: Reported, node: string, message: string): void {
    this.#options.log.info('csr.approved', { csr: summary.name, node, message });
    this.#event('CertificateRequestApproved', summary, message);
  }

  wouldApprove(request: Reported, node: string, message: string): void {
    const fields = { csr: request.summary.name, node, message: `would be approved: ${message}` };
    if (isNews(request, 'dryRun')) this.#options.log.info('csr.pending', { ...fields, reason: 'DryRun' });
  }

  left(request: Reported, { node, reason, message }: Leave): void {
    if (!isNews(request, reason)) return;
    const { log } = this.#options;
    const text = message.length > longestMessage ? `${message.slice(0, longestMessage)}...` : message;
    const fields: LogFields = { csr: request.summary.name, ...(node !== undefined && { node }), reason, message: text };
    if (this.#flood !== undefined) {
      const before = this.#flood.left.get(reason) ?? 0;
      this.#flood.left.set(reason, before + 1);
      // The first request of each reason is still reported: a flood must not hide other refusals.
      if (before > 0) {
        log.debug('csr.pending', fields);
        return;
      }
    }
    log.warn('csr.pending', fields);
    this.#event('CertificateRequestPending', request.summary, `${reason}: ${text}`);
  }

  /** Reports a request that is not judged here. */
  leftToOthers(request: OtherRequest): void {
    const { name, username } = request;
    const message =
      `${JSON.stringify(username)} is not in approver.requesters, so it is left to kube-controller-manager or to a ` +
      `person, and nobody has decided it: see who asks, then "kubectl certificate approve ${shellWord(name)}" or deny`;
    this.#options.log.warn('csr.pending', { csr: name, reason: 'RequesterUnknown', message });
    this.#event('CertificateRequestPending', request, `RequesterUnknown: ${message}`);
  }

  failed(request: Reported, err: unknown, attempt: number): void {
    const code = err instanceof RecoveryError ? err.code : 'unknown';
    this.#options.metrics?.failed('approver', code);
    const fields = { csr: request.summary.name, err: errorText(err), code, attempt };
    if (isNews(request, `failed ${code}`)) this.#options.log.warn('csr.failed', fields);
    else this.#options.log.debug('csr.failed', fields);
  }

  #counted(): string {
    return [...(this.#flood?.left ?? [])].map(([reason, count]) => `${reason} ${count}`).join(', ') || 'none';
  }

  #event(reason: EventReason, { name, uid }: Pick<RequestSummary, 'name' | 'uid'>, note: string): void {
    if (this.#options.dryRun) return;
    const regarding = { kind: 'CertificateSigningRequest', name, ...(uid !== undefined && { uid }) } as const;
    const type = reason === 'CertificateRequestApproved' ? 'Normal' : 'Warning';
    this.#options.events?.record({ type, reason, regarding, note });
  }
}

function isNews({ reported }: Reported, what: string): boolean {
  if (reported.has(what)) return false;
  reported.add(what);
  return true;
}
