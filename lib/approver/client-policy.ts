// Requests for kubelets' client certificates: facts gathered, rules applied (client-request.ts, judge.ts), and what must be
// remembered of them.
import { kubeletClientSigner } from '../bootstrap-identity.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';
import { askedNode, judgeClientRequest, requesterIn } from './client-request.ts';
import { type FirstApproval, noteFirstApproval } from './first-approvals.ts';
import { type ApprovalVerdict, judge } from './judge.ts';
import { contentOf, gatherNode } from './node-facts.ts';
import { Records } from './records.ts';
import type { SigningRequest } from './request.ts';
import type { ApproverOptions } from './settings.ts';
import type { Approve, Noted, SignerPolicy } from './signer-policy.ts';

export class ClientPolicy implements SignerPolicy {
  readonly signer = kubeletClientSigner;
  readonly #options: ApproverOptions;
  readonly #records: Records;
  /** What was known of the first approval of a node when its request was judged. */
  readonly #first = new WeakMap<SigningRequest, FirstApproval | undefined>();
  /** What the machine says of its clock when it is asked thoroughly, once a pass. */
  #thorough: Promise<ClockFacts> | undefined;

  constructor(options: ApproverOptions) {
    this.#options = options;
    this.#records = new Records(options.requesters, options.clock);
  }

  begin(): void {
    this.#thorough = undefined;
  }

  see(request: SigningRequest): void {
    this.#records.see(request);
  }

  concerns(request: SigningRequest): boolean {
    return requesterIn(request, this.#options.requesters) !== undefined;
  }

  nodeOf(request: SigningRequest): string | undefined {
    return askedNode(request);
  }

  async judge(request: SigningRequest): Promise<ApprovalVerdict> {
    const { requesters, longestLifeMs, clock, clockFacts } = this.#options;
    const requester = requesterIn(request, requesters);
    if (requester === undefined) return { action: 'ignore' };
    const shape = judgeClientRequest(request, contentOf(request), requester);
    if (shape.action !== 'judge') return shape;
    const { node } = shape;
    const facts = await gatherNode(node, this.#records, this.#options);
    this.#first.set(request, facts.first);
    const judgement = { request, node, facts, longestLifeMs, bootedAt: this.#options.bootedAt(), now: clock.now() };
    const said = await clockFacts(false);
    const verdict = judge({ ...judgement, clock: said });
    if (said.synchronised || !isDoubted(verdict)) return verdict;
    // What knows more of the clock is another process, which is started only where it matters.
    this.#thorough ??= clockFacts(true);
    return judge({ ...judgement, clock: await this.#thorough });
  }

  async note(request: SigningRequest, { node, isFirst }: Approve, at: Date): Promise<Noted> {
    if (isFirst !== true) return 'noted';
    const { uid = '' } = request.metadata;
    return noteFirstApproval({ node, uid, at, seen: this.#first.get(request) }, this.#options);
  }

  approved(node: string, request: SigningRequest, now: Date): void {
    this.#records.approved(node, request, now);
  }
}

const isDoubted = (verdict: ApprovalVerdict): boolean =>
  verdict.action === 'leave' && (verdict.reason === 'ClockImplausible' || verdict.reason === 'ClockUnconfirmed');
