// Whether a node speaks, and when it last did: a node that speaks has a certificate, seen or not. Pure.
import { durationText } from '../duration.ts';
import type { KnownNode, NodeFacts } from './node-state.ts';
import { renewalMsOf, type Watched, wantedSilenceMs } from './silence.ts';

/** Tolerated difference of clocks: a Lease bears the time of its node's clock. */
export const skewMs = 60_000;
/**
 * Age of a sign that counts as alive. A kubelet renews its Lease every 10 s; clocks of other machines may differ by
 * minutes.
 */
const aliveMs = { own: 60_000, other: 5 * 60_000 };
/** Interval at which a kubelet reports an unchanged status (nodeStatusReportFrequency). */
const reportMs = 5 * 60_000;

interface Look {
  /** Boot time of this machine; undefined: not known. */
  readonly bootedAt?: Date | undefined;
  readonly now: Date;
}

/**
 * Why the node counts as alive; undefined: it does not. For this machine's own node no sign from before the boot
 * counts: the kubelet of that time is gone.
 */
export function signOfLife(facts: NodeFacts, { bootedAt, now }: Look): string | undefined {
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
  return `the node ${sign}, so it has a certificate that works; wanted ${durationText(withinMs)} of silence`;
}

/** A change seen longer ago does not show that the node is alive now. */
const isMoving = (watched: Watched | undefined, withinMs: number): boolean =>
  watched?.spokeAfterMs !== undefined && watched.lookedMs - watched.spokeAfterMs <= withinMs;

/** Whether it is another machine's node, of which the API has something that can change. */
export const canBeHeard = ({ own, node, renewedAt }: NodeFacts): boolean =>
  own === undefined && (node !== undefined || renewedAt !== undefined);

/** Milliseconds until the next observation, before the node's silence is believed; undefined: none is needed. */
export function untilSilent(facts: NodeFacts): number | undefined {
  const { watched } = facts;
  if (!canBeHeard(facts)) return undefined;
  return (watched?.silentMs ?? 0) >= wantedSilenceMs(facts) ? undefined : renewalMsOf(facts);
}

export const registered = 'was registered';

/** Last sign of life up to now, with its time. A time in the future does not show when the node spoke: `futureSign`. */
export function lastSign({ node, renewedAt, heartbeatAt }: KnownNode, now: Date): readonly [Date, string] {
  let last: readonly [Date, string] = [node.createdAt, registered];
  const hasCome = (at: Date | undefined): at is Date => at !== undefined && !isInFuture(at, now);
  if (hasCome(renewedAt) && renewedAt >= last[0]) last = [renewedAt, 'last renewed its Lease'];
  if (hasCome(heartbeatAt) && heartbeatAt > last[0]) last = [heartbeatAt, 'last reported its status'];
  return last;
}

const isInFuture = (at: Date, now: Date): boolean => at.getTime() > now.getTime() + aliveMs.other;

/**
 * A sign of another machine's node with a time in the future: its clock was wrong, or another client wrote it. It shows
 * no life unless it changes, so silence is waited for. Undefined: there is none.
 */
export function futureSign({ own, renewedAt, heartbeatAt }: NodeFacts, now: Date): string | undefined {
  if (own !== undefined) return undefined;
  if (renewedAt !== undefined && isInFuture(renewedAt, now)) return `renewed its Lease at ${renewedAt.toISOString()}`;
  if (heartbeatAt === undefined || !isInFuture(heartbeatAt, now)) return undefined;
  return `reported its status at ${heartbeatAt.toISOString()}`;
}
