// Patience with one API server, and how many requests it gets at a time. After an outage, on a machine that is busy or
// swaps, every answer comes late, and the same time limit each time would never succeed: a limit that passed while data
// arrived makes the next one longer, and slow answers keep it so. The number of concurrent requests begins small and
// grows with each answer: users who can write objects decide how large they are.
import { type Clock, isRecent } from '../clock.ts';

/** Factors of a request's limit after consecutive late requests: 3, 6, 12, 30 seconds of a read. */
const factors = [1, 2, 4, 10] as const;
/** Time after the last slow answer during which a server counts as slow. */
const slowForMs = 60_000;
const firstAtOnce = 8;
/** A kube-apiserver allows 100 streams on a connection. */
const mostAtOnce = 100;
/** Bytes of answers that may be in flight at a time. */
const mostBytes = 4 * 1024 * 1024;
const smallBytes = 64 * 1024;

export class Pace {
  /** Chunks of answers received: as long as it grows, the server delivers. */
  delivered = 0;
  readonly #clock: Clock;
  #step = 0;
  #slowAt: Date | undefined;
  #atOnce = firstAtOnce;
  /** Most concurrent requests by connections: without HTTP/2 each request in flight has a connection of its own. */
  #ceiling = mostAtOnce;
  #running = 0;
  /** Requests that wait for their turn, in order of arrival. */
  readonly #waiting = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get step(): number {
    if (!isRecent(this.#slowAt, slowForMs, this.#clock.now())) this.#step = 0;
    return this.#step;
  }

  /** Returns milliseconds. */
  limitMs(usualMs: number, longestMs: number): number {
    return Math.max(usualMs, Math.min(usualMs * (factors[this.step] ?? 1), longestMs));
  }

  /** Resolves with true when it is this request's turn, until `leave`; with false when the signal aborts before. */
  async enter(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    const { promise, resolve } = Promise.withResolvers<void>();
    const giveUp = (): void => resolve();
    this.#waiting.add(resolve);
    this.#next();
    signal.addEventListener('abort', giveUp, { once: true });
    await promise;
    signal.removeEventListener('abort', giveUp);
    return !this.#waiting.delete(resolve);
  }

  leave(): void {
    this.#running -= 1;
    this.#next();
  }

  /** Sets the limit of concurrent requests without HTTP/2. */
  bound(ceiling: number | undefined): void {
    this.#ceiling = ceiling ?? mostAtOnce;
  }

  /** Records an answer of `bytes` after `tookMs`; `usualMs` is its usual limit. */
  answered(tookMs: number, usualMs: number, bytes: number): void {
    if (tookMs > usualMs / 2) this.#slowAt = this.#clock.now();
    const fitting = Math.max(2, Math.floor(mostBytes / Math.max(bytes, 1)));
    this.#atOnce = Math.min(this.#atOnce + (bytes < smallBytes ? 1 : 0), fitting, mostAtOnce);
  }

  /**
   * Records a limit, set at this step, that passed although data arrived. `crowded`: answers to requests came all the
   * time.
   */
  late(step: number, crowded: boolean): void {
    if (crowded) this.#atOnce = Math.max(2, Math.floor(Math.min(this.#atOnce, this.#running) / 4));
    if (step === this.step) this.#step = Math.min(step + 1, factors.length - 1); // of many late requests one counts
    this.#slowAt = this.#clock.now();
  }

  get #most(): number {
    return Math.min(this.#atOnce, this.#ceiling);
  }

  #next(): void {
    for (const resolve of this.#waiting) {
      if (this.#running >= this.#most) return;
      this.#waiting.delete(resolve);
      this.#running += 1;
      resolve();
    }
  }
}
