// A circuit breaker: whether an API server is there, shared by all requests to it in this process. While it is away one
// request in 200 ms is sent as a trial: other requests fail with the trial's error, and waiting requests are released
// as soon as one is answered. A server that answers by Retry-After, or with a wrong answer, is queried as rarely.
//
// No answer at all concerns all clients that use this server by the same name and CA. An answer that requires patience
// (429, and 503 with Retry-After) concerns the identity that got it: kube-apiserver's priority and fairness gives each
// user a queue of its own, and a mode that sends many requests must not shut out the mode that renews.
import { createHash } from 'node:crypto';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Attempt } from './api-error.ts';

/** Interval between the beginnings of two trials at a server that is away, and between two turns of retries. */
export const trialEveryMs = 200;
/** Limit for Retry-After: a server may require more patience than a recovery has. */
const longestRetryAfterMs = 10_000;
/** Breakers kept: replaced credentials leave theirs behind. */
const mostBreakers = 32;
/** Longest wait of a request to be the trial; else it fails immediately with the last trial's error. */
const longestWaitMs = 1000;

/** A request or a watch that was let through. */
export interface Call {
  /** The server has answered, with any status. */
  answered(): void;
  /** No answer came, or a wrong one, or one with Retry-After. */
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

export class Breaker {
  readonly #clock: Clock;
  #away: Away | undefined;
  /** The trial in flight; it settles, and never rejects, when the result is known. */
  #trial: Promise<void> | undefined;
  /** Settles when all earlier turns are over: retries have their turns in order. */
  #turns = Promise.resolve();
  /** Releases the retries that wait for a turn. */
  #released = new AbortController();
  #lastTurnAt = -Infinity;
  #calls = 0;
  /** The newest call that had begun when an answer came: failures of earlier calls mean nothing any more. */
  #answeredUpTo = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the server counts as away. */
  get isOpen(): boolean {
    return this.#away !== undefined;
  }

