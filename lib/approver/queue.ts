// Requests that wait for a decision: gathers facts, judges, and approves or reports the reason (reporter.ts). Between
// two passes only summaries are in memory: 100 requests may be 150 MB, and there may be any number.
import { backoffMs } from '../retry.ts';
import { steadyMs } from '../clock.ts';
import { errorText, faultText } from '../errors.ts';
import { approve } from './approve.ts';
import { readRequest } from './node-facts.ts';
import type { ApprovalVerdict } from './judge.ts';
import type { ApproverOptions } from './settings.ts';
import { OtherRequesters } from './other-requesters.ts';
import { isDecided, judgeSize, requestedAt, type SigningRequest } from './request.ts';
import type { Approve, SignerPolicy } from './signer-policy.ts';
import { signerName } from '../well-known.ts';
import { Reporter } from './reporter.ts';
import {
  batchEveryMs,
  byNode,
  lanes,
  mostAtOnce,
  nextBatch,
  Pressure,
  type RequestSummary,
  requestSummary,
} from './batch.ts';
import { type NamedRequest, rowOf, type UnreadRequest, UnreadRequests, unreadSummary } from './unread.ts';
import { type Waiting, WaitingRequests } from './waiting.ts';

const firstRetryMs = 100;
const longestRetryMs = 10_000;

export interface PassReport {
  readonly approved: number;
  /** Requests still undecided. */
  readonly left: number;
  /** Undecided requests never judged, not in this batch either. */
  readonly delayed: number;
  /** Undecided requests whose nodes are being watched. */
  readonly watched: number;
  /** Errors of the last judgement of each undecided request. */
  readonly failed: readonly string[];
  /** Every look of the last round has failed: the fault is not of one request. */
  readonly isFailing: boolean;
}

export class RequestQueue {
  readonly #options: ApproverOptions;
  readonly #policies: ReadonlyMap<string, SignerPolicy>;
  readonly #reporter: Reporter;
  readonly #others = new OtherRequesters();
  readonly #waiting: WaitingRequests;
  readonly #unread: UnreadRequests;
  readonly #pressure = new Pressure();
  /** Uptime at which the next round begins under a flood. */
  #nextBatchAt = 0;
  #failedLooks = 0;
  #isFailing = false;

  constructor(options: ApproverOptions, policies: readonly SignerPolicy[]) {
    this.#options = options;
    this.#policies = new Map(policies.map((policy) => [policy.signer, policy]));
    this.#reporter = new Reporter(options);
    this.#waiting = new WaitingRequests(options.nodeName);
    this.#unread = new UnreadRequests(options);
  }

