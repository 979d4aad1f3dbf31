import { describe, expect, it } from 'vitest';
import { backoffMs, Wake } from '../lib/retry.ts';
import { FakeClock } from './support/fake-clock.ts';

const options = { firstMs: 100, longestMs: 1000 };

it('backoffMs() doubles up to the limit', () => {
  for (const random of [() => 1, undefined]) {
    const delays = [1, 2, 3, 4, 5, 60, 5000].map((attempt) => backoffMs(attempt, { ...options, random }));
    expect(delays).toEqual([100, 200, 400, 800, 1000, 1000, 1000]);
  }
});

it('backoffMs() spreads waiters over the upper half, and never returns 0', () => {
  expect(backoffMs(1, { ...options, random: () => 0 })).toBe(50);
  expect(backoffMs(0, { ...options, random: () => 0 })).toBe(50);
  expect(backoffMs(9, { ...options, random: () => 0.5 })).toBe(750);
});

describe('Wake', () => {
  const never = new AbortController().signal;

  it('wait() ends at once after calls that came before, and only once', async () => {
    const clock = new FakeClock();
    const wake = new Wake();
    wake.call();
    wake.call();
    expect(await wake.wait({ clock, signal: never })).toBe(true);
    const waiting = wake.wait({ clock, signal: never }, 1000);
    await clock.waiting();
    clock.advance(1000);
    expect(await waiting).toBe(false);
  });

  it('wait() ends with the next call, and leaves no timer', async () => {
    const clock = new FakeClock();
    const wake = new Wake();
    const waiting = wake.wait({ clock, signal: never }, 1000);
    await clock.waiting();
    wake.call();
    expect(await waiting).toBe(true);
    expect(clock.nextWake).toBeUndefined();
  });

  it('wait() ends when the signal aborts', async () => {
    const wake = new Wake();
    const stop = new AbortController();
    const waiting = wake.wait({ clock: new FakeClock(), signal: stop.signal });
    stop.abort();
    expect(await waiting).toBe(false);
  });

  it('clear() forgets calls', async () => {
    const wake = new Wake();
    wake.call();
    wake.clear();
    expect(await wake.wait({ clock: new FakeClock(), signal: AbortSignal.abort() })).toBe(false);
  });
});
