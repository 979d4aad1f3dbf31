// The next action of the loop after one pass: pass again soon, wait, or be done. Pure.

import { notLater } from '../clock.ts';
import { backoffMs } from '../retry.ts';

/** Results of one pass. */
export interface PassOutcome {
  /** Artefacts that could not be read. */
  readonly unavailable: number;
  readonly written: number;
  readonly conflicts: number;
  readonly failed: number;
  /** Decisions to act that are not possible now. */
  readonly blocked: number;
  /** Contradictions that are checked again before they count. */
  readonly settling: number;
  /** Decisions that wait for input of another controller, which may come at any moment. */
  readonly awaiting: number;
  /** Requests that such a pass costs, where all failures were refusals: 0 where a failure may have been bad luck. */
  readonly refusedCost?: number;
  readonly recheckAt: Date;
}

/**
 * Consecutive passes for each kind of trouble. They are counted apart, because they have nothing to do with each other:
 * an object that is forbidden for good must not make the first failed write of another artefact wait for long.
 */
export interface Streaks {
  readonly unavailable: number;
  readonly failed: number;
  /** Consecutive passes that wrote something, or lost a race. */
  readonly written: number;
  /** Since when something has been left to do; undefined when nothing is. */
  readonly busySince?: Date | undefined;
  /** The same, counting contradictions that settle: another writer may change an artefact on and on. */
  readonly restlessSince?: Date | undefined;
  readonly unavailableSince?: Date | undefined;
  /** The last pass that wrote something or lost a race: other controllers may react to it. */
  readonly lastChangeAt?: Date | undefined;
  readonly awaitingSince?: Date | undefined;
}

export const noStreaks: Streaks = { unavailable: 0, failed: 0, written: 0 };

interface AfterLook {
  readonly outcome: PassOutcome;
  /** Includes this pass. */
  readonly streaks: Streaks;
  readonly now: Date;
  readonly once: boolean;
  /** Time for which a single run retries failures. Default: as long as an API server may take to start. */
  readonly patienceMs?: number;
  /** Longest wait for a contradiction to settle. Default: none. */
  readonly settlesMs?: number;
  /** Whether unreadable objects are polled between passes (poll.ts). Default: only passes read them. */
  readonly polled?: boolean;
}

export type Next =
  { readonly kind: 'again'; readonly delayMs: number } | { readonly kind: 'done'; readonly converged: boolean };

/** The clock may be set and the machine may be suspended while we wait: check the clock at least this often. */
const longestWaitMs = 30_000;
const shortestWaitMs = 100;
/** Passes that follow each other without a pause: a recovery needs two, a lost race one more. */
const quickLooks = 5;
/** A failure that repeats for this long is reported with `once`. */
export const patienceMs = 30_000;
/**
 * Patience for files: no server is starting behind them, and the start of the machine waits for them. An unreadable
 * file or a full disk rarely mends itself within a run, and the next run of the timer tries again.
 */
export const filesPatienceMs = 1000;

const count = (streak: number, isMet: boolean): number => (isMet ? streak + 1 : 0);

export function counted(before: Streaks, outcome: PassOutcome, now: Date): Streaks {
  const { unavailable, written, conflicts, failed, awaiting } = outcome;
  const since = (isMet: boolean, began: Date | undefined): Date | undefined =>
    isMet ? notLater(began, now) : undefined;
  return {
    unavailable: count(before.unavailable, unavailable > 0),
    failed: count(before.failed, failed > 0),
    written: count(before.written, written + conflicts > 0),
    busySince: since(isBusy(outcome), before.busySince),
    restlessSince: since(isBusy(outcome) || outcome.settling > 0, before.restlessSince),
    unavailableSince: since(unavailable > 0, before.unavailableSince),
    lastChangeAt: written + conflicts > 0 ? now : before.lastChangeAt && notLater(before.lastChangeAt, now),
    awaitingSince: since(awaiting > 0, before.awaitingSince),
  };
}

