// The requests that wait for a decision, and what is done about each: gather, judge, approve or say why not (reporter.ts).
// Between two looks only summaries are in memory: 100 requests may be 150 MB, and there may be any number.
import { backoffMs } from '../retry.ts';
import { steadyMs } from '../clock.ts';
import { errorText, faultText } from '../errors.ts';
import { approve } from './approve.ts';
import { readRequest } from './node-facts.ts';
import type { ApprovalVerdict, PendingReason } from './judge.ts';
import type { ApproverOptions } from './settings.ts';
import { OtherRequesters } from './other-requesters.ts';
import { isDecided, judgeSize, requestedAt, type SigningRequest } from './request.ts';
import type { Approve, SignerPolicy } from './signer-policy.ts';
import { signerName } from '../well-known.ts';
import { Reporter, type Reported } from './reporter.ts';
import { batchEveryMs, mostAtOnce, nextBatch, type RequestSummary, requestSummary } from './batch.ts';

const firstRetryMs = 100;
const longestRetryMs = 10_000;

interface Waiting extends Reported {
  summary: RequestSummary;
  /** Milliseconds since the epoch; undefined: it was never looked at. */
  lookAt?: number;
  failures: number;
  /** What the last look met; undefined: it was not kept from deciding. */
  failure?: string | undefined;
  /** What is wrong with it can never change: no further look. */
  isSettled?: boolean;
  /** Its node is being watched before it is decided. */
  isWatched?: boolean;
  /** Why it was left at the last look; undefined: it has not been decided. */
  reason?: PendingReason;
}

export interface PassReport {
  readonly approved: number;
  /** Left as they are. */
  readonly left: number;
  /** Of these: never looked at, and not in this batch either. */
  readonly delayed: number;
  /** And of these: their nodes are being watched, before they are decided. */
  readonly watched: number;
  /** What the last looks at those that are left met. */
  readonly failed: readonly string[];
}

export class RequestQueue {
  readonly #options: ApproverOptions;
  /** By signer. */
  readonly #policies: ReadonlyMap<string, SignerPolicy>;
  readonly #reporter: Reporter;
  readonly #others = new OtherRequesters();
  /** By name. */
  #waiting = new Map<string, Waiting>();
  /** More are due than one batch takes: when the next is due, in milliseconds since the epoch. */
  #nextBatchAt = 0;

  constructor(options: ApproverOptions, policies: readonly SignerPolicy[]) {
    this.#options = options;
    this.#policies = new Map(policies.map((policy) => [policy.signer, policy]));
    this.#reporter = new Reporter(options);
  }

  /** Takes note of any request, and says what to keep of it; undefined: it does not wait for a decision here. */
  summary(request: SigningRequest): RequestSummary | undefined {
    try {
      const policy = this.#policies.get(request.spec.signerName);
      if (policy === undefined) return undefined;
      policy.see(request);
      if (policy.concerns(request)) return isDecided(request) ? undefined : requestSummary(request, policy);
      this.#others.see(request, steadyMs(this.#options.clock));
      return undefined;
    } catch (err) {
      // One that is no request must not end the list or the watch that brings the others.
      const csr = nameOf(request) ?? '';
      this.#options.log.warn('csr.failed', { csr, code: 'unexpected', err: faultText(err) });
      return undefined;
    }
  }

  /** All that wait for one signer. */
  replace(signer: string, summaries: readonly RequestSummary[]): void {
    const before = this.#waiting;
    const others = [...before].filter(([, { summary }]) => summary.signer !== signer);
    const listed = summaries.map((summary) => [summary.name, waitingOf(summary, before.get(summary.name))] as const);
    this.#waiting = new Map([...others, ...listed]);
  }

  put(request: SigningRequest): void {
    const name = nameOf(request) ?? '';
    const summary = this.summary(request);
    if (summary === undefined) this.#waiting.delete(name);
    else this.#waiting.set(name, waitingOf(summary, this.#waiting.get(name)));
  }

  remove(request: SigningRequest): void {
    const name = nameOf(request) ?? '';
    this.#waiting.delete(name);
    this.#others.remove(name);
  }

  /** What the rules of a signer go by has changed: what was left is due, except where nothing can change it. */
  lookAgain(signer: string): void {
    for (const waiting of this.#waiting.values()) {
      if (waiting.summary.signer === signer && waiting.lookAt !== undefined) waiting.lookAt = 0;
    }
  }

