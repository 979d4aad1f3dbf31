// The requests that wait for a decision, by name, and which nodes there are: what the rounds of batch.ts are made of. Of a
// flood that goes on for hours, as many are remembered as memory allows; the others are found again by a list.
import { mostAtOnce, mostRemembered, type Nodes, type RequestSummary, toForget } from './batch.ts';
import type { PendingReason } from './judge.ts';
import type { Reported } from './reporter.ts';
import type { Judged } from './signer-policy.ts';

export interface Waiting extends Reported {
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

export class WaitingRequests {
  readonly #ownNode: string;
  /** Nodes that a look has found to exist: as many as the cluster has, at most. */
  readonly #known = new Set<string>();
  #byName = new Map<string, Waiting>();
  /** How many a list that has not ended yet has found. */
  #found = 0;
  /** Some that wait are not remembered. */
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

  /** What to keep of one that a list has found. Beyond twice what is remembered: those of nodes that are known to exist. */
  found(summary: RequestSummary): RequestSummary | undefined {
    this.#found += 1;
    const { node = '' } = summary;
    if (this.#found <= 2 * mostRemembered || node === this.#ownNode || this.#known.has(node)) return summary;
    this.#hasForgotten = true;
    return undefined;
  }

  /** All that wait for one signer. */
  replace(signer: string, summaries: readonly RequestSummary[]): void {
    const before = this.#byName;
    const others = [...before].filter(([, { summary }]) => summary.signer !== signer);
    const listed = summaries.map((summary) => [summary.name, waitingOf(summary, before.get(summary.name))] as const);
    this.#byName = new Map([...others, ...listed]);
    this.#found = 0;
    this.#forget();
  }

  /** What a list has found besides what the watch has told meanwhile. */
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

  /** Of the node that a verdict names: whether there is a Node, not what its reason is. Who asks can name any. */
  learn(verdict: Judged): void {
    if (verdict.action === 'ignore' || verdict.node === undefined) return;
    if (verdict.isKnown === true) this.#known.add(verdict.node);
    else this.#known.delete(verdict.node);
  }

  /** Lists what was forgotten, once half of what is remembered has been decided. Never rejects. */
  async recall(listAll: () => Promise<readonly RequestSummary[]>): Promise<void> {
    if (!this.#hasForgotten || this.#byName.size > mostRemembered / 2) return;
    this.#hasForgotten = false;
    try {
      this.#add(await listAll());
    } catch {
      this.#hasForgotten = true; // the watch tells of an API that is away
    }
  }

  #forget(): void {
    for (const { summary, isSettled } of toForget(this.all(), this.nodes)) {
      this.#byName.delete(summary.name);
      this.#hasForgotten ||= isSettled !== true; // whether settled ones are there makes no difference
    }
  }
}

/** What is known of the same request stays known: its spec never changes, and a watch that fails lists again. */
function waitingOf(summary: RequestSummary, before: Waiting | undefined): Waiting {
  if (before !== undefined && before.summary.uid === summary.uid) return Object.assign(before, { summary });
  return { summary, failures: 0, reported: new Set() };
}
