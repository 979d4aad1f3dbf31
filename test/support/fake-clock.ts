// A Clock that stands still until a test moves it. Wall clock and uptime are moved together (time passes), or the wall
// clock alone (an administrator sets it): that is how a jump of the clock is told from a suspended machine.
import type { Clock } from '../../lib/clock.ts';

interface Sleeper {
  /** On the fake timer's scale, which neither a set clock nor a suspended machine moves. */
  readonly wakeAt: number;
  readonly wake: () => void;
}

export class FakeClock implements Clock {
  #now: number;
  #uptimeMs: number | undefined;
  #timerMs = 0;
  readonly #sleepers = new Set<Sleeper>();
  readonly #watchers = new Set<{ readonly count: number; readonly resolve: () => void }>();

  constructor(now: Date | string = '2026-01-01T00:00:00Z', uptimeSeconds: number | undefined = 3600) {
    this.#now = new Date(now).getTime();
    this.#uptimeMs = uptimeSeconds === undefined ? undefined : uptimeSeconds * 1000;
  }

  now(): Date {
    return new Date(this.#now);
  }

  uptimeSeconds(): number | undefined {
    return this.#uptimeMs === undefined ? undefined : this.#uptimeMs / 1000;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const wake = (): void => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const sleeper: Sleeper = { wakeAt: this.#timerMs + Math.max(ms, 0), wake };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', wake, { once: true });
      for (const watcher of this.#watchers) {
        if (this.#sleepers.size >= watcher.count) watcher.resolve();
      }
    });
  }

  /** How many sleep now. */
  get sleeping(): number {
    return this.#sleepers.size;
  }

  /** Milliseconds until the next of them wakes; undefined when none sleeps. */
  get nextWake(): number | undefined {
    const [first] = this.#inOrder();
    return first === undefined ? undefined : first.wakeAt - this.#timerMs;
  }

  /** Resolves as soon as `count` sleep: what was to be done before that is done. */
  async waiting(count = 1): Promise<void> {
    if (this.#sleepers.size >= count) return;
    await new Promise<void>((resolve) => {
      const watcher = {
        count,
        resolve: (): void => {
          this.#watchers.delete(watcher);
          resolve();
        },
      };
      this.#watchers.add(watcher);
    });
  }

  /** Time passes: wall clock, uptime and timers. Sleepers wake in their order, each at its own time. */
  advance(ms: number): void {
    const end = this.#timerMs + ms;
    for (let [next] = this.#inOrder(); next !== undefined && next.wakeAt <= end; [next] = this.#inOrder()) {
      this.#pass(next.wakeAt - this.#timerMs);
      next.wake();
    }
    this.#pass(end - this.#timerMs);
  }

  /** The machine is suspended: wall clock and uptime go on, timers do not (CLOCK_MONOTONIC). */
  suspend(ms: number): void {
    this.#now += ms;
    if (this.#uptimeMs !== undefined) this.#uptimeMs += ms;
  }

  /** The wall clock is set: uptime and timers know nothing of it. */
  set(now: Date | string): void {
    this.#now = new Date(now).getTime();
  }

  #pass(ms: number): void {
    this.#timerMs += ms;
    this.suspend(ms);
  }

  #inOrder(): Sleeper[] {
    return [...this.#sleepers].toSorted((a, b) => a.wakeAt - b.wakeAt);
  }
}
