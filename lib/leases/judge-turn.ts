// Whether this machine may take a Lease that serialises restarts. Pure.
//
// A Lease that nobody renews is over once it has been seen unchanged for its duration, by our own clock: its renewTime
// says what the clock of another machine said, and right after a recovery clocks may differ (as in client-go,
// tools/leaderelection, observedTime). Waiting costs little, two API servers down at once cost the cluster.

export interface TurnSpec {
  readonly holderIdentity?: string | null;
  readonly leaseDurationSeconds?: number | null;
}

export interface JudgeTurn {
  readonly spec: TurnSpec | undefined;
  /** Who asks. */
  readonly holder: string;
  /** For how long this version of the Lease has been seen, milliseconds. */
  readonly unchangedMs: number;
}

export type TurnVerdict =
  | { readonly take: true; readonly reason: 'Free' | 'Own' | 'Over' }
  | { readonly take: false; readonly holder: string; readonly leftMs: number };

/** How long a turn lasts that says nothing of it, and how long ours does. */
export const turnSeconds = 360;

export function judgeTurn({ spec, holder, unchangedMs }: JudgeTurn): TurnVerdict {
  const present = spec?.holderIdentity ?? '';
  if (present === '') return { take: true, reason: 'Free' };
  if (present === holder) return { take: true, reason: 'Own' };
  const leftMs = (spec?.leaseDurationSeconds ?? turnSeconds) * 1000 - unchangedMs;
  return leftMs <= 0 ? { take: true, reason: 'Over' } : { take: false, holder: present, leftMs };
}
