// What the loop does after one look: look again soon, wait, or be done. Pure.

import { notLater } from '../clock.ts';
import { backoffMs } from '../retry.ts';

/** What one look has shown and done. */
export interface PassOutcome {
  /** Artefacts that could not be read. */
  readonly unavailable: number;
  readonly written: number;
  readonly conflicts: number;
  readonly failed: number;
  /** Decisions that something must be done which is not possible now. */
  readonly blocked: number;
  /** Contradictions that are looked at again before they are believed. */
  readonly settling: number;
  /** Decisions that others must bring something for, and may do so at any moment. */
  readonly awaiting: number;
  /** Requests that a look like this one costs, where all that failed was refused: 0 where it may have been bad luck. */
  readonly refusedCost?: number;
  readonly recheckAt: Date;
}

/**
 * For each kind of trouble the looks in a row that met it. They are counted apart, because they have nothing to do with
 * each other: what is forbidden for good must not make the first failed write of another artefact wait for long.
 */
export interface Streaks {
  readonly unavailable: number;
  readonly failed: number;
  /** Looks in a row that wrote something, or lost a race. */
  readonly written: number;
  /** Since when there has been something left to do; undefined when there is nothing. */
  readonly busySince?: Date | undefined;
  /** The same, or a contradiction to be believed: others may change one on and on. */
  readonly restlessSince?: Date | undefined;
  readonly unavailableSince?: Date | undefined;
  /** The last look that wrote something or lost a race: others may answer it. */
  readonly lastChangeAt?: Date | undefined;
  readonly awaitingSince?: Date | undefined;
}

export const noStreaks: Streaks = { unavailable: 0, failed: 0, written: 0 };

interface AfterLook {
  readonly outcome: PassOutcome;
  /** This look included. */
  readonly streaks: Streaks;
  readonly now: Date;
  readonly once: boolean;
  /** How long a single run goes on about what fails. Default: as long as an API server may take to start. */
  readonly patienceMs?: number;
  /** How long a contradiction is waited for at most. Default: not at all. */
  readonly settlesMs?: number;
  /** Whether what cannot be read is asked for between looks (poll.ts). Default: by looks alone. */
  readonly polled?: boolean;
}

export type Next =
  { readonly kind: 'again'; readonly delayMs: number } | { readonly kind: 'done'; readonly converged: boolean };

/** The clock may be set and the machine may be suspended while we wait: look at the clock at least this often. */
const longestWaitMs = 30_000;
const shortestWaitMs = 100;
/** Looks that follow each other at once: a recovery needs two, a lost race one more. */
const quickLooks = 5;
/** With `once`, what fails again and again for this long is reported instead. */
export const patienceMs = 30_000;
/**
 * Files have nobody who would still be starting, and what waits for them is the start of the machine: a file that cannot
 * be read or a disk that is full rarely mends itself meanwhile, and the next run of the timer tries again.
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
  // Each attempt may take as long as a contradiction does before it; what is changed after each of them, ever again, is given up.
  const isForEver = restlessSince !== undefined && isOver(restlessSince, now, patience + 2 * settlesMs);
  if (once && outcome.settling > 0 && isForEver) return { kind: 'done', converged: false };
  if (busySince !== undefined) {
    if (once && isOver(busySince, now, patience)) {
      // This look wrote, and nothing failed: that may have been the last of it, and the next one knows.
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
 * Each trouble has a pace of its own; one look serves all, so the quickest counts. What an admission webhook refuses it
 * most often refuses for long: after one quick try it costs four requests a second at most.
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

/** Whether something is left to do at once, so that the next look counts as the same attempt. */
export function isBusy({ unavailable, written, conflicts, failed }: PassOutcome): boolean {
  return unavailable + written + conflicts + failed > 0;
}

/**
 * Whether a recovery is over: nothing was written, nothing failed, and nothing is left to write. What cannot be
 * read holds that up only while an API server may still be starting: its caches of rights fill one after the other, and
 * the keys that were made ahead are for what comes last.
 */
export function isSettled({ outcome, streaks, now }: Omit<AfterLook, 'once' | 'patienceMs'>): boolean {
  const { written, conflicts, failed, settling } = outcome;
  const { unavailableSince } = streaks;
  return (
    written + conflicts + failed + settling === 0 && (unavailableSince === undefined || isOver(unavailableSince, now))
  );
}

/** Whether this has lasted for longer than a start takes. */
export function isOver(since: Date, now: Date, forMs: number = patienceMs): boolean {
  return now.getTime() - since.getTime() >= forMs;
}

/**
 * Between two requests to an API server that does not answer. One that is away is asked five times a second, for as long
 * as it takes; one that refuses is most often about to start, and then that costs it work.
 */
export function apiPollDelay(waitedMs: number, isAway = false): number {
  if (isAway || waitedMs < 30_000) return 200;
  return waitedMs < 120_000 ? 500 : 1000;
}

/** Between two reads of what could not be read, one object each. */
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
 * Polls external inputs. A recovery goes back and forth between several of us, each step within milliseconds:
 * after one of them that is worth ten looks a second at all of it, for a moment, and three objects a second for a while.
 * Undefined: the next look is soon enough.
 */
export function pollPace({ lastChangeAt, awaitingSince }: Streaks, now: Date): PollPace | undefined {
  const moments = [lastChangeAt, awaitingSince].flatMap((date) => (date === undefined ? [] : [date.getTime()]));
  const stillMs = now.getTime() - Math.max(...moments);
  if (stillMs >= 0 && stillMs < 600) return { delayMs: 100, of: 'all' }; // negative: the clock was set back since the last look
  if (stillMs >= 0 && stillMs < 15_000) return { delayMs: 300, of: 'one' };
  if (stillMs >= 0 && stillMs < 60_000) return { delayMs: 1000, of: 'one' };
  return awaitingSince === undefined ? undefined : { delayMs: 5000, of: 'all' };
}
