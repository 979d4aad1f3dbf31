// How patient to be with one API server, and how much to ask of it at a time. After an outage, on a machine that is busy
// or swaps, every answer comes late, and giving up at the same moment each time would never end: a limit that passed while
// the server was heard makes the next one longer, and answers that are slow keep it so. What is asked for side by side
// begins small and grows with each answer: who may write objects decides how large they are.
import { type Clock, isRecent } from '../clock.ts';

/** Limits of requests after so many that passed: 3, 6, 12, 30 seconds of a read. */
const factors = [1, 2, 4, 10] as const;
/** So long after the last slow answer a server counts as slow. */
const slowForMs = 60_000;
const firstAtOnce = 8;
/** A kube-apiserver allows 100 streams on a connection. */
const mostAtOnce = 100;
/** Bytes of answers that may be on their way at a time. */
const mostBytes = 4 * 1024 * 1024;
const smallBytes = 64 * 1024;

export class Pace {
  /** Pieces of answers that have come: as long as it grows, the server delivers. */
  delivered = 0;
  readonly #clock: Clock;
  #step = 0;
  #slowAt: Date | undefined;
  #atOnce = firstAtOnce;
  /** Without HTTP/2 each request that is on its way has a connection of its own. */
  #ceiling = mostAtOnce;
  #running = 0;
  /** Those that wait for their turn, in the order in which they came. */
  readonly #waiting = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get step(): number {
    if (!isRecent(this.#slowAt, slowForMs, this.#clock.now())) this.#step = 0;
    return this.#step;
  }

  /** Milliseconds. */
  limitMs(usualMs: number, longestMs: number): number {
    return Math.max(usualMs, Math.min(usualMs * (factors[this.step] ?? 1), longestMs));
  }

  /** Resolves with true when it is this request's turn, which ends by `leave`; with false when the signal aborts before. */
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

  /** Most requests at a time without HTTP/2. */
  bound(ceiling: number | undefined): void {
    this.#ceiling = ceiling ?? mostAtOnce;
  }

  /** An answer came, of so many bytes, after so long; `usualMs` is what it might have taken. */
  answered(tookMs: number, usualMs: number, bytes: number): void {
    if (tookMs > usualMs / 2) this.#slowAt = this.#clock.now();
    const fitting = Math.max(2, Math.floor(mostBytes / Math.max(bytes, 1)));
    this.#atOnce = Math.min(this.#atOnce + (bytes < smallBytes ? 1 : 0), fitting, mostAtOnce);
  }

  /** A limit passed that was made at this step, although the server was heard. `crowded`: all the while answers came. */
  late(step: number, crowded: boolean): void {
    if (crowded) this.#atOnce = Math.max(2, Math.floor(Math.min(this.#atOnce, this.#running) / 4));
    if (step === this.step) this.#step = Math.min(step + 1, factors.length - 1); // of many at once one counts
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
