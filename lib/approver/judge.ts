// Whether a kubelet's request for a new client certificate is approved. Pure: request, facts and the time are arguments.
//
// Whoever has the bootstrap token can ask in the name of any node. So a request is approved only with evidence that the
// certificate which the node has now can no longer be used; then nobody is impersonated who could still speak.
//
// - This machine's own node: its certificate on disk has ended, is gone or cannot be used. Each start of a kubelet asks
//   anew, so a further request is approved as long as that is so; but no request that is older than an approved one,
//   because a kubelet waits for its newest only.
// - Another node: the newest certificate that was seen to be issued to it has ended and it has not renewed its Lease
//   since; or all certificates have that it can have had at its last sign of life.
// - A node without a Node object: only where it is expected, and once.
//
// For another node, at most one request is approved for each certificate: none while an approved one waits for its
// certificate, and none in the minutes after that was issued. Later requests are judged by its end.
import { judgeClock } from '../plan/clock-rules.ts';
import type { ClockFacts } from '../plan/plan-types.ts';
import { durationText } from '../duration.ts';
import type { Requester } from '../bootstrap-identity.ts';
import { requestedAt, type SigningRequest } from './request.ts';
import { type Content, judgeShape, nodePrefix, type ShapeReason } from './shape.ts';

export type EvidenceReason =
  | 'AlreadyApproved'
  | 'CertificateMayBeValid'
  | 'CertificateOfOtherNode'
  | 'CertificateStillValid'
  | 'CertificateUnknown'
  | 'ClockImplausible'
  | 'NodeUnknown';

export type PendingReason = ShapeReason | EvidenceReason;

/** The certificate of the node on whose machine this runs. */
export type OwnCertificate =
  /** Not there, or nothing that a kubelet can use; `problem` says which. */
  | { readonly state: 'absent' | 'broken'; readonly problem: string }
  /** It could not be looked at: nothing may be concluded. */
  | { readonly state: 'unknown'; readonly problem: string }
  | { readonly state: 'present'; readonly path: string; readonly commonName: string; readonly notAfter: Date };

/** An approved request of a node: the newest that is known. */
export interface Approval {
  readonly uid: string | undefined;
  readonly at: Date;
  readonly requestedAt: Date;
  /** Its certificate has been issued. */
  readonly isIssued: boolean;
}

export interface NodeFacts {
  /** Undefined: it is another machine's node. */
  readonly own?: OwnCertificate;
  /** Undefined: there is no Node object. */
  readonly node?: { readonly createdAt: Date };
  /** When its Lease was renewed last; undefined where there is none. */
  readonly renewedAt?: Date;
  /** The end of the newest certificate that was seen to be issued to it. */
  readonly issuedUntil?: Date;
  readonly approval?: Approval;
  /** Whether a Node of this name is to come. */
  readonly isExpected: boolean;
}

export type Verdict =
  | { readonly action: 'ignore' }
  | { readonly action: 'approve'; readonly node: string; readonly message: string }
  | { readonly action: 'leave'; readonly node?: string; readonly reason: PendingReason; readonly message: string };

export interface Judgement {
  readonly request: SigningRequest;
  readonly content: Content;
  readonly requester: Requester;
  /** Of the node that the request names; undefined: the caller has not asked yet, because its shape decides. */
  readonly facts: NodeFacts | undefined;
  /** The longest that a client certificate of a kubelet lives here. */
  readonly longestLifeMs: number;
  readonly clock: ClockFacts;
  readonly now: Date;
}

/** A kubelet has its certificate a second after it is issued; a second start within this time asks for the same. */
const recentMs = 10 * 60_000;
/** kube-controller-manager removes what is approved and not signed after an hour (pkg/controller/certificates/cleaner). */
const answerMs = 3_600_000;

/** A Lease bears the time of its node's clock. */
const skewMs = 60_000;

type Evidence = { readonly proves: string } | { readonly reason: EvidenceReason; readonly message: string };

export function judge(judgement: Judgement): Verdict {
  const { request, content, requester, facts, clock, now } = judgement;
  const shape = judgeShape(request, content, requester);
  if (shape.kind === 'ignored') return { action: 'ignore' };
  if (shape.kind === 'unsuitable') return { action: 'leave', reason: shape.reason, message: shape.message };
  const { node } = shape;
  if (facts === undefined) throw new RangeError(`no facts about node ${node}`);
  const evidence =
    facts.own === undefined ? evidenceOfOther(facts, judgement) : evidenceOfOwn(node, facts.own, judgement);
  if ('reason' in evidence) return { action: 'leave', node, ...evidence };
  // Every end is in the past on a clock that is ahead. What an inventory's certificates say of it is regen's to judge.
  const implausible = judgeClock({ resolved: { name: '', artefacts: [] }, facts: new Map(), clock, now });
  if (implausible !== undefined)
    return { action: 'leave', node, reason: 'ClockImplausible', message: implausible.message };
  return { action: 'approve', node, message: evidence.proves };
}

