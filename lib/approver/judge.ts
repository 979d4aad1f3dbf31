// Whether a kubelet's request for a new client certificate is approved. Pure: request, facts and the time are
// arguments.
//
// The holder of the bootstrap token can request in the name of any node. So a request is approved only with evidence
// that the node's current certificate can no longer be used; then no working node is impersonated.
//
// - This machine's own node: its certificate on disk has expired, is gone or cannot be used. Each start of a kubelet
//   requests again, so a further request is approved as long as that is so; but no request older than an approved
//   request, because a kubelet waits for its newest only.
// - Another node: the newest certificate that was seen to be issued to it has expired and it has not renewed its Lease
//   since; or every certificate that it can have had at its last sign of life has expired.
// - A node without a Node object: only where it is expected, and once.
// - Any node, where the request shows the expired certificate and has its key (possession.ts): what that proves. For
//   some requesters nothing less counts.
// - A node that has renewed its Lease or reported its status within the last minutes: never, whatever else is known.
//   A node of another machine is alive also when these change between observations, whatever the clocks show; and where
//   nothing confirms the clock, its certificate counts as expired only after the node was seen to be silent.
//
// For another node, at most one request is approved for each certificate: none while an approved request waits for its
// certificate, and none in the minutes after that was issued. Later requests are judged by its notAfter.
import { clockAdvice, isConfirmed, judgeClock, type ClockFacts } from '../plan/clock-rules.ts';
import { durationText } from '../duration.ts';
import type { Certificate } from '../pki/certificate.ts';
import { firstApprovalsName } from '../bootstrap-identity.ts';
import type { AddressReason } from './addresses.ts';
import { nodePrefix } from '../well-known.ts';
import type { Approval, KnownNode, NodeFacts, OwnCertificate } from './node-state.ts';
import { judgeShown, judgeSince, type Possession, type PossessionReason, shownCertificate } from './possession.ts';
import { isBefore, requestedAt, type ShapeReason, type SigningRequest } from './request.ts';
import { futureSign, lastSign, registered, signOfLife, skewMs, untilSilent } from './signs-of-life.ts';
import { wantedSilenceMs } from './silence.ts';

type EvidenceReason =
  | 'AlreadyApproved'
  | 'CertificateMayBeValid'
  | 'CertificateOfOtherNode'
  | 'CertificateStillValid'
  | 'CertificateUnknown'
  | 'ClockImplausible'
  | 'ClockUnconfirmed'
  | 'NodeAlive'
  | 'NodeUnknown';

export type PendingReason = ShapeReason | EvidenceReason | PossessionReason | AddressReason;

export type ApprovalVerdict =
  | { readonly action: 'ignore' }
  /** `isFirst`: approved on the expectation alone, so that its use must be recorded. */
  | { readonly action: 'approve'; readonly node: string; readonly message: string; readonly isFirst?: boolean }
  | {
      readonly action: 'leave';
      readonly node?: string;
      readonly reason: PendingReason;
      readonly message: string;
      /** The node is being watched: milliseconds until the next observation. */
      readonly lookAgainMs?: number;
    };

export interface Judgement {
  readonly request: SigningRequest;
  /** Node that the request names; the shape of the request is a kubelet's (request.ts). */
  readonly node: string;
  readonly facts: NodeFacts;
  /** The request is judged by the certificate that it shows (`isByPossession`), and by nothing less. */
  readonly possession?: Possession | undefined;
  /** The longest that a client certificate of a kubelet lives here. */
  readonly longestLifeMs: number;
  readonly clock: ClockFacts;
  /** Boot time of this machine; undefined: not known. */
  readonly bootedAt?: Date | undefined;
  readonly now: Date;
}

/** A kubelet has its certificate a second after it is issued; a second start within this time requests the same. */
const recentMs = 10 * 60_000;
/**
 * kube-controller-manager removes requests approved and not signed after an hour (pkg/controller/certificates/cleaner).
 */
const answerMs = 3_600_000;

