// The requests that wait for a decision, and what is done about each: gather, judge, approve or say why not. The only place
// of the approver that logs. A reason is told once for each request, in the log and as an Event, not at every look.
// Between two looks only outlines are in memory: 100 requests may be 150 MB, and nobody knows how many there are.
import { errorText, RecoveryError } from '../errors.ts';
import { backoffMs } from '../kube/backoff.ts';
import type { EventReason } from '../kube/events.ts';
import type { LogFields } from '../log.ts';
import { judgeClock } from '../plan/clock-rules.ts';
import type { ClockFacts } from '../plan/plan-types.ts';
import { approve } from './approve.ts';
import { contentOf, gatherNode, readRequest } from './gather.ts';
import { judge, type Judgement, type NodeFacts, type Verdict } from './judge.ts';
import type { ApproverOptions } from './options.ts';
import { Records } from './records.ts';
import { isAskedBy, isDecided, type Outline, outlineOf, type SigningRequest } from './request.ts';
import { judgeShape, judgeSize } from './shape.ts';
import { mostAtOnce, nextTurn, turnMs } from './turn.ts';

const firstRetryMs = 100;
const longestRetryMs = 10_000;
const longestMessage = 600;

interface Waiting {
  outline: Outline;
  /** Milliseconds since the epoch; undefined: it was never looked at. */
  lookAt?: number;
  failures: number;
  /** What the last look met; undefined: it was not kept from deciding. */
  failure?: string;
  /** What is wrong with it can never change: no further look. */
  isSettled?: boolean;
  /** What has been told of it. */
  readonly told: Set<string>;
}

export interface PassReport {
  readonly approved: number;
  /** Left as they are. */
  readonly left: number;
  /** Of these: never looked at, and not in this turn either. */
  readonly delayed: number;
  /** What the last looks at those that are left met. */
  readonly failed: readonly string[];
}

export class Desk {
  readonly #options: ApproverOptions;
  readonly #records: Records;
  /** By name. */
  #waiting = new Map<string, Waiting>();
  /** More are due than one turn takes: when the next begins, in milliseconds since the epoch. */
  #nextTurnAt = 0;

  constructor(options: ApproverOptions) {
    this.#options = options;
    this.#records = new Records(options.requester);
  }

