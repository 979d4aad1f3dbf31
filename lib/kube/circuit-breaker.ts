// A circuit breaker: whether an API server is there, shared by all requests to it in this process. While it is away one
// request in 200 ms is sent as a trial: other requests fail with the trial's error, and waiting requests are released
// as soon as one is answered. A server that answers by Retry-After, or with a wrong answer, is queried as rarely.
//
// No answer at all concerns all clients that use this server by the same name and CA. An answer that requires patience
// (429, and 503 with Retry-After) concerns the connection that got it: kube-apiserver's priority and fairness gives each
// user a queue of its own, and a mode that sends many requests must not shut out the mode that renews.
import type { Credentials } from '../kubeconfig/credentials.ts';
import { type Clock, steadyMs } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import { type Attempt, hasAnswered } from './api-error.ts';

/** Interval between two trials at a server that is away, and between two turns of retries. */
const trialEveryMs = 200;
/** Limit for Retry-After: a server may require more patience than a recovery has. */
const longestRetryAfterMs = 10_000;
/** Longest wait of a request to be the trial; else it fails immediately with the last trial's error. */
const longestWaitMs = 1000;
/** Longest wait for a trial in flight, which has limits of its own. */
const longestTrialMs = 120_000;

class Breaker {
  readonly #clock: Clock;
  /** Detail of the errors that open it. */
  readonly #opener: 'away' | 'retryAfterMs';
  /** `state`: the error's message without its request. */
  #away: { readonly failure: RecoveryError; readonly state: string; readonly dueMs: number } | undefined;
  /** Aborts when the trial in flight is over. */
  #trial: AbortController | undefined;
  /** Answers so far: a failure of a request that began before the last one means nothing any more. */
  #answers = 0;
  #lastTurnMs = 0;
  #releasedMs = -Infinity;
  /** Releases the retries that wait for a turn. */
  #released = new AbortController();

  constructor(clock: Clock, opener: 'away' | 'retryAfterMs') {
    this.#clock = clock;
    this.#opener = opener;
  }

  get isOpen(): boolean {
    return this.#away !== undefined;
  }

  /** Sends a request, immediately unless the server is away. Throws KubeUnavailable, KubeWrongAnswer where it is. */
  async through<T>(attempt: Attempt, signal: AbortSignal, send: () => Promise<T>): Promise<T> {
    const isTrial = await this.#enter(attempt, signal);
    const answers = this.#answers;
    try {
      const answer = await send();
      this.answered();
      return answer;
    } catch (err) {
      this.#failed(err, attempt, answers);
      throw err;
    } finally {
      if (isTrial) this.#endTrial();
    }
  }

  /**
   * Begins a watch, which may be silent for long, and so is no trial; throws while the server is away. Call the returned
   * function with its failure.
   */
  watch(attempt: Attempt): (err: unknown) => void {
    this.#check(attempt);
    const answers = this.#answers;
    return (err) => this.#failed(err, attempt, answers);
  }

  /** Takes note of an answer, or of an event of a watch. */
  answered(): void {
    this.#answers += 1;
    if (this.#away !== undefined) this.#release();
    this.#away = undefined;
  }

  /**
   * Turn of a request that is retried after a failure: resolves one turn in 200 ms; all of them immediately when one
   * retry, or a server that was away, has answered. Call the returned function after a success. Never rejects.
   */
  async turn(signal: AbortSignal): Promise<() => void> {
    const now = steadyMs(this.#clock);
    this.#lastTurnMs = Math.max(this.#lastTurnMs + trialEveryMs, this.#away?.dueMs ?? 0, now);
    const over = AbortSignal.any([signal, this.#released.signal]);
    if (this.#lastTurnMs > now) await this.#clock.sleep(this.#lastTurnMs - now, over);
    // Loops that succeed and fail again at once must not release each other without end.
    return () => {
      if (steadyMs(this.#clock) - this.#releasedMs >= trialEveryMs) this.#release();
    };
  }

  /** Resolves when the request may be sent: whether it is the trial. */
  async #enter(attempt: Attempt, signal: AbortSignal): Promise<boolean> {
    while (this.#away !== undefined && !signal.aborted) {
      const waitMs = this.#away.dueMs - steadyMs(this.#clock);
      if (this.#trial !== undefined) {
        await this.#clock.sleep(longestTrialMs, AbortSignal.any([signal, this.#trial.signal]));
        if (!signal.aborted) this.#check(attempt);
      } else if (waitMs > longestWaitMs) this.#check(attempt);
      else if (waitMs > 0) await this.#clock.sleep(waitMs, signal);
      else {
        this.#trial = new AbortController();
        return true;
      }
    }
    return false;
  }

  #endTrial(): void {
    this.#trial?.abort(done);
    this.#trial = undefined;
  }

  #check(attempt: Attempt): void {
    if (this.#away === undefined) return;
    const { failure, state } = this.#away;
    const details = { ...failure.details, verb: attempt.verb };
    throw new RecoveryError(failure.code, `${cannot(attempt)}${state}`, { details });
  }

  /** `answers`: when the request began. */
  #failed(err: unknown, attempt: Attempt, answers: number): void {
    if (!(err instanceof RecoveryError) || err.details[this.#opener] === undefined) {
      if (hasAnswered(err)) this.answered();
    } else if (answers === this.#answers) {
      const retryAfterMs = Math.min(Number(err.details['retryAfterMs'] ?? 0), longestRetryAfterMs);
      const dueMs = steadyMs(this.#clock) + Math.max(trialEveryMs, retryAfterMs);
      this.#away = { failure: err, state: err.message.slice(cannot(attempt).length), dueMs };
    }
  }

  #release(): void {
    this.#lastTurnMs = this.#releasedMs = steadyMs(this.#clock);
    this.#released.abort(done);
    this.#released = new AbortController();
  }
}

/** Abort reason: without one each abort would make a DOMException that is never read. */
const done = 'done';
const cannot = ({ verb, object }: Attempt): string => `Cannot ${verb} ${object}: `;

/** Breaker of one connection to an API server. */
export type ServerBreaker = Pick<Breaker, 'through' | 'watch' | 'answered' | 'turn'>;

/**
 * The breakers of a process: one for each server, name and CA, because a server out of reach by one may be reachable by
 * another.
 */
export class Breakers {
  readonly #clock: Clock;
  readonly #byServer = new Map<string, Breaker>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  of({ server, serverName, ca }: Credentials): ServerBreaker {
    const key = JSON.stringify([server, serverName, ca.toString()]);
    const all = this.#byServer.get(key) ?? new Breaker(this.#clock, 'away');
    this.#byServer.set(key, all);
    const own = new Breaker(this.#clock, 'retryAfterMs');
    return {
      through: (attempt, signal, send) => own.through(attempt, signal, () => all.through(attempt, signal, send)),
      watch(attempt) {
        const failed = [own.watch(attempt), all.watch(attempt)];
        return (err) => failed.forEach((each) => each(err));
      },
      answered() {
        own.answered();
        all.answered();
      },
      /** A connection under Retry-After takes no turn from other connections. */
      turn: (signal) => (own.isOpen ? own : all).turn(signal),
    };
  }
}