interface Refusal {
  readonly reason: EvidenceReason | PossessionReason;
  readonly message: string;
}
type Evidence = { readonly proves: string; readonly isFirst?: true } | Refusal;

export function judge(judgement: Judgement): ApprovalVerdict {
  const { node, facts, clock, now } = judgement;
  const evidence = evidenceOf(judgement);
  if ('reason' in evidence) return { action: 'leave', node, ...evidence };
  // A clock that is ahead shows every certificate as expired. The clock check by certificates of an inventory is
  // regen's.
  const implausible = judgeClock({ clock, now });
  if (implausible !== undefined)
    return { action: 'leave', node, reason: 'ClockImplausible', message: implausible.message };
  const future = futureSign(facts, now);
  const lookAgainMs = isConfirmed(clock, now) && future === undefined ? undefined : untilSilent(facts);
  if (lookAgainMs !== undefined) {
    const silence = `it must first be seen to be silent for ${durationText(wantedSilenceMs(facts))}`;
    const message =
      future === undefined
        ? `nothing confirms the clock, by which the node has no certificate: ${silence}; ${clockAdvice}`
        : `the node ${future}, which is still to come: ${silence}`;
    return { action: 'leave', node, reason: 'ClockUnconfirmed', message, lookAgainMs };
  }
  return { action: 'approve', node, message: evidence.proves, isFirst: evidence.isFirst ?? false };
}

/** Evidence in the order in which it is checked. */
function evidenceOf(judgement: Judgement): Evidence {
  const { node, facts, request, possession, now } = judgement;
  const { own } = facts;
  const shown = possession && judgeShown({ shown: shownCertificate(request), ...possession, now });
  if (shown !== undefined && 'reason' in shown) return shown;
  const alive = signOfLife(facts, judgement);
  if (alive !== undefined) return { reason: 'NodeAlive', message: alive };
  const byFile = own === undefined ? undefined : evidenceOfOwn(node, own, judgement);
  if (shown === undefined) return byFile ?? evidenceOfOther(facts, judgement);
  // For this machine's own node both must hold.
  if (byFile !== undefined && 'reason' in byFile) return byFile;
  return evidenceOfPossession(shown.leaf, judgement);
}

function evidenceOfPossession(leaf: Certificate, { facts, request, now }: Judgement): Evidence {
  const { node } = facts;
  if (node === undefined) return { reason: 'NodeUnknown', message: 'there is no Node of this name any more' };
  const approved = facts.own === undefined ? approvedBefore(facts, request, now) : undefined;
  const refused = approved ?? judgeSince(leaf, { ...facts, node }, now);
  const end = leaf.facts.notAfter.toISOString();
  return refused ?? { proves: `it has the key of the node's certificate, which expired at ${end}` };
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
  if (approval !== undefined && isBefore(requestedAt(request), approval.requestedAt, now)) {
    return {
      reason: 'AlreadyApproved',
      message: 'a later request of this node was approved, and a kubelet waits for its last',
    };
  }
  if (own.state !== 'present') return { proves: own.problem };
  return { proves: `the node's certificate "${own.path}" expired at ${own.notAfter.toISOString()}` };
}

function evidenceOfOther(facts: NodeFacts, judgement: Judgement): Evidence {
  const { request, now } = judgement;
  const { node, issuedUntil, isExpected } = facts;
  const approved = approvedBefore(facts, request, now);
  if (approved !== undefined) return approved;
  if (node !== undefined) return evidenceOfKnown({ ...facts, node, issuedUntil: newestEnd(facts, now) }, judgement);
  if (issuedUntil !== undefined && issuedUntil > now) {
    const message = `a certificate valid until ${issuedUntil.toISOString()} was issued to this name, which has no Node`;
    return { reason: 'AlreadyApproved', message };
  }
  if (isExpected) return evidenceOfExpected(facts, judgement);
  const message =
    'there is no Node of this name; if it is a new machine, list it in approver.expectedNodes or approve by hand';
  return { reason: 'NodeUnknown', message };
}

