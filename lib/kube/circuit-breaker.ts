// A circuit breaker: whether an API server is there, known once for all requests to it in this process. While it is away
// one request in 200 ms is sent as a trial: others fail with what that one met, and those that wait are released as soon
// as one is answered. A server that answers by Retry-After, or something else than was asked, is asked as rarely.
//
// No answer at all concerns all who ask this server by the same name and CA. An answer that asks for patience (429, and
// 503 with Retry-After) concerns the identity that got it: kube-apiserver's priority and fairness gives each user a queue
// of his own, and a mode that asks for much must not shut out the one that renews.
import { createHash } from 'node:crypto';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Attempt } from './api-error.ts';

/** Between the beginnings of two trials at a server that is away, and between two turns of those that try again. */
export const trialEveryMs = 200;
/** A server may ask for more patience than a recovery has. */
const longestRetryAfterMs = 10_000;
/** Credentials that were replaced leave theirs behind. */
const mostBreakers = 32;
/** So long a request waits to be the trial; else it fails at once with what the last one met. */
const longestWaitMs = 1000;

/** One request, or one watch, that was let through. */
export interface Call {
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

export class Breaker {
  readonly #clock: Clock;
  #away: Away | undefined;
  /** The request that finds out; it settles, and never rejects, when that is known. */
  #trial: Promise<void> | undefined;
  /** Settles when all that have asked for a turn so far have had it: those that try again have theirs in their order. */
  #turns = Promise.resolve();
  /** Aborts for those that wait for a turn. */
  #released = new AbortController();
  #lastTurnAt = -Infinity;
  #calls = 0;
  /** The newest call that had begun when an answer came: what failed before it says nothing about now. */
  #answeredUpTo = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** While it is not known that the server answers again. */
  get isOpen(): boolean {
    return this.#away !== undefined;
  }

  /** Lets a request through, at once unless the server is away. Throws KubeUnavailable, KubeWrongAnswer. */
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

  /** For a watch, which says nothing for long, and so is no trial. Throws as `enter` does. */
  enterWatch(attempt: Attempt): Call {
    if (this.#away !== undefined) throw retold(this.#away.failure, attempt);
    return this.#call(() => undefined);
  }

  /**
   * For those that have failed and would ask again: resolves when it is their turn, one in 200 ms; at once for all when one
   * of them, or a server that was away, has answered. Call what it resolves with after a success. Never rejects.
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
    void before.then(own.resolve); // who gives up makes nobody overtake those before
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

  /** From `since` until `dueAt`; none when the clock was set back meanwhile. */
  #leftMs(since: number, dueAt: number): number {
    const now = this.#now();
    return now < since ? 0 : Math.max(dueAt - now, 0);
  }
}

/** Of one identity at one API server. */
export type IdentityBreaker = Pick<Breaker, 'enter' | 'enterWatch' | 'turn'>;

/** `all`: of all identities. */
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
    /** An identity that must be patient takes no turn from others. */
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
      all.answered(); // it is there
    },
    end() {
      own.end();
      all.end();
    },
  };
}

/** The breakers of a process: one for each server, name and CA, because what one of these cannot reach another may. */
export class Breakers {
  readonly #clock: Clock;
  /** Those of all identities by server, name and CA, and those of one by its credentials besides. */
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
    this.#breakers.delete(key); // last in order, so what is asked for stays
    this.#breakers.set(key, breaker);
    const [oldest] = this.#breakers.keys();
    if (this.#breakers.size > mostBreakers && oldest !== undefined) this.#breakers.delete(oldest);
    return breaker;
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

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');
