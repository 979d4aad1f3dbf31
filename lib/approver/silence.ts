// Signs of life of another machine's node across observations: whether they change, and for how long they have not.
// Measured by this machine's uptime, so that neither its wall clock nor the node's counts. Pure.

/** Signs of life that the API has at one observation. */
export interface Signs {
  /** Last renewal of its Lease; undefined where there is none. */
  readonly renewedAt?: Date | undefined;
  /** Last status report of its kubelet; undefined where it never has reported. */
  readonly heartbeatAt?: Date | undefined;
  /** Interval at which its kubelet renews its Lease; undefined: a kubelet's default. */
  readonly renewalMs?: number | undefined;
}

export interface Watched {
  readonly signs: Signs;
  /** Uptime of the last observation. */
  readonly lookedMs: number;
  /** How long it has been seen silent while it could speak. */
  readonly silentMs: number;
  /** Uptime of the observation before the one that found a change; undefined: no change was seen. */
  readonly spokeAfterMs?: number;
}

/**
 * nodeLeaseDurationSeconds of a kubelet is 40 s: it renews every quarter of that (cmd/kubelet,
 * nodeLeaseRenewIntervalFraction).
 */
const defaultRenewalMs = 10_000;
/** Limit for any interval in a Lease: silence is waited for no longer than four times this. */
const longestRenewalMs = 60_000;

export const renewalMsOf = ({ renewalMs = defaultRenewalMs }: Signs): number =>
  Math.min(Math.max(renewalMs, defaultRenewalMs), longestRenewalMs);

/** Silence of a node whose Lease has lapsed; a live kubelet may miss one renewal or two. */
export const wantedSilenceMs = (signs: Signs): number => 4 * renewalMsOf(signs);

/**
 * Adds an observation. Between two observations at most the time of one renewal counts as silence: the API may have
 * been away for the rest, and then nothing could be renewed.
 */
export function watch(before: Watched | undefined, signs: Signs, lookedMs: number): Watched {
  if (before === undefined || lookedMs < before.lookedMs) return { signs, lookedMs, silentMs: 0 };
  if (hasMoved(before.signs.renewedAt, signs.renewedAt) || hasMoved(before.signs.heartbeatAt, signs.heartbeatAt)) {
    return { signs, lookedMs, silentMs: 0, spokeAfterMs: before.lookedMs };
  }
  const silentMs = before.silentMs + Math.min(lookedMs - before.lookedMs, renewalMsOf(signs));
  return { ...before, signs, lookedMs, silentMs };
}

/** A deletion is not a sign of the node. */
const hasMoved = (before: Date | undefined, after: Date | undefined): boolean =>
  after !== undefined && before?.getTime() !== after.getTime();
