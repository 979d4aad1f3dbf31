// What this process knows of its machine's clock, from look to look: what the machine says of it, whether it was set
// while we ran, which certificates we have dated by it while nothing confirmed it, and, when something is to be signed and nothing says
// that the clock is right, what the clocks of other machines show.
import type { Running } from '../log.ts';
import { type ClockFacts, isConfirmed, type OtherClock } from '../plan/clock-rules.ts';
import type { StepResult } from './execute.ts';

/** What the machine itself says. */
type MachineClock = Omit<ClockFacts, 'settlesAt' | 'made' | 'others'>;

/** What can be asked about the time. */
export interface ClockSources extends Running {
  /**
   * What is known about the machine's clock; jumps are noticed here. `thorough`: somebody must be signed for and may not,
   * because nothing says that the clock is synchronised, so asking is worth its time.
   */
  readonly clockFacts: (thorough: boolean) => MachineClock | Promise<MachineClock>;
  /** The clocks of other machines, asked when something is to be signed and nothing says that ours is right. Never rejects. */
  readonly otherClocks?: ((signal: AbortSignal) => Promise<readonly OtherClock[]>) | undefined;
}

export function knownClock({ clock, clockFacts, otherClocks, log, signal }: ClockSources) {
  let watch: ClockWatch | undefined;
  const made = new Set<string>();
  let latest: ClockFacts | undefined;

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
    /** At the begin of each look. Costs no process and no request. */
    observe: () => factsOf(false),
    /** All other sources are asked, other machines only where the API answers. May take some seconds. */
    async ask({ apiAnswers }: { readonly apiAnswers: boolean }): Promise<ClockFacts> {
      const facts = await factsOf(true);
      if (facts.synchronised || !apiAnswers || otherClocks === undefined) return facts;
      const others = await otherClocks(signal);
      latest = { ...(await factsOf(false)), others };
      return latest;
    },
    /** After a look has carried out these steps. */
    dated(steps: readonly StepResult[]): void {
      // What a clock has dated that is known to be right tells the time, whatever this clock shows later.
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

// The wall clock was set while this process ran: it moved by another amount than the time since the machine was switched on,
// which counts suspend (/proc/uptime). Months off or asleep are no jump. A jump delays signing until the clock has kept still
// for ten seconds, and for a minute at most, however often it is set.

export interface ClockWatch {
  readonly wallMs: number;
  readonly uptimeMs: number;
  /** The jumps that are not yet lived down, by uptime. */
  readonly jumps?: { readonly firstMs: number; readonly lastMs: number };
}

interface ClockObservation {
  /** For the next call; undefined where uptime is unknown: then nothing can be told. */
  readonly watch: ClockWatch | undefined;
  /** How far the clock has just been set forward, or back when negative. */
  readonly jumpedMs?: number | undefined;
  /** Until then nothing is signed. */
  readonly settlesAt?: Date;
}

/** Smaller steps are what time synchronisation does after some months off, and harm no certificate. */
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
