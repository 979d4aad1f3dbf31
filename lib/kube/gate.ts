// Whether an API server is there, known once for all who ask it in this process. While it is away one request in 200 ms
// tries it, for everybody: whoever asks meanwhile hears what that one met, and whoever waits is told as soon as one is
// answered. A server that answers by Retry-After, or something else than was asked, is asked as rarely. Whose gate it is
// says gates.ts.
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Attempt } from './api-error.ts';

/** Between the beginnings of two attempts at a server that is away, and between two turns of those who try again. */
export const attemptMs = 200;
/** A server may ask for more patience than a recovery has. */
const longestRetryAfterMs = 10_000;
/** So long a request waits for its attempt; else it fails at once with what the last one met. */
const longestWaitMs = 1000;

/** One request that was let through. */
export interface Entry {
  /** The server has answered, however. */
  answered(): void;
  /** No answer came, or none to what was asked, or one that asks for patience. */
  failed(failure: RecoveryError): void;
  /** Always called, last. */
  end(): void;
}

interface Away {
  readonly failure: RecoveryError;
  /** Wall clock, milliseconds. */
  readonly since: number;
  readonly dueAt: number;
}

interface Waiter {
  readonly wake: () => void;
}

export class Gate {
  readonly #clock: Clock;
  #away: Away | undefined;
  /** The attempt that finds out; it settles, and never rejects, when that is known. */
  #attempt: Promise<void> | undefined;
  /** Those who try again after a failure, in their order. */
  readonly #waiters = new Set<Waiter>();
  #ended: AbortController | undefined;
  #lastTurnAt = -Infinity;
  #entered = 0;
  /** The newest entry that had begun when an answer came: what failed before it says nothing about now. */
  #answeredUpTo = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** While it is not known that the server answers again. */
  get isClosed(): boolean {
    return this.#away !== undefined;
  }

  /** Lets a request through, at once unless the server is away. Throws KubeUnavailable, KubeWrongAnswer. */
  async enter(attempt: Attempt, signal: AbortSignal): Promise<Entry> {
    while (this.#away !== undefined && !signal.aborted) {
      if (this.#attempt !== undefined) {
        await settled(this.#attempt, signal);
        const { failure } = this.#away ?? {};
        if (failure !== undefined && !signal.aborted) throw retold(failure, attempt);
        continue;
      }
      const waitMs = this.#awayForMs();
      if (waitMs === 0) return this.#try();
      if (waitMs > longestWaitMs) throw retold(this.#away.failure, attempt);
      await this.#clock.sleep(waitMs, signal);
    }
    return this.#entry(() => undefined);
  }

  /** For a watch, which says nothing for long: it finds out nothing for others. Throws as `enter` does. */
  enterAside(attempt: Attempt): Entry {
    if (this.#away !== undefined) throw retold(this.#away.failure, attempt);
    return this.#entry(() => undefined);
  }

  /**
   * For those who have failed and would ask again: resolves when it is their turn, one in 200 ms; at once for all when one
   * of them, or a server that was away, has answered. Call what it resolves with after a success. Never rejects.
   */
  async turn(signal: AbortSignal): Promise<() => void> {
    if (!signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const waiter = { wake: resolve };
      this.#waiters.add(waiter);
      void this.#giveTurns();
      await settled(promise, signal);
      this.#leave(waiter);
    }
    return () => this.#releaseAll();
  }

  async #giveTurns(): Promise<void> {
    if (this.#ended !== undefined) return;
    const ended = new AbortController();
    this.#ended = ended;
    while (this.#waiters.size > 0 && !ended.signal.aborted) {
      const waitMs = Math.max(this.#leftMs(this.#lastTurnAt, this.#lastTurnAt + attemptMs), this.#awayForMs());
      if (waitMs > 0) await this.#clock.sleep(waitMs, ended.signal);
      else if (this.#attempt !== undefined) await settled(this.#attempt, ended.signal);
      else {
        this.#lastTurnAt = this.#now();
        const [next] = this.#waiters;
        if (next !== undefined) this.#leave(next);
        next?.wake();
      }
    }
    if (this.#ended === ended) this.#ended = undefined;
  }

  #leave(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size > 0) return;
    this.#ended?.abort();
    this.#ended = undefined;
  }

  #releaseAll(): void {
    for (const waiter of this.#waiters) {
      this.#leave(waiter);
      waiter.wake();
    }
  }

  /** The request that finds out, for all. */
  #try(): Entry {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#attempt = promise;
    return this.#entry(() => {
      if (this.#attempt === promise) this.#attempt = undefined;
      resolve();
    });
  }

  #entry(known: () => void): Entry {
    this.#entered += 1;
    const number = this.#entered;
    const began = this.#now();
    return {
      answered: () => {
        this.#answeredUpTo = this.#entered;
        const wasAway = this.#away !== undefined;
        this.#away = undefined;
        if (wasAway) this.#releaseAll();
      },
      failed: (failure) => {
        if (number <= this.#answeredUpTo) return;
        const now = this.#now();
        const retryAfterMs = Math.min(Number(failure.details['retryAfterMs'] ?? 0), longestRetryAfterMs);
        this.#away = { failure, since: now, dueAt: Math.max(Math.min(began, now) + attemptMs, now + retryAfterMs) };
      },
      end: known,
    };
  }

  #now(): number {
    return this.#clock.now().getTime();
  }

  #awayForMs(): number {
    return this.#away === undefined ? 0 : this.#leftMs(this.#away.since, this.#away.dueAt);
  }

  /** From `since` until `dueAt`; none when the clock was set back meanwhile. */
  #leftMs(since: number, dueAt: number): number {
    const now = this.#now();
    return now < since ? 0 : Math.max(dueAt - now, 0);
  }
}

/** What another request has met, said of this one. */
function retold(failure: RecoveryError, { verb, object }: Attempt): RecoveryError {
  const [, state = failure.message] = /^Cannot \S+ (?:\S+ )?(?:"[^"]*"|[^\s":]+): (.*)$/s.exec(failure.message) ?? [];
  return new RecoveryError(failure.code, `Cannot ${verb} ${object}: ${state}`, {
    details: { ...failure.details, verb },
  });
}

/** Resolves when `promise`, which never rejects, or the signal says so. */
async function settled(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const abort = (): void => resolve();
  signal.addEventListener('abort', abort, { once: true });
  await Promise.race([promise, aborted]);
  signal.removeEventListener('abort', abort);
}
