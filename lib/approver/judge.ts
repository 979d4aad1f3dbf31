// Whether a kubelet's request for a new client certificate is approved. Pure: request, facts and the time are arguments.
//
// Who has the bootstrap token can ask in the name of any node. So a request is approved only with evidence that the
// certificate which the node has now can no longer be used; then no node is impersonated that could still speak.
//
// - This machine's own node: its certificate on disk has expired, is gone or cannot be used. Each start of a kubelet asks
//   again, so a further request is approved as long as that is so; but no request that is older than an approved one,
//   because a kubelet waits for its newest only.
// - Another node: the newest certificate that was seen to be issued to it has expired and it has not renewed its Lease
//   since; or all certificates have that it can have had at its last sign of life.
// - A node without a Node object: only where it is expected, and once.
// - A node that has renewed its Lease or reported its status within the last minutes: never, whatever else is known.
//   Another machine's is alive also when these move from look to look, whatever the clocks show; and by a clock that
//   nothing confirms, the end of its certificate is believed only after it was seen to be silent.
//
// For another node, at most one request is approved for each certificate: none while an approved one waits for its
// certificate, and none in the minutes after that was issued. Later requests are judged by its end.
import { clockAdvice, isConfirmed, judgeClock, type ClockFacts } from '../plan/clock-rules.ts';
import { durationText } from '../duration.ts';
import { firstApprovalsName } from '../bootstrap-identity.ts';
import type { AddressReason } from './addresses.ts';
import type { FirstApproval } from './first-approvals.ts';
import { isBefore, requestedAt, type ShapeReason, type SigningRequest } from './request.ts';
import { renewalMsOf, type Signs, type Watched, wantedSilenceMs } from './silence.ts';
import { nodePrefix } from '../well-known.ts';

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

export type PendingReason = ShapeReason | EvidenceReason | AddressReason;

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
  /** For how long this process has known of it, whatever clocks have shown. */
  readonly knownMs: number;
}

export interface NodeFacts extends Signs {
  /** Undefined: it is another machine's node. */
  readonly own?: OwnCertificate | undefined;
  /** Undefined: there is no Node object. */
  readonly node?: { readonly createdAt: Date } | undefined;
  /** Of another machine's node: what this look and those before have seen of its signs of life. */
  readonly watched?: Watched;
  /** The end of the newest certificate that was seen to be issued to it. */
  readonly issuedUntil?: Date | undefined;
  readonly approval?: Approval | undefined;
  /** Whether a Node of this name is to come. */
  readonly isExpected: boolean;
  /** Its certificate before there was a Node; asked only where it is expected and has none. */
  readonly first?: FirstApproval | undefined;
}

export type ApprovalVerdict =
  | { readonly action: 'ignore' }
  /** `isFirst`: on the expectation alone, so that it must be noted that it was used. */
  | { readonly action: 'approve'; readonly node: string; readonly message: string; readonly isFirst?: boolean }
  | {
      readonly action: 'leave';
      readonly node?: string;
      readonly reason: PendingReason;
      readonly message: string;
      /** The node is being watched: when it must be looked at again. */
      readonly lookAgainMs?: number;
    };

export interface Judgement {
  readonly request: SigningRequest;
  /** That the request names; its shape is that of a kubelet's (request.ts). */
  readonly node: string;
  readonly facts: NodeFacts;
  /** The longest that a client certificate of a kubelet lives here. */
  readonly longestLifeMs: number;
  readonly clock: ClockFacts;
  /** When this machine was switched on; undefined: not known. */
  readonly bootedAt?: Date | undefined;
  readonly now: Date;
}

/** A kubelet has its certificate a second after it is issued; a second start within this time asks for the same. */
const recentMs = 10 * 60_000;
/** kube-controller-manager removes what is approved and not signed after an hour (pkg/controller/certificates/cleaner). */
const answerMs = 3_600_000;

/** A Lease bears the time of its node's clock. */
const skewMs = 60_000;
/** What counts as alive. A kubelet renews its Lease every 10 s; clocks of other machines may differ by minutes. */
const aliveMs = { own: 60_000, other: 5 * 60_000 };
/** A kubelet reports a status that has not changed every five minutes (nodeStatusReportFrequency). */
const reportMs = 5 * 60_000;

interface Refusal {
  readonly reason: EvidenceReason;
  readonly message: string;
}
type Evidence = { readonly proves: string; readonly isFirst?: true } | Refusal;

