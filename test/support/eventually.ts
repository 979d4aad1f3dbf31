// Waits for a state of real components, with a limit: the last failure of the check is the failure of the test. It is
// for what another process does in its own time, never to make an unreliable test pass.
import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  readonly withinMs?: number;
  readonly everyMs?: number;
}

/** Resolves with what `check` returns once it does not throw. */
export async function eventually<T>(
  check: () => T | Promise<T>,
  { withinMs = 240_000, everyMs = 50 }: EventuallyOptions = {},
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (err) {
      if (performance.now() >= deadline) throw err;
    }
    await delay(everyMs);
  }
}
