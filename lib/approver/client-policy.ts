// Requests for kubelets' client certificates: gathers facts, applies the rules (client-request.ts, judge.ts), and
// records approvals and issued certificates.
import { kubeletClientSigner } from '../bootstrap-identity.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';
import type { Certificate } from '../pki/certificate.ts';
import { isCode } from '../errors.ts';
import { isApprovedHere } from './approve.ts';
import { readClientAuthorities } from './client-authorities.ts';
import { askedNode, judgeClientRequest, requesterIn } from './client-request.ts';
import { type FirstApproval, noteFirstApproval } from './first-approvals.ts';
import { IssuedCertificates, readIssued, type RecordedCertificate } from './issued-certificates.ts';
import { type ApprovalVerdict, judge } from './judge.ts';
import { contentOf, gatherNode } from './node-facts.ts';
import { isByPossession, shownCertificate } from './possession.ts';
import type { Noted } from './record-object.ts';
import { Records } from './records.ts';
import type { SigningRequest } from './request.ts';
import type { ApproverOptions } from './settings.ts';
import type { Approve, Judged, SignerPolicy } from './signer-policy.ts';

export class ClientPolicy implements SignerPolicy {
  readonly signer = kubeletClientSigner;
  readonly #options: ApproverOptions;
  readonly #records: Records;
  /** First approval of the node, as known when its request was judged. */
  readonly #first = new WeakMap<SigningRequest, FirstApproval | undefined>();
  /** Clock facts of the machine from the thorough check, once a pass. */
  #thorough: Promise<ClockFacts> | undefined;
  /** Data that the API has for all requests, read once a pass. */
  #authorities: Promise<readonly Certificate[]> | undefined;
  #recorded: ReturnType<typeof readIssued> | undefined;
  readonly #issued: IssuedCertificates;
  #noting: Promise<unknown> = Promise.resolve();

  constructor(options: ApproverOptions) {
    this.#options = options;
    this.#records = new Records(options.requesters, options.clock);
    this.#issued = new IssuedCertificates(options);
  }

  begin(): void {
    this.#thorough = undefined;
    this.#authorities = undefined;
    this.#recorded = undefined;
  }

  see(request: SigningRequest): void {
    const issued = this.#records.see(request);
    if (issued !== undefined) this.#issued.see(issued, isApprovedHere(request));
  }

  followed(): void {
    this.#records.followed();
  }

  remember(how: 'once' | 'follow'): Promise<void> {
    return how === 'once' ? this.#issued.write() : this.#issued.run();
  }

  concerns(request: SigningRequest): boolean {
    return requesterIn(request, this.#options.requesters) !== undefined;
  }

  nodeOf(request: SigningRequest): string | undefined {
    return askedNode(request);
  }

  async judge(request: SigningRequest): Promise<Judged> {
    const { requesters, longestLifeMs, clock, clockFacts } = this.#options;
    const requester = requesterIn(request, requesters);
    if (requester === undefined) return { action: 'ignore' };
    const shape = judgeClientRequest(request, () => contentOf(request), requester);
    if (shape.action !== 'judge') return shape;
    const { node, content } = shape;
    const gathered = await gatherNode(node, this.#records, this.#options);
    const byPossession = isByPossession(request, requester, gathered);
    // For this machine's own node its file is enough.
    const isRecordAsked = byPossession || gathered.own === undefined;
    const recorded = isRecordAsked ? await this.#recordedOf(node, byPossession) : undefined;
    const facts = { ...gathered, recorded };
    const possession = byPossession ? { content, authorities: await this.#authoritiesFor(request) } : undefined;
    this.#first.set(request, facts.first);
    const judgement = {
      request,
      node,
      facts,
      possession,
      longestLifeMs,
      bootedAt: this.#options.bootedAt(),
      now: clock.now(),
    };
    const isKnown = gathered.node !== undefined;
    const said = await clockFacts(false);
    const verdict = judge({ ...judgement, clock: said });
    if (said.synchronised || !isDoubted(verdict)) return { ...verdict, isKnown };
    // The thorough check of the clock is another process, which is started only where it matters.
    this.#thorough ??= clockFacts(true);
    return { ...judge({ ...judgement, clock: await this.#thorough }), isKnown };
  }

  /** Certificate on record. Without it other evidence still counts; possession proves nothing. */
  async #recordedOf(node: string, isNeeded: boolean): Promise<RecordedCertificate | undefined> {
    this.#recorded ??= readIssued(this.#options);
    try {
      return (await this.#recorded)(node);
    } catch (err) {
      if (!isNeeded && isCode(err, 'KubeNotFound', 'KubeForbidden')) return undefined;
      throw err;
    }
  }

  async #authoritiesFor(request: SigningRequest): Promise<readonly Certificate[]> {
    if (shownCertificate(request) === undefined) return [];
    this.#authorities ??= readClientAuthorities(this.#options);
    return this.#authorities;
  }

  async note(request: SigningRequest, { node, isFirst }: Approve, at: Date): Promise<Noted> {
    if (isFirst !== true) return 'noted';
    const { uid = '' } = request.metadata;
    const write = (): Promise<Noted> =>
      noteFirstApproval({ node, uid, at, seen: this.#first.get(request) }, this.#options);
    // One after the other: all are entries of one object, and a conflict must mean another process.
    const noting = this.#noting.then(write, write);
    this.#noting = noting.catch(() => undefined);
    return noting;
  }

  approved(node: string, request: SigningRequest, now: Date): void {
    this.#records.approved(node, request, now);
  }
}

const isDoubted = (verdict: ApprovalVerdict): boolean =>
  verdict.action === 'leave' && (verdict.reason === 'ClockImplausible' || verdict.reason === 'ClockUnconfirmed');
