// Knowledge of this process about its machine's clock, from pass to pass: the machine's own facts, whether it was set
// while we ran, which certificates we have dated by it while nothing confirmed it, and, when something is to be signed
// and nothing confirms the clock, the clocks of other machines.
import { isRecent } from '../clock.ts';
import type { Running } from '../log.ts';
import { type ClockFacts, isConfirmed, type OtherClock } from '../plan/clock-rules.ts';
import type { StepResult } from './execute.ts';

/** Facts from the machine itself. */
type MachineClock = Omit<ClockFacts, 'settlesAt' | 'made' | 'others'>;

/** Sources of the time. */
export interface ClockSources extends Running {
  /**
   * Facts about the machine's clock; jumps are noticed here. `thorough`: a certificate must be signed and may not be,
   * because nothing confirms that the clock is synchronised, so a slower query is worth its time.
   */
  readonly clockFacts: (thorough: boolean) => MachineClock | Promise<MachineClock>;
  /** Reads the clocks of other machines, when something is to be signed and nothing confirms ours. Never rejects. */
  readonly otherClocks?: ((signal: AbortSignal) => Promise<readonly OtherClock[]>) | undefined;
}

/** Passes of a recovery follow each other at once: a process started for each would say the same. */
const askAgainMs = 1000;

export function knownClock({ clock, clockFacts, otherClocks, log, signal }: ClockSources) {
  let watch: ClockWatch | undefined;
  const made = new Set<string>();
  let latest: ClockFacts | undefined;
  let deniedAt: Date | undefined;

  const factsOf = async (thorough: boolean): Promise<ClockFacts> => {
    const said = await clockFacts(thorough);
    const observed = observeClock(watch, clock.now(), clock.uptimeSeconds());
    watch = observed.watch;
    const { jumpedMs, settlesAt } = observed;
    if (jumpedMs !== undefined) log.warn('clock.jumped', { duration: jumpedMs, recheckAt: settlesAt?.toISOString() });
    latest = { ...said, made, ...(settlesAt !== undefined && { settlesAt }) };
    return latest;
  };

  return {
    /** Called at the start of each pass. Costs no process and no request. */
    observe: () => factsOf(false),
    /** Queries all other sources, other machines only where the API answers. May take some seconds. */
    async ask({ apiAnswers }: { readonly apiAnswers: boolean }): Promise<ClockFacts> {
      const isDenied = isRecent(deniedAt, askAgainMs, clock.now());
      const facts = await factsOf(!isDenied);
      if (!isDenied) deniedAt = facts.synchronised ? undefined : clock.now();
      if (facts.synchronised || !apiAnswers || otherClocks === undefined) return facts;
      const others = await otherClocks(signal);
      latest = { ...(await factsOf(false)), others };
      return latest;
    },
    /** Called after a pass has carried out these steps. */
    dated(steps: readonly StepResult[]): void {
      // A certificate dated by a clock known to be right confirms the time, whatever this clock shows later.
      if (latest !== undefined && isConfirmed(latest, clock.now())) return;
      for (const { artefact, certificates } of steps) {
        const [first] = certificates ?? [];
        if (first !== undefined && (artefact.kind === 'signer' || artefact.kind === 'target')) {
          made.add(first.facts.fingerprint);
        }
      }
    },
  };
}

// The wall clock was set while this process ran: it moved by another amount than the uptime, which counts suspend
// (/proc/uptime). Months off or asleep are no jump. A jump delays signing until the clock has kept still for ten
// seconds, and for a minute at most, however often it is set.

export interface ClockWatch {
  readonly wallMs: number;
  readonly uptimeMs: number;
  /** Jumps that still delay signing, by uptime. */
  readonly jumps?: { readonly firstMs: number; readonly lastMs: number };
}

interface ClockObservation {
  /** State for the next call; undefined where uptime is unknown: then no jump can be detected. */
  readonly watch: ClockWatch | undefined;
  /** How far the clock has just been set forward, or back when negative. */
  readonly jumpedMs?: number | undefined;
  /** Nothing is signed until then. */
  readonly settlesAt?: Date;
}

/** Time synchronisation makes smaller steps after some months off, and they harm no certificate. */
const smallestJumpMs = 60_000;
const stillMs = 10_000;
const longestMs = 60_000;

export function observeClock(
  previous: ClockWatch | undefined,
  now: Date,
  uptimeSeconds: number | undefined,
): ClockObservation {
  if (uptimeSeconds === undefined) return { watch: undefined };
  const wallMs = now.getTime();
  const uptimeMs = uptimeSeconds * 1000;
  if (previous === undefined) return { watch: { wallMs, uptimeMs } };

  const differenceMs = wallMs - previous.wallMs - (uptimeMs - previous.uptimeMs);
  const jumpedMs = Math.abs(differenceMs) >= smallestJumpMs ? Math.round(differenceMs) : undefined;
  const lastMs = jumpedMs === undefined ? previous.jumps?.lastMs : uptimeMs;
  const firstMs = previous.jumps?.firstMs ?? lastMs;
  if (firstMs === undefined || lastMs === undefined) return { watch: { wallMs, uptimeMs } };

  const settlesMs = Math.min(lastMs + stillMs, firstMs + longestMs);
  // At the end of the minute signing goes on even if the clock has just been set again: that jump opens no new minute.
  if (uptimeMs >= settlesMs) return { watch: { wallMs, uptimeMs }, jumpedMs };
  return {
    watch: { wallMs, uptimeMs, jumps: { firstMs, lastMs } },
    jumpedMs,
    settlesAt: new Date(wallMs + settlesMs - uptimeMs),
  };
}