function evidenceOfOwn(node: string, own: OwnCertificate, { facts, request, now }: Judgement): Evidence {
  if (own.state === 'unknown') return { reason: 'CertificateUnknown', message: own.problem };
  if (own.state === 'present') {
    const { path, commonName, notAfter } = own;
    if (commonName !== `${nodePrefix}${node}`) {
      const message = `"${path}" on this machine is the certificate of ${JSON.stringify(commonName)}; set NODE_NAME to this machine's node`;
      return { reason: 'CertificateOfOtherNode', message };
    }
    if (notAfter > now) {
      const message = `the node's certificate "${path}" is valid until ${notAfter.toISOString()}`;
      return { reason: 'CertificateStillValid', message };
    }
  }
  const approval = otherApproval(facts, request);
  if (approval !== undefined && requestedAt(request) < approval.requestedAt) {
    return {
      reason: 'AlreadyApproved',
      message: 'a later request of this node was approved, and a kubelet waits for its last',
    };
  }
  if (own.state !== 'present') return { proves: own.problem };
  return { proves: `the node's certificate "${own.path}" ended at ${own.notAfter.toISOString()}` };
}

function evidenceOfOther(facts: NodeFacts, judgement: Judgement): Evidence {
  const { request, now } = judgement;
  const { node, issuedUntil, isExpected } = facts;
  const approval = otherApproval(facts, request);
  const sinceMs = approval === undefined ? Infinity : now.getTime() - approval.at.getTime();
  const isValid = issuedUntil !== undefined && issuedUntil > now;
  if (approval?.isIssued === false ? sinceMs < answerMs : isValid && sinceMs < recentMs) {
    const message = `a request of this node was approved at ${approval?.at.toISOString()}; approve this one by hand if its kubelet has lost that certificate`;
    return { reason: 'AlreadyApproved', message };
  }
  if (node !== undefined) return evidenceOfKnown({ ...facts, node }, judgement);
  if (isValid) {
    const message = `a certificate valid until ${issuedUntil.toISOString()} was issued to this name, which has no Node`;
    return { reason: 'AlreadyApproved', message };
  }
  if (isExpected) return { proves: 'there is no Node of this name, and approver.expectedNodes lists it' };
  const message =
    'there is no Node of this name; if it is a new machine, list it in approver.expectedNodes or approve by hand';
  return { reason: 'NodeUnknown', message };
}

type KnownNode = NodeFacts & Required<Pick<NodeFacts, 'node'>>;

function evidenceOfKnown({ node, renewedAt, issuedUntil }: KnownNode, { longestLifeMs, now }: Judgement): Evidence {
  // What renewed its Lease after the end of that certificate has got another one, which was not seen.
  const isNewest =
    issuedUntil !== undefined && (renewedAt === undefined || renewedAt.getTime() <= issuedUntil.getTime() + skewMs);
  if (isNewest) {
    const until = issuedUntil.toISOString();
    if (issuedUntil <= now) return { proves: `the last certificate issued to the node ended at ${until}` };
    return {
      reason: 'CertificateMayBeValid',
      message: `the last certificate issued to the node is valid until ${until}`,
    };
  }
  const isRenewal = renewedAt !== undefined && !(renewedAt < node.createdAt);
  const [alive, sign] = isRenewal ? [renewedAt, 'last renewed its Lease'] : [node.createdAt, 'was registered'];
  const end = new Date(alive.getTime() + longestLifeMs);
  const sentence = `the node ${sign} at ${alive.toISOString()}, and certificates live up to ${durationText(longestLifeMs)}`;
  if (end <= now) return { proves: sentence };
  const message = `${sentence} (approver.longestLife): what it had then may be valid until ${end.toISOString()}; approve by hand if it is not`;
  return { reason: 'CertificateMayBeValid', message };
}

/** An approval of the very same request is no second one. */
function otherApproval(facts: NodeFacts | undefined, { metadata }: SigningRequest): Approval | undefined {
  const approval = facts?.approval;
  return approval === undefined || approval.uid === metadata.uid ? undefined : approval;
}