  /** Lets a request through, immediately unless the server is away. Throws KubeUnavailable, KubeWrongAnswer. */
  async enter(attempt: Attempt, signal: AbortSignal): Promise<Call> {
    while (this.#away !== undefined && !signal.aborted) {
      if (this.#trial !== undefined) {
        await settled(this.#trial, signal);
        const { failure } = this.#away ?? {};
        if (failure !== undefined && !signal.aborted) throw retold(failure, attempt);
        continue;
      }
      const waitMs = this.#awayForMs();
      if (waitMs === 0) return this.#startTrial();
      if (waitMs > longestWaitMs) throw retold(this.#away.failure, attempt);
      await this.#clock.sleep(waitMs, signal);
    }
    return this.#call(() => undefined);
  }

  /** Lets a watch through, which may be silent for long, and so is no trial. Throws as `enter` does. */
  enterWatch(attempt: Attempt): Call {
    if (this.#away !== undefined) throw retold(this.#away.failure, attempt);
    return this.#call(() => undefined);
  }

  /**
   * Turn of a request that is retried after a failure: resolves one turn in 200 ms; all of them immediately when one
   * retry, or a server that was away, has answered. Call the returned function after a success. Never rejects.
   */
  async turn(signal: AbortSignal): Promise<() => void> {
    const over = AbortSignal.any([signal, this.#released.signal]);
    const before = this.#turns;
    const own = Promise.withResolvers<void>();
    this.#turns = own.promise;
    await settled(before, over);
    while (!over.aborted) {
      const waitMs = Math.max(this.#leftMs(this.#lastTurnAt, this.#lastTurnAt + trialEveryMs), this.#awayForMs());
      if (waitMs > 0) await this.#clock.sleep(waitMs, over);
      else if (this.#trial !== undefined) await settled(this.#trial, over);
      else {
        this.#lastTurnAt = this.#now();
        break;
      }
    }
    void before.then(own.resolve); // a retry that is aborted lets none overtake earlier ones
    return () => this.#releaseAll();
  }

  #releaseAll(): void {
    this.#released.abort();
    this.#released = new AbortController();
  }

  #startTrial(): Call {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#trial = promise;
    return this.#call(() => {
      if (this.#trial === promise) this.#trial = undefined;
      resolve();
    });
  }

  #call(known: () => void): Call {
    this.#calls += 1;
    const number = this.#calls;
    const began = this.#now();
    return {
      answered: () => {
        this.#answeredUpTo = this.#calls;
        const wasAway = this.#away !== undefined;
        this.#away = undefined;
        if (wasAway) this.#releaseAll();
      },
      failed: (failure) => {
        if (number <= this.#answeredUpTo) return;
        const now = this.#now();
        const retryAfterMs = Math.min(Number(failure.details['retryAfterMs'] ?? 0), longestRetryAfterMs);
        this.#away = { failure, since: now, dueAt: Math.max(Math.min(began, now) + trialEveryMs, now + retryAfterMs) };
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

  /** Milliseconds from `since` until `dueAt`; none when the clock was set back since. */
  #leftMs(since: number, dueAt: number): number {
    const now = this.#now();
    return now < since ? 0 : Math.max(dueAt - now, 0);
  }
}

/** Breaker of one identity at one API server. */
export type IdentityBreaker = Pick<Breaker, 'enter' | 'enterWatch' | 'turn'>;

/** `all`: breaker of all identities. */
function identityBreaker(all: Breaker, own: Breaker): IdentityBreaker {
  return {
    async enter(attempt, signal) {
      const call = await own.enter(attempt, signal);
      try {
        return joined(await all.enter(attempt, signal), call);
      } catch (err) {
        call.end();
        throw err;
      }
    },
    enterWatch(attempt) {
      const call = own.enterWatch(attempt);
      return joined(all.enterWatch(attempt), call);
    },
    /** An identity under Retry-After takes no turn from other identities. */
    turn: (signal) => (own.isOpen ? own : all).turn(signal),
  };
}

function joined(all: Call, own: Call): Call {
  return {
    answered() {
      own.answered();
      all.answered();
    },
    failed(failure: RecoveryError) {
      if (failure.details['away'] === true) return all.failed(failure);
      own.failed(failure);
      all.answered(); // the server is there
    },
    end() {
      own.end();
      all.end();
    },
  };
}

/**
 * The breakers of a process: one for each server, name and CA, because a server out of reach by one may be reachable by
 * another.
 */
export class Breakers {
  readonly #clock: Clock;
  /** Breakers of all identities by server, name and CA; breakers of one identity by its credentials in addition. */
  readonly #breakers = new Map<string, Breaker>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  of({ server, serverName, ca, token, clientCertificate }: Credentials): IdentityBreaker {
    const place = [server, serverName, digest(ca)];
    const identity = [token && digest(token), clientCertificate && digest(clientCertificate.cert)];
    return identityBreaker(this.#find(place), this.#find([...place, ...identity]));
  }

  #find(names: readonly (string | undefined)[]): Breaker {
    const key = JSON.stringify(names);
    const breaker = this.#breakers.get(key) ?? new Breaker(this.#clock);
    this.#breakers.delete(key); // last in order, so breakers in use stay
    this.#breakers.set(key, breaker);
    const [oldest] = this.#breakers.keys();
    if (this.#breakers.size > mostBreakers && oldest !== undefined) this.#breakers.delete(oldest);
    return breaker;
  }
}

/** Error of another request, reworded for this one. */
function retold(failure: RecoveryError, { verb, object }: Attempt): RecoveryError {
  const [, state = failure.message] = /^Cannot \S+ (?:\S+ )?(?:"[^"]*"|[^\s":]+): (.*)$/s.exec(failure.message) ?? [];
  return new RecoveryError(failure.code, `Cannot ${verb} ${object}: ${state}`, {
    details: { ...failure.details, verb },
  });
}

/** Resolves when `promise`, which never rejects, settles or the signal aborts. */
async function settled(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const abort = (): void => resolve();
  signal.addEventListener('abort', abort, { once: true });
  await Promise.race([promise, aborted]);
  signal.removeEventListener('abort', abort);
}

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');
