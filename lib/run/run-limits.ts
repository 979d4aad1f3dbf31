// Limits of the steps that follow the repair, the restarts and their proofs. Where these three end within `sharedMs`, all
// ends before systemd ends a run of the timer (`timerRunMinutes`), which would report nothing then. They have no limit
// here, but bound their own waits: where they take longer, systemd may end the run before its last steps.

/** A step that reads an API server and that no repair needs. One that hangs leaves time for the others. */
export const optional = { limitMs: 45_000, shares: true, onFailure: 'report' } as const;

/** Time since the start of a run in which those end. */
export const sharedMs = 110_000;

/** Time for the release of stale Leases after the last step, and on a host whose API server may just be starting. */
export const [leasesMs, afterBootMs] = [15_000, 90_000];