export function judge(judgement: Judgement): ApprovalVerdict {
  const { node, facts, clock, now } = judgement;
  const evidence =
    signOfLife(facts, judgement) ??
    (facts.own === undefined ? evidenceOfOther(facts, judgement) : evidenceOfOwn(node, facts.own, judgement));
  if ('reason' in evidence) return { action: 'leave', node, ...evidence };
  // Every end is in the past on a clock that is ahead. What an inventory's certificates say of it is regen's to judge.
  const implausible = judgeClock({ clock, now });
  if (implausible !== undefined)
    return { action: 'leave', node, reason: 'ClockImplausible', message: implausible.message };
  const lookAgainMs = isConfirmed(clock, now) ? undefined : untilSilent(facts);
  if (lookAgainMs !== undefined) {
    const message = `nothing confirms the clock, by which the node has no certificate: it must first be seen to be silent for ${durationText(wantedSilenceMs(facts))}; ${clockAdvice}`;
    return { action: 'leave', node, reason: 'ClockUnconfirmed', message, lookAgainMs };
  }
  return { action: 'approve', node, message: evidence.proves, isFirst: evidence.isFirst ?? false };
}

/**
 * A node that speaks has a certificate, seen or not. Of this machine's own node nothing counts that was before the boot:
 * the kubelet of that time is gone.
 */
function signOfLife(facts: NodeFacts, { bootedAt, now }: Judgement): Refusal | undefined {
  const { own, renewedAt, heartbeatAt, watched } = facts;
  const withinMs = own === undefined ? aliveMs.other : aliveMs.own;
  const isFresh = (at: Date | undefined, ms: number): at is Date =>
    at !== undefined &&
    Math.abs(now.getTime() - at.getTime()) <= ms &&
    !(own !== undefined && bootedAt !== undefined && at < bootedAt);
  const sign = isFresh(renewedAt, withinMs)
    ? `renewed its Lease at ${renewedAt.toISOString()}`
    : isFresh(heartbeatAt, renewedAt === undefined ? withinMs + reportMs : withinMs)
      ? `reported its status at ${heartbeatAt.toISOString()}`
      : own === undefined && isMoving(watched, withinMs)
        ? 'renews its Lease or reports its status, although by another clock'
        : undefined;
  if (sign === undefined) return undefined;
  const message = `the node ${sign}, so it has a certificate that works; wanted ${durationText(withinMs)} of silence`;
  return { reason: 'NodeAlive', message };
}

/** A move that was seen longer ago does not show that it is alive now. */
const isMoving = (watched: Watched | undefined, withinMs: number): boolean =>
  watched?.spokeAfterMs !== undefined && watched.lookedMs - watched.spokeAfterMs <= withinMs;

/** Whether it is another machine's node, of which the API knows something that can change. */
export const canBeHeard = ({ own, node, renewedAt }: NodeFacts): boolean =>
  own === undefined && (node !== undefined || renewedAt !== undefined);

/** In how long it is looked at again before its silence is believed; undefined: it needs no further look. */
function untilSilent(facts: NodeFacts): number | undefined {
  const { watched } = facts;
  if (!canBeHeard(facts)) return undefined;
  return (watched?.silentMs ?? 0) >= wantedSilenceMs(facts) ? undefined : renewalMsOf(facts);
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
  const approval = otherApproval(facts, request);
  const sinceMs = approval === undefined ? Infinity : ageOf(approval, now);
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
  if (isExpected) return evidenceOfExpected(facts, judgement);
  const message =
    'there is no Node of this name; if it is a new machine, list it in approver.expectedNodes or approve by hand';
  return { reason: 'NodeUnknown', message };
}

/** One that is dated by a clock which has been set back since was made when this process learnt of it, at the latest. */
const ageOf = ({ at, knownMs }: Approval, now: Date): number => Math.max(now.getTime() - at.getTime(), knownMs);

/** Once: until whatever it got then has expired, whatever has become of it. */
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

type KnownNode = NodeFacts & { readonly node: NonNullable<NodeFacts['node']> };

function evidenceOfKnown(facts: KnownNode, { longestLifeMs, now }: Judgement): Evidence {
  const { issuedUntil } = facts;
  const [alive, sign] = lastSign(facts);
  // What spoke after the end of that certificate has got another one, which was not seen.
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

const registered = 'was registered';

function lastSign({ node, renewedAt, heartbeatAt }: KnownNode): readonly [Date, string] {
  let last: readonly [Date, string] = [node.createdAt, registered];
  if (renewedAt !== undefined && renewedAt >= last[0]) last = [renewedAt, 'last renewed its Lease'];
  if (heartbeatAt !== undefined && heartbeatAt > last[0]) last = [heartbeatAt, 'last reported its status'];
  return last;
}

/** An approval of the very same request is no second one. */
function otherApproval({ approval }: NodeFacts, { metadata }: SigningRequest): Approval | undefined {
  return approval === undefined || approval.uid === metadata.uid ? undefined : approval;
}