  /** When the next look is due, in milliseconds from now; undefined: nothing waits for one. */
  dueInMs(): number | undefined {
    const now = this.#options.clock.now().getTime();
    let soonest = Infinity;
    for (const waiting of this.#waiting.values()) soonest = Math.min(soonest, this.#untilDue(waiting, now));
    const othersMs = this.#others.dueInMs(steadyMs(this.#options.clock)) ?? Infinity;
    if (Math.min(soonest, othersMs) === Infinity) return undefined;
    return Math.min(Math.max(soonest, this.#untilNextBatch(now)), othersMs);
  }

  /** Looks at the requests that are due, one batch at most. Never rejects. */
  async pass(): Promise<PassReport> {
    const { clock, signal } = this.#options;
    const now = clock.now().getTime();
    const due = [...this.#waiting.values()].filter((waiting) => this.#untilDue(waiting, now) === 0);
    const isBatchDue = this.#untilNextBatch(now) === 0;
    const batch = isBatchDue ? nextBatch(due, this.#options.nodeName) : [];
    if (isBatchDue) this.#pace(due, now);
    const isNew = ({ lookAt }: Waiting): boolean => lookAt === undefined;
    const delayed = due.filter(isNew).length - batch.filter(isNew).length;
    let approved = 0;
    for (const policy of this.#policies.values()) policy.begin?.();
    for (const request of this.#others.due(steadyMs(clock))) this.#reporter.leftToOthers(request);
    for (const waiting of batch) {
      if (signal.aborted) break;
      try {
        if (await this.#decide(waiting)) approved += 1;
      } catch (err) {
        if (signal.aborted) break;
        this.#failed(waiting, err);
      }
    }
    const left = [...this.#waiting.values()];
    const failed = left.flatMap(({ failure }) => failure ?? []);
    const watched = left.filter(({ isWatched }) => isWatched === true).length;
    this.#options.metrics?.pending(
      left.map(({ summary, reason = 'Undecided' }) => ({ signer: signerName(summary.signer), reason })),
    );
    return { approved, left: left.length, delayed, watched, failed };
  }

  #pace(due: readonly Waiting[], now: number): void {
    const isFlood = due.length > mostAtOnce;
    const isRest = this.#nextBatchAt > 0; // the last hundred of a flood are still of it
    this.#nextBatchAt = isFlood ? now + batchEveryMs : 0;
    this.#reporter.flooded(isFlood || isRest ? due.length : undefined, due.at(-1)?.summary);
  }

  #untilNextBatch(now: number): number {
    return untilMs(this.#nextBatchAt, now, batchEveryMs);
  }

  #untilDue({ lookAt = 0, isSettled = false }: Waiting, now: number): number {
    return isSettled ? Infinity : untilMs(lookAt, now, Math.max(this.#options.recheckMs, longestRetryMs));
  }

  /** Whether it has been approved. */
  async #decide(waiting: Waiting): Promise<boolean> {
    const { clock, recheckMs } = this.#options;
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
    const lookAgainMs = verdict.action === 'leave' ? verdict.lookAgainMs : undefined;
    waiting.isWatched = lookAgainMs !== undefined;
    waiting.lookAt = clock.now().getTime() + Math.min(lookAgainMs ?? recheckMs, recheckMs);
    if (verdict.action === 'approve') return this.#approve(waiting, request, verdict, policy);
    if (verdict.action === 'leave') this.#left(waiting, verdict);
    return false;
  }

  /** Undefined when it does not wait any more, or is another: then that is known from here on. */
  async #readAgain(waiting: Waiting): Promise<SigningRequest | undefined> {
    const { name, uid } = waiting.summary;
    const request = await readRequest(waiting.summary, this.#options);
    if (this.#waiting.get(name) !== waiting) return undefined; // the watch was faster, and the next pass sees what it brought
    if (request === undefined) this.#waiting.delete(name);
    else if (request.metadata.uid === uid && !isDecided(request)) return request;
    else this.put(request); // a decision of another counts for the next request of the same node
    return undefined;
  }

  async #approve(waiting: Waiting, request: SigningRequest, verdict: Approve, policy: SignerPolicy): Promise<boolean> {
    const { connection, clock, signal, dryRun } = this.#options;
    const now = clock.now();
    const { node, message } = verdict;
    if (dryRun) {
      this.#reporter.wouldApprove(waiting, node, message);
    } else if ((await policy.note?.(request, verdict, now)) === 'conflict') {
      waiting.lookAt = now.getTime() + firstRetryMs;
      return false;
    } else if ((await approve({ connection, request, message, now, signal })) === 'conflict') {
      this.#options.metrics?.wrote('approver', 'conflict');
      waiting.lookAt = clock.now().getTime() + longestRetryMs;
      // What another has made of it counts before the next request of the same node is judged in this batch.
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
    // Without a node it is the spec that is unsuitable, which never changes.
    waiting.isSettled = verdict.node === undefined;
    waiting.reason = verdict.reason;
    this.#reporter.left(waiting, verdict);
  }

  #failed(waiting: Waiting, err: unknown): void {
    const { clock } = this.#options;
    const { name } = waiting.summary;
    waiting.failures += 1;
    waiting.isWatched = false;
    const delay = { firstMs: firstRetryMs, longestMs: longestRetryMs, random: Math.random };
    waiting.lookAt = clock.now().getTime() + backoffMs(waiting.failures, delay);
    this.#reporter.failed(waiting, err, waiting.failures);
    waiting.failure = `CertificateSigningRequest "${name}": ${errorText(err)}`;
  }
}

/** Of what the API server calls a request, and may be anything. */
const nameOf = (request: Partial<SigningRequest> | null): string | undefined => request?.metadata?.name;

/** What is known of the same request stays known: its spec never changes, and a watch that fails lists again. */
function waitingOf(summary: RequestSummary, before: Waiting | undefined): Waiting {
  if (before !== undefined && before.summary.uid === summary.uid) return Object.assign(before, { summary });
  return { summary, failures: 0, reported: new Set() };
}

/** More than `longestMs` was never asked for: then the clock has been set back. */
function untilMs(at: number, now: number, longestMs: number): number {
  const ms = at - now;
  return ms > longestMs ? 0 : Math.max(0, ms);
}
