// A signal that aborts when the caller's does, or when the time is up.
import type { Clock } from '../clock.ts';

/** Without a reason of ours each answer would make a DOMException, with its stack, that nobody reads. */
const answered = 'answered';

export class TimeLimit {
  passed = false;
  /** Rejects when the signal aborts. */
  readonly reached: Promise<never>;
  readonly #stop = new AbortController();
  readonly #finished = new AbortController();
  readonly #caller: AbortSignal;
  readonly #abort = (): void => this.#stop.abort();

  constructor(clock: Clock, ms: number, caller: AbortSignal) {
    this.#caller = caller;
    this.reached = new Promise((_, reject) => {
      this.#stop.signal.addEventListener('abort', () => reject(new Error('given up')), { once: true });
    });
    this.reached.catch(() => undefined); // whoever waits for it sees it; nobody may
    if (caller.aborted) this.#abort();
    else caller.addEventListener('abort', this.#abort, { once: true });
    void this.#wait(clock, ms);
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  end(): void {
    this.#finished.abort(answered);
    this.#caller.removeEventListener('abort', this.#abort);
  }

  async #wait(clock: Clock, ms: number): Promise<void> {
    await clock.sleep(ms, this.#finished.signal);
    if (this.#finished.signal.aborted) return;
    this.passed = true;
    this.#abort();
  }
}