/**
 * The newest notAfter known. A recorded certificate counts while it is valid, as a reason to refuse, and so does one
 * after which others may have gone unseen. That it has expired proves nothing: a newer certificate may have been issued
 * while no approver ran, or none could follow the requests. For a name without a Node the
 * record of first approvals decides, so that its entry can be deleted to allow another certificate.
 */
function newestEnd({ issuedUntil, issuedUnseen, recorded }: NodeFacts, now: Date): Date | undefined {
  const refusing = [recorded?.until, issuedUnseen === true ? issuedUntil : undefined];
  const seen = issuedUnseen === true ? undefined : issuedUntil;
  const ends = [seen, ...refusing.filter((until) => until !== undefined && until > now)];
  return ends.reduce((newest, end) => (newest === undefined || (end !== undefined && end > newest) ? end : newest));
}

/**
 * Refuses after another request of this node was approved whose certificate is still to come or has just been issued.
 */
function approvedBefore(facts: NodeFacts, request: SigningRequest, now: Date): Refusal | undefined {
  const approval = otherApproval(facts, request);
  if (approval === undefined) return undefined;
  const { issuedUntil } = facts;
  const isValid = issuedUntil !== undefined && issuedUntil > now;
  const sinceMs = ageOf(approval, now);
  if (approval.isIssued ? !(isValid && sinceMs < recentMs) : sinceMs >= answerMs) return undefined;
  const message = `a request of this node was approved at ${approval.at.toISOString()}; approve this one by hand if its kubelet has lost that certificate`;
  return { reason: 'AlreadyApproved', message };
}

/** An approval dated by a clock that has been set back since is at least as old as this process has known of it. */
const ageOf = ({ at, knownMs }: Approval, now: Date): number => Math.max(now.getTime() - at.getTime(), knownMs);

/** Counts once: until any certificate issued then has expired, whatever has become of that certificate. */
function evidenceOfExpected({ first }: NodeFacts, { request, longestLifeMs, now }: Judgement): Evidence {
  const isUsed =
    first !== undefined &&
    first.uid !== request.metadata.uid &&
    !(first.at !== undefined && first.at.getTime() + longestLifeMs <= now.getTime());
  if (isUsed) {
    const message = `a certificate for this name, which has no Node, was approved before (${firstApprovalsName}: ${JSON.stringify(first.text)}); approve by hand, or delete that entry`;
    return { reason: 'AlreadyApproved', message };
  }
  return { proves: 'there is no Node of this name, and approver.expectedNodes lists it', isFirst: true };
}

function evidenceOfKnown(facts: KnownNode, { longestLifeMs, now }: Judgement): Evidence {
  const { issuedUntil } = facts;
  const [alive, sign] = lastSign(facts, now);
  // A node that spoke after that certificate expired has got a newer one, which was not seen.
  const isNewest =
    issuedUntil !== undefined && (sign === registered || alive.getTime() <= issuedUntil.getTime() + skewMs);
  if (isNewest) {
    const until = issuedUntil.toISOString();
    if (issuedUntil <= now) return { proves: `the last certificate issued to the node expired at ${until}` };
    return {
      reason: 'CertificateMayBeValid',
      message: `the last certificate issued to the node is valid until ${until}`,
    };
  }
  const end = new Date(alive.getTime() + longestLifeMs);
  const sentence = `the node ${sign} at ${alive.toISOString()}, and certificates live up to ${durationText(longestLifeMs)}`;
  if (end <= now) return { proves: sentence };
  const message = `${sentence} (approver.longestLife): what it had then may be valid until ${end.toISOString()}; approve by hand if it is not`;
  return { reason: 'CertificateMayBeValid', message };
}

/** Approval of another request: an approval of the very same request is no second one. */
function otherApproval({ approval }: NodeFacts, { metadata }: SigningRequest): Approval | undefined {
  return approval === undefined || approval.uid === metadata.uid ? undefined : approval;
}