export function next(situation: AfterLook): Next {
  const { outcome, streaks, now, once, patienceMs: patience = patienceMs, settlesMs = 0 } = situation;
  const { busySince, restlessSince } = streaks;
  // Each attempt may take as long as a contradiction does before it; an artefact that is changed after each attempt is
  // given up.
  const isForEver = restlessSince !== undefined && isOver(restlessSince, now, patience + 2 * settlesMs);
  if (once && outcome.settling > 0 && isForEver) return { kind: 'done', converged: false };
  if (busySince !== undefined) {
    if (once && isOver(busySince, now, patience)) {
      // This pass wrote, and nothing failed: that may have been the last write, and the next pass shows it.
      const isHealing = outcome.unavailable + outcome.conflicts + outcome.failed === 0 && streaks.written <= quickLooks;
      return isHealing ? { kind: 'again', delayMs: 0 } : { kind: 'done', converged: false };
    }
    // A single run has its last try when its patience ends, not one pause later: a machine waits for it.
    const leftMs = once ? busySince.getTime() + patience - now.getTime() : longestWaitMs;
    return { kind: 'again', delayMs: Math.min(retryDelay(situation), leftMs) };
  }
  const untilMs = outcome.recheckAt.getTime() - now.getTime();
  if (once && outcome.settling === 0) return { kind: 'done', converged: true };
  return { kind: 'again', delayMs: Math.min(Math.max(untilMs, shortestWaitMs), longestWaitMs) };
}

/**
 * Delay before the next pass. Each trouble has a pace of its own; one pass serves all, so the quickest counts. A write
 * refused by an admission webhook is mostly refused for long: after one quick retry it costs four requests a second at
 * most.
 */
function retryDelay({ streaks, outcome, polled = false }: AfterLook): number {
  const { unavailable, failed, written } = streaks;
  const refusedMs = failed > 1 ? (outcome.refusedCost ?? 0) * 250 : 0;
  const delays = [
    ...(failed > 0 ? [Math.max(backoffMs(failed, { firstMs: 200, longestMs: longestWaitMs }), refusedMs)] : []),
    ...(unavailable > 0 && !polled
      ? [unavailable < 100 ? backoffMs(unavailable, { firstMs: 100, longestMs: 1000 }) : 10_000]
      : []),
    ...(written > 0
      ? [written <= quickLooks ? 0 : backoffMs(written - quickLooks, { firstMs: 100, longestMs: longestWaitMs })]
      : []),
  ];
  return Math.min(...delays, longestWaitMs);
}

/** Whether something is left to do immediately, so that the next pass counts as the same attempt. */
export function isBusy({ unavailable, written, conflicts, failed }: PassOutcome): boolean {
  return unavailable + written + conflicts + failed > 0;
}

/**
 * Whether a recovery is over: nothing was written, nothing failed, and nothing is left to write. Unreadable objects
 * delay that only while an API server may still be starting: its caches of rights fill one after the other, and the
 * keys that were made ahead are for the last objects.
 */
export function isSettled({ outcome, streaks, now }: Omit<AfterLook, 'once' | 'patienceMs'>): boolean {
  const { written, conflicts, failed, settling } = outcome;
  const { unavailableSince } = streaks;
  return (
    written + conflicts + failed + settling === 0 && (unavailableSince === undefined || isOver(unavailableSince, now))
  );
}

/** Whether a state has lasted for longer than a start takes. */
export function isOver(since: Date, now: Date, forMs: number = patienceMs): boolean {
  return now.getTime() - since.getTime() >= forMs;
}

/**
 * Delay between two requests to an API server that does not answer. A server that is away is polled five times a
 * second, for as long as it takes; a server that refuses is mostly about to start, and requests cost it work.
 */
export function apiPollDelay(waitedMs: number, isAway = false): number {
  if (isAway || waitedMs < 30_000) return 200;
  return waitedMs < 120_000 ? 500 : 1000;
}

/** Delay between two reads of unreadable objects, one object each. */
export function unreadDelay(waitedMs: number): number {
  if (waitedMs >= 0 && waitedMs < 500) return 100; // negative: the clock was set back
  if (waitedMs >= 0 && waitedMs < 30_000) return 250;
  return waitedMs >= 0 && waitedMs < 120_000 ? 1000 : 10_000;
}

export interface PollPace {
  readonly delayMs: number;
  /** All external inputs, or one after the other. */
  readonly of: 'all' | 'one';
}

/**
 * Pace of polls of external inputs. A recovery goes back and forth between several controllers, each step within
 * milliseconds: after a step the inputs are polled ten times a second for a moment, then one object three times a
 * second for a while. Undefined: the next pass is soon enough.
 */
export function pollPace({ lastChangeAt, awaitingSince }: Streaks, now: Date): PollPace | undefined {
  const moments = [lastChangeAt, awaitingSince].flatMap((date) => (date === undefined ? [] : [date.getTime()]));
  const stillMs = now.getTime() - Math.max(...moments);
  if (stillMs >= 0 && stillMs < 600) return { delayMs: 100, of: 'all' }; // negative: the clock was set back
  if (stillMs >= 0 && stillMs < 15_000) return { delayMs: 300, of: 'one' };
  if (stillMs >= 0 && stillMs < 60_000) return { delayMs: 1000, of: 'one' };
  return awaitingSince === undefined ? undefined : { delayMs: 5000, of: 'all' };
}
