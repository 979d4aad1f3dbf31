// What has been seen, from look to look, of the signs of life of another machine's node: whether they move, and for how
// long they have not. Measured by this machine's uptime, so that neither its wall clock nor the node's counts. Pure.

/** As the API has them at one look. */
export interface Signs {
  /** When its Lease was renewed last; undefined where there is none. */
  readonly renewedAt?: Date | undefined;
  /** When its kubelet reported its status last; undefined where it never has. */
  readonly heartbeatAt?: Date | undefined;
  /** How often its kubelet renews its Lease; undefined: as a kubelet does by default. */
  readonly renewalMs?: number | undefined;
}

export interface Watched {
  readonly signs: Signs;
  /** Uptime. */
  readonly lookedMs: number;
  /** For how long it has been seen not to speak, though it could. */
  readonly silentMs: number;
  /** Uptime of the look before the one that found it changed; undefined: it was not seen to change. */
  readonly spokeAfterMs?: number;
}

/** nodeLeaseDurationSeconds of a kubelet: 40 s. It renews four times in that time (cmd/kubelet, nodeLeaseRenewIntervalFraction). */
const defaultRenewalMs = 10_000;
/** Whatever a Lease says of itself, silence is waited for no longer than four times this. */
const longestRenewalMs = 60_000;

export const renewalMsOf = ({ renewalMs = defaultRenewalMs }: Signs): number =>
  Math.min(Math.max(renewalMs, defaultRenewalMs), longestRenewalMs);

/** A kubelet that is silent for so long has let its Lease lapse; a live one may miss one renewal or two. */
export const wantedSilenceMs = (signs: Signs): number => 4 * renewalMsOf(signs);

/**
 * Between two looks at most the time of one renewal counts as silence: the API may have been away for the rest, and then
 * nothing could be renewed.
 */
export function watch(before: Watched | undefined, signs: Signs, lookedMs: number): Watched {
  if (before === undefined || lookedMs < before.lookedMs) return { signs, lookedMs, silentMs: 0 };
  if (hasMoved(before.signs.renewedAt, signs.renewedAt) || hasMoved(before.signs.heartbeatAt, signs.heartbeatAt)) {
    return { signs, lookedMs, silentMs: 0, spokeAfterMs: before.lookedMs };
  }
  const silentMs = before.silentMs + Math.min(lookedMs - before.lookedMs, renewalMsOf(signs));
  return { ...before, signs, lookedMs, silentMs };
}

/** What is deleted was not done by the node. */
const hasMoved = (before: Date | undefined, after: Date | undefined): boolean =>
  after !== undefined && before?.getTime() !== after.getTime();