  /** Takes note of any request, and returns the fields to keep; undefined: it does not wait for a decision here. */
  summary(request: SigningRequest): RequestSummary | undefined {
    try {
      const policy = this.#policies.get(request.spec.signerName);
      if (policy === undefined) return undefined;
      policy.see(request);
      if (this.#reporter.refusesName(nameOf(request) ?? '')) return undefined;
      if (policy.concerns(request)) return isDecided(request) ? undefined : requestSummary(request, policy);
      this.#others.see(request, this.#nowMs());
      return undefined;
    } catch (err) {
      // A malformed object must not break the list or the watch that brings the other requests.
      const csr = nameOf(request) ?? '';
      this.#options.log.warn('csr.failed', { csr, code: 'unexpected', err: faultText(err) });
      return undefined;
    }
  }

  /** Summary to keep of a request in a list. */
  listed(request: SigningRequest): RequestSummary | undefined {
    const summary = this.summary(request);
    return summary && this.#waiting.found(summary);
  }

  /** Replaces all requests that wait for one signer. */
  replace(signer: string, summaries: readonly RequestSummary[]): void {
    this.#unread.clear(signer);
    this.#waiting.replace(signer, summaries);
  }

  /** Takes note of an event for one signer: of a row, or of a request from a server that sends no rows. */
  heard(signer: string, type: 'ADDED' | 'MODIFIED' | 'DELETED', object: unknown): void {
    try {
      const row = rowOf(object);
      if (this.#reporter.refusesName(row?.name ?? '')) return;
      if (type === 'DELETED') return this.remove(row?.name ?? nameOf(object as SigningRequest) ?? '');
      if (row === undefined) return this.put(object as SigningRequest);
      const one = { ...row, signer, heardAt: this.#options.clock.now(), isChanged: type === 'MODIFIED' };
      if (!this.#unread.add(one)) this.#waiting.leaveOut();
    } catch (err) {
      this.#options.log.warn('csr.failed', { csr: '', code: 'unexpected', err: faultText(err) });
    }
  }

  /** Whether a change of a request for this signer was heard of and has not been read yet. */
  isBehind(signer: string): boolean {
    return this.#unread.hasChanged(signer);
  }

  put(request: SigningRequest): void {
    const summary = this.summary(request);
    if (summary === undefined) this.#waiting.delete(nameOf(request) ?? '');
    else this.#waiting.put(summary);
  }

  /** Lists forgotten requests, once there is room for them. Never rejects. */
  recall(listAll: () => Promise<readonly RequestSummary[]>): Promise<void> {
    return this.#waiting.recall(listAll);
  }

  remove(name: string): void {
    this.#unread.delete(name);
    this.#waiting.delete(name);
    this.#others.remove(name);
  }

  /** Marks the left requests of a signer as due after its address data changed; settled ones stay settled. */
  lookAgain(signer: string): void {
    for (const waiting of this.#waiting.all()) {
      if (waiting.summary.signer === signer && waiting.lookAt !== undefined) waiting.lookAt = 0;
    }
  }

  /** Milliseconds until the next request is due; undefined: none waits. */
  dueInMs(): number | undefined {
    const nowMs = this.#nowMs();
    let soonest = Infinity;
    for (const waiting of this.#waiting.all()) soonest = Math.min(soonest, dueAt(waiting));
    const batchMs = Math.max(soonest, this.#nextBatchAt) - nowMs;
    const dueMs = Math.min(batchMs, this.#others.dueInMs(nowMs) ?? Infinity, this.#unread.dueInMs() ?? Infinity);
    return dueMs === Infinity ? undefined : Math.max(dueMs, 0);
  }

  /** Reads what the watch has named, and judges the requests that are due, one batch at most. Never rejects. */
  async pass(): Promise<PassReport> {
    await this.#unread.read((one, found) => this.#take(one, found));
    const nowMs = this.#nowMs();
    const due = this.#waiting.all().filter((waiting) => dueAt(waiting) <= nowMs);
    const isBatchDue = this.#nextBatchAt <= nowMs;
    const batch = isBatchDue ? nextBatch(due, this.#waiting.nodes) : [];
    if (isBatchDue) this.#pace(due, batch, nowMs);
    const delayed = due.filter(isNew).length - batch.filter(isNew).length;
    let approved = 0;
    this.#failedLooks = 0;
    for (const policy of this.#policies.values()) policy.begin?.();
    for (const request of this.#others.due(nowMs)) this.#reporter.leftToOthers(request);
    const groups = byNode(batch).values();
    const lane = async (): Promise<void> => {
      for (const group of groups) for (const waiting of group) if (await this.#look(waiting)) approved += 1;
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    if (batch.length > 0) this.#isFailing = this.#failedLooks === batch.length;
    const left = this.#waiting.all();
    const failed = [...this.#unread.failed, ...left.flatMap(({ failure }) => failure ?? [])];
    const watched = left.filter(({ isWatched }) => isWatched === true).length;
    const labels = left.map(({ summary, reason = 'Undecided' }) => ({ signer: signerName(summary.signer), reason }));
    const kinds = [...Map.groupBy(labels, ({ signer, reason }) => `${signer} ${reason}`).values()];
    this.#options.metrics?.set(
      'kube_cert_recovery_requests_pending',
      kinds.flatMap(([one, ...others]) => (one === undefined ? [] : [[one, others.length + 1] as const])),
    );
    return { approved, left: left.length, delayed, watched, failed, isFailing: this.#isFailing };
  }

  #take(one: UnreadRequest, found: NamedRequest): void {
    if (found === undefined) this.#waiting.delete(one.name);
    else if (typeof found === 'object') this.put(found);
    else this.#waiting.put(unreadSummary(one, found === 'tooLarge' ? Infinity : 0));
  }

  /** Whether the request has been approved. Never rejects. */
  async #look(waiting: Waiting): Promise<boolean> {
    const { signal } = this.#options;
    if (signal.aborted) return false;
    try {
      return await this.#decide(waiting);
    } catch (err) {
      if (!signal.aborted) this.#failed(waiting, err);
      return false;
    }
  }

  #pace(due: readonly Waiting[], batch: readonly Waiting[], nowMs: number): void {
    this.#pressure.note(batch.filter(isNew).length, nowMs);
    const isFlood = due.length > mostAtOnce || this.#pressure.isHigh(nowMs);
    this.#nextBatchAt = isFlood ? nowMs + batchEveryMs : 0;
    this.#reporter.flooded(isFlood ? this.#waiting.size : undefined, due.at(-1)?.summary);
  }

  /** Uptime. */
  #nowMs(): number {
    return steadyMs(this.#options.clock);
  }

  /** Whether the request has been approved. */
  async #decide(waiting: Waiting): Promise<boolean> {
    const { recheckMs } = this.#options;
    const tooLarge = judgeSize(waiting.summary.size);
    if (tooLarge !== undefined) {
      this.#left(waiting, tooLarge);
      return false;
    }
    const request = await this.#readAgain(waiting);
    if (request === undefined) return false;
    const policy = this.#policies.get(request.spec.signerName);
    if (policy === undefined) return false;
    const verdict = await policy.judge(request);
    waiting.failures = 0;
    waiting.failure = undefined;
    this.#waiting.learn(verdict);
    const lookAgainMs = verdict.action === 'leave' ? verdict.lookAgainMs : undefined;
    waiting.isWatched = lookAgainMs !== undefined;
    waiting.lookAt = this.#nowMs() + Math.min(lookAgainMs ?? recheckMs, recheckMs);
    if (verdict.action === 'approve') return this.#approve(waiting, request, verdict, policy);
    if (verdict.action === 'leave') this.#left(waiting, verdict);
    return false;
  }

  /** Undefined when it does not wait any more, or is another object: then the queue has been updated. */
  async #readAgain(waiting: Waiting): Promise<SigningRequest | undefined> {
    const { name, uid } = waiting.summary;
    const request = await readRequest(waiting.summary, this.#options);
    if (this.#waiting.get(name) !== waiting) return undefined; // the watch was faster: the next pass judges
    if (request === undefined) this.#waiting.delete(name);
    else if (request.metadata.uid === uid && !isDecided(request)) return request;
    else this.put(request); // a decision by another client counts for the next request of the same node
    return undefined;
  }

  async #approve(waiting: Waiting, request: SigningRequest, verdict: Approve, policy: SignerPolicy): Promise<boolean> {
    const { connection, clock, signal, dryRun } = this.#options;
    const now = clock.now();
    const { node, message } = verdict;
    if (dryRun) {
      this.#reporter.wouldApprove(waiting, node, message);
    } else if ((await policy.note?.(request, verdict, now)) === 'conflict') {
      waiting.lookAt = this.#nowMs() + firstRetryMs;
      return false;
    } else if ((await approve({ connection, request, message, now, signal })) === 'conflict') {
      this.#options.metrics?.wrote('approver', 'conflict');
      waiting.lookAt = this.#nowMs() + longestRetryMs;
      // A decision by another client counts before the next request of the same node is judged in this batch.
      await this.#readAgain(waiting);
      return false;
    } else {
      this.#waiting.delete(request.metadata.name);
      this.#options.metrics?.wrote('approver', 'written');
      this.#options.metrics?.approved(
        signerName(policy.signer),
        (now.getTime() - requestedAt(request).getTime()) / 1000,
      );
      this.#reporter.approved(waiting, node, message);
    }
    policy.approved?.(node, request, now);
    return !dryRun;
  }

  #left(waiting: Waiting, verdict: Extract<ApprovalVerdict, { action: 'leave' }>): void {
    // A verdict without a node means an unsuitable spec, which never changes.
    waiting.isSettled = verdict.node === undefined;
    waiting.reason = verdict.reason;
    this.#reporter.left(waiting, verdict);
  }

  #failed(waiting: Waiting, err: unknown): void {
    const { name } = waiting.summary;
    this.#failedLooks += 1;
    waiting.failures += 1;
    waiting.isWatched = false;
    const delay = { firstMs: firstRetryMs, longestMs: longestRetryMs, random: Math.random };
    waiting.lookAt = this.#nowMs() + backoffMs(waiting.failures, delay);
    this.#reporter.failed(waiting, err, waiting.failures);
    waiting.failure = `CertificateSigningRequest "${name}": ${errorText(err)}`;
  }
}

const dueAt = ({ lookAt = 0, isSettled = false }: Waiting): number => (isSettled ? Infinity : lookAt);
const isNew = ({ lookAt }: Waiting): boolean => lookAt === undefined;

/** Name of an object that the API server lists as a request, and may be anything. */
const nameOf = (request: Partial<SigningRequest> | null): string | undefined => request?.metadata?.name;
