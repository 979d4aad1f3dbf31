// A run as a table of steps, taken in order.
import { type Clock, steadyMs } from '../clock.ts';
import { errorFields } from '../errors.ts';
import type { Log } from '../log.ts';

export interface Step<Run> {
  readonly name: string;
  /** Whether this run takes the step; absent: every run does. */
  readonly when?: (run: Run) => boolean;
  /** `signal` aborts when the process must stop, and when the limit is over. */
  readonly run: (run: Run, signal: AbortSignal) => Promise<void>;
  /** Limit in ms; absent: the step bounds itself. */
  readonly limitMs?: number;
  /** Whether it ends within `sharedMs` of the run as well, and is left to the next run once that is over. */
  readonly shares?: true;
  /** `stop` stops the run with the step's error; `report` logs it and takes the next step. */
  readonly onFailure: 'stop' | 'report';
  /** Whether the step is also taken after an earlier one has stopped the run; absent: it is not. */
  readonly afterFailure?: (run: Run) => boolean;
}

interface Stepping {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Since the start of the run. */
  readonly sharedMs?: number;
}

/** Rejects with the error of the step that has stopped the run, and when the process must stop. */
export async function takeSteps<Run>(steps: readonly Step<Run>[], run: Run, stepping: Stepping): Promise<void> {
  const { clock, log, signal, sharedMs = Infinity } = stepping;
  const began = steadyMs(clock);
  let failure: { readonly err: unknown } | undefined;
  for (const { name, when, run: take, limitMs: ownMs, shares, onFailure, afterFailure } of steps) {
    if (when?.(run) === false || (failure !== undefined && afterFailure?.(run) !== true)) continue;
    const leftMs = shares === true ? began + sharedMs - steadyMs(clock) : Infinity;
    if (leftMs <= 0) {
      log.warn('step.failed', { message: name, err: 'the steps before took too long: left to the next run' });
      continue;
    }
    const limitMs = ownMs && Math.min(ownMs, leftMs);
    const ended = new AbortController();
    const limit = limitMs === undefined ? undefined : limitOf(limitMs, clock, ended.signal);
    try {
      await take(run, limit === undefined ? signal : AbortSignal.any([signal, limit]));
      limit?.throwIfAborted();
    } catch (err) {
      if (signal.aborted) throw failure === undefined ? err : failure.err;
      if (onFailure === 'stop' && failure === undefined) {
        failure = { err };
        continue;
      }
      const late = limit?.aborted === true && { err: `no end in ${(limitMs ?? 0) / 1000} s` };
      log.warn('step.failed', { message: name, ...errorFields(err), ...late });
    } finally {
      ended.abort();
    }
  }
  if (failure !== undefined) throw failure.err;
}

/** Aborts after `ms`, unless the step ends before. */
function limitOf(ms: number, clock: Clock, ended: AbortSignal): AbortSignal {
  const over = new AbortController();
  const wait = async (): Promise<void> => {
    await clock.sleep(ms, ended);
    if (!ended.aborted) over.abort();
  };
  void wait();
  return over.signal;
}
