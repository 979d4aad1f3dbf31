// Waiting requests by name, and the nodes known to exist: the input of the rounds of batch.ts. Under a flood that goes
// on for hours, as many are remembered as memory allows; the rest are found again by a list.
import { mostAtOnce, mostRemembered, type Nodes, type RequestSummary, toForget } from './batch.ts';
import type { PendingReason } from './judge.ts';
import type { Reported } from './reporter.ts';
import type { Judged } from './signer-policy.ts';

export interface Waiting extends Reported {
  summary: RequestSummary;
  /** Milliseconds of uptime, so that no change of the clock delays a judgement; undefined: never judged. */
  lookAt?: number;
  failures: number;
  /** Error of the last judgement; undefined: none. */
  failure?: string | undefined;
  /** The problem can never change: no further judgement. */
  isSettled?: boolean;
  /** Whether its node is being watched before the decision. */
  isWatched?: boolean;
  /** Why it was left at the last judgement; undefined: it has not been judged. */
  reason?: PendingReason;
}

export class WaitingRequests {
  readonly #ownNode: string;
  /** Nodes that a judgement has found to exist: as many as the cluster has, at most. */
  readonly #known = new Set<string>();
  #byName = new Map<string, Waiting>();
  /** Requests found by a list still in progress. */
  #found = 0;
  /** Some waiting requests are not remembered. */
  #hasForgotten = false;

  constructor(ownNode: string) {
    this.#ownNode = ownNode;
  }

  get nodes(): Nodes {
    return { own: this.#ownNode, known: this.#known };
  }

  get size(): number {
    return this.#byName.size;
  }

  all(): readonly Waiting[] {
    return [...this.#byName.values()];
  }

  get(name: string): Waiting | undefined {
    return this.#byName.get(name);
  }

  /** Summary to keep of a listed request. Beyond twice the number remembered: only requests of nodes known to exist. */
  found(summary: RequestSummary): RequestSummary | undefined {
    this.#found += 1;
    const { node = '' } = summary;
    if (this.#found <= 2 * mostRemembered || node === this.#ownNode || this.#known.has(node)) return summary;
    this.#hasForgotten = true;
    return undefined;
  }

  /** Notes that a waiting request is not remembered: a list finds it again once there is room. */
  leaveOut(): void {
    this.#hasForgotten = true;
  }

  /** Replaces all requests that wait for one signer. */
  replace(signer: string, summaries: readonly RequestSummary[]): void {
    const before = this.#byName;
    const others = [...before].filter(([, { summary }]) => summary.signer !== signer);
    const listed = summaries.map((summary) => [summary.name, waitingOf(summary, before.get(summary.name))] as const);
    this.#byName = new Map([...others, ...listed]);
    this.#found = 0;
    this.#forget();
  }

  /** Adds listed requests that the watch has not brought in the meantime. */
  #add(summaries: readonly RequestSummary[]): void {
    for (const summary of summaries) {
      if (!this.#byName.has(summary.name)) this.#byName.set(summary.name, waitingOf(summary, undefined));
    }
    this.#found = 0;
    this.#forget();
  }

  put(summary: RequestSummary): void {
    this.#byName.set(summary.name, waitingOf(summary, this.#byName.get(summary.name)));
    if (this.#byName.size > mostRemembered + mostAtOnce) this.#forget();
  }

  delete(name: string): void {
    this.#byName.delete(name);
  }

  /** Records whether the node that a verdict names has a Node, whatever the reason: a requester can name any node. */
  learn(verdict: Judged): void {
    if (verdict.action === 'ignore' || verdict.node === undefined) return;
    if (verdict.isKnown === true) this.#known.add(verdict.node);
    else this.#known.delete(verdict.node);
  }

  /** Lists forgotten requests, once half of the remembered ones have been decided. Never rejects. */
  async recall(listAll: () => Promise<readonly RequestSummary[]>): Promise<void> {
    if (!this.#hasForgotten || this.#byName.size > mostRemembered / 2) return;
    this.#hasForgotten = false;
    try {
      this.#add(await listAll());
    } catch {
      this.#hasForgotten = true; // the watch reports an API that is away
    }
  }

  #forget(): void {
    for (const { summary, isSettled } of toForget(this.all(), this.nodes)) {
      this.#byName.delete(summary.name);
      this.#hasForgotten ||= isSettled !== true; // settled ones need not be remembered
    }
  }
}

/** State of the same request is kept: its spec never changes, and a watch that fails lists again. */
function waitingOf(summary: RequestSummary, before: Waiting | undefined): Waiting {
  if (before !== undefined && before.summary.uid === summary.uid) return Object.assign(before, { summary });
  return { summary, failures: 0, reported: new Set() };
}