  /** Takes note of any request, and says what to keep of it; undefined: it does not wait for a decision here. */
  outline(request: SigningRequest): Outline | undefined {
    this.#records.see(request);
    return isDecided(request) || !isAskedBy(request, this.#options.requester) ? undefined : outlineOf(request);
  }

  /** All that wait. */
  replace(outlines: readonly Outline[]): void {
    const before = this.#waiting;
    this.#waiting = new Map(outlines.map((outline) => [outline.name, waitingOf(outline, before.get(outline.name))]));
  }

  put(request: SigningRequest): void {
    const { name } = request.metadata;
    const outline = this.outline(request);
    if (outline === undefined) this.#waiting.delete(name);
    else this.#waiting.set(name, waitingOf(outline, this.#waiting.get(name)));
  }

  remove({ metadata }: SigningRequest): void {
    this.#waiting.delete(metadata.name);
  }

  /** When the next look is due, in milliseconds from now; undefined: nothing waits for one. */
  dueInMs(): number | undefined {
    const now = this.#options.clock.now().getTime();
    let soonest = Infinity;
    for (const waiting of this.#waiting.values()) soonest = Math.min(soonest, this.#untilDue(waiting, now));
    return soonest === Infinity ? undefined : Math.max(soonest, this.#untilNextTurn(now));
  }

  /** Looks at the requests that are due, at so many in one turn. Never rejects. */
  async pass(): Promise<PassReport> {
    const { clock, signal } = this.#options;
    const now = clock.now().getTime();
    const due = [...this.#waiting.values()].filter((waiting) => this.#untilDue(waiting, now) === 0);
    const isTurn = this.#untilNextTurn(now) === 0;
    const turn = isTurn ? nextTurn(due) : [];
    if (isTurn) this.#pace(due.length, now);
    const isNew = ({ lookAt }: Waiting): boolean => lookAt === undefined;
    const delayed = due.filter(isNew).length - turn.filter(isNew).length;
    let approved = 0;
    for (const waiting of turn) {
      if (signal.aborted) break;
      try {
        if (await this.#decide(waiting)) approved += 1;
      } catch (err) {
        if (signal.aborted) break;
        this.#failed(waiting, err);
      }
    }
    const failed = [...this.#waiting.values()].flatMap(({ failure }) => failure ?? []);
    return { approved, left: this.#waiting.size, delayed, failed };
  }

  #pace(count: number, now: number): void {
    const wasPaced = this.#nextTurnAt > 0;
    this.#nextTurnAt = count > mostAtOnce ? now + turnMs : 0;
    if (count <= mostAtOnce || wasPaced) return;
    const pace = `${mostAtOnce} are looked at every ${turnMs / 1000} s, the newest first`;
    this.#options.log.warn('csr.flooded', { count, message: `${pace}; deny or delete what nobody needs` });
  }

  #untilNextTurn(now: number): number {
    return untilMs(this.#nextTurnAt, now, turnMs);
  }

  #untilDue({ lookAt = 0, isSettled = false }: Waiting, now: number): number {
    return isSettled ? Infinity : untilMs(lookAt, now, Math.max(this.#options.recheckMs, longestRetryMs));
  }

  /** Whether it has been approved. */
  async #decide(waiting: Waiting): Promise<boolean> {
    const { clock, recheckMs } = this.#options;
    const { name, uid, size } = waiting.outline;
    const tooLarge = judgeSize(size);
    if (tooLarge !== undefined) {
      this.#left(waiting, { action: 'leave', ...tooLarge });
      return false;
    }
    const request = await readRequest(name, this.#options);
    if (this.#waiting.get(name) !== waiting) return false; // the watch was faster, and the next pass sees what it told
    if (request === undefined) {
      this.#waiting.delete(name);
      return false;
    }
    if (request.metadata.uid !== uid || isDecided(request)) {
      this.put(request); // a decision of somebody else counts for the next request of the same node
      return false;
    }
    const verdict = await this.#judge(request);
    waiting.failures = 0;
    delete waiting.failure;
    waiting.lookAt = clock.now().getTime() + recheckMs;
    if (verdict.action === 'approve') return this.#approve(waiting, request, verdict);
    if (verdict.action === 'leave') this.#left(waiting, verdict);
    return false;
  }

  async #judge(request: SigningRequest): Promise<Verdict> {
    const { requester, connection, longestLifeMs, clock, signal } = this.#options;
    const content = contentOf(request);
    const shape = judgeShape(request, content, requester);
    const gathering = { ...this.#options, connection, records: this.#records, signal };
    const facts: NodeFacts | undefined =
      shape.kind === 'suitable' ? await gatherNode(shape.node, gathering) : undefined;
    const now = clock.now();
    const judgement: Omit<Judgement, 'clock'> = { request, content, requester, facts, longestLifeMs, now };
    return judge({ ...judgement, clock: await this.#clockFacts(now) });
  }

  /** Whether the clock is synchronised is asked thoroughly, which takes a process, only where it matters. */
  async #clockFacts(now: Date): Promise<ClockFacts> {
    const { clockFacts } = this.#options;
    const clock = await clockFacts(false);
    const isDoubted = judgeClock({ resolved: { name: '', artefacts: [] }, facts: new Map(), clock, now }) !== undefined;
    return isDoubted && !clock.synchronised ? clockFacts(true) : clock;
  }

  async #approve(
    waiting: Waiting,
    request: SigningRequest,
    { node, message }: Extract<Verdict, { action: 'approve' }>,
  ): Promise<boolean> {
    const { connection, clock, signal, dryRun, log } = this.#options;
    const now = clock.now();
    if (dryRun) {
      const fields = { csr: request.metadata.name, node, message: `would be approved: ${message}` };
      if (isNews(waiting, 'dryRun')) log.info('csr.pending', { ...fields, reason: 'DryRun' });
    } else if ((await approve({ connection, request, message, now, signal })) === 'conflict') {
      await this.#lost(waiting, request);
      return false;
    } else {
      this.#waiting.delete(request.metadata.name);
      log.info('csr.approved', { csr: request.metadata.name, node, message });
      this.#tell('CertificateRequestApproved', waiting.outline, message);
    }
    // Before the watch tells of it: the next request of the same node may be the next to be judged.
    this.#records.approved(node, request, now);
    return !dryRun;
  }

  /** What somebody else has made of it counts before the next request of the same node is judged in this turn. */
  async #lost(waiting: Waiting, { metadata: { name } }: SigningRequest): Promise<void> {
    waiting.lookAt = this.#options.clock.now().getTime() + longestRetryMs;
    const request = await readRequest(name, this.#options);
    if (this.#waiting.get(name) !== waiting) return;
    if (request === undefined) this.#waiting.delete(name);
    else this.put(request);
  }

  #left(waiting: Waiting, { node, reason, message }: Extract<Verdict, { action: 'leave' }>): void {
    // Without a node it is the spec that is unsuitable, which never changes.
    waiting.isSettled = node === undefined;
    if (!isNews(waiting, reason)) return;
    const text = message.length > longestMessage ? `${message.slice(0, longestMessage)}...` : message;
    const fields: LogFields = {
      csr: waiting.outline.name,
      ...(node !== undefined && { node }),
      reason,
      message: text,
    };
    this.#options.log.warn('csr.pending', fields);
    this.#tell('CertificateRequestPending', waiting.outline, `${reason}: ${text}`);
  }

  #tell(reason: EventReason, { name, uid }: Outline, note: string): void {
    if (this.#options.dryRun) return;
    const regarding = { kind: 'CertificateSigningRequest', name, ...(uid !== undefined && { uid }) } as const;
    const type = reason === 'CertificateRequestApproved' ? 'Normal' : 'Warning';
    this.#options.events?.record({ type, reason, regarding, note });
  }

  #failed(waiting: Waiting, err: unknown): void {
    const { clock, log, random = Math.random } = this.#options;
    const { name } = waiting.outline;
    waiting.failures += 1;
    const delay = { firstMs: firstRetryMs, longestMs: longestRetryMs, random };
    waiting.lookAt = clock.now().getTime() + backoffMs(waiting.failures, delay);
    const code = err instanceof RecoveryError ? err.code : 'unknown';
    const fields = { csr: name, err: errorText(err), code, attempt: waiting.failures };
    if (isNews(waiting, `failed ${code}`)) log.warn('csr.failed', fields);
    else log.debug('csr.failed', fields);
    waiting.failure = `CertificateSigningRequest "${name}": ${errorText(err)}`;
  }
}

/** What is known of the same request stays known: its spec never changes, and a watch that fails lists anew. */
function waitingOf(outline: Outline, before: Waiting | undefined): Waiting {
  if (before !== undefined && before.outline.uid === outline.uid) return Object.assign(before, { outline });
  return { outline, failures: 0, told: new Set() };
}

/** More than `longestMs` was never asked for: then the clock has been set back. */
function untilMs(at: number, now: number, longestMs: number): number {
  const ms = at - now;
  return ms > longestMs ? 0 : Math.max(0, ms);
}

function isNews({ told }: Waiting, what: string): boolean {
  if (told.has(what)) return false;
  told.add(what);
  return true;
}
