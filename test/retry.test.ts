import { describe, expect, it } from 'vitest';
import { Repeats } from '../lib/log.ts';
import { backoffMs, poll, retry, waitAtMost, Wake } from '../lib/retry.ts';
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

describe('waitAtMost()', () => {
  it('ends with the work and leaves no timer, whether it is done or fails', async () => {
    const clock = new FakeClock();
    await waitAtMost(1000, Promise.resolve(), { clock });
    await expect(waitAtMost(1000, Promise.reject(new Error('no')), { clock })).rejects.toThrow('no');
    expect(clock.nextWake).toBeUndefined();
  });

  it('ends when the time is over, and when the signal aborts', async () => {
    const clock = new FakeClock();
    const never = new Promise<void>(() => undefined);
    const waiting = waitAtMost(1000, never, { clock });
    await clock.waiting();
    clock.advance(1000);
    await waiting;
    await waitAtMost(1000, never, { clock, signal: AbortSignal.abort() });
  });
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

/** Sleeps pass at once. */
class QuickClock extends FakeClock {
  override sleep(ms: number): Promise<void> {
    this.advance(ms);
    return Promise.resolve();
  }
}

describe('with patience for a second', () => {
  const patience = (signal = new AbortController().signal) => ({
    forMs: 1000,
    everyMs: 400,
    clock: new QuickClock(),
    signal,
  });

  it('poll() looks until something is found, or the time is over', async () => {
    let looks = 0;
    const third = (): number | undefined => ((looks += 1) === 3 ? looks : undefined);
    expect(await poll(third, patience())).toBe(3);
    expect(await poll(() => ((looks += 1), undefined), patience())).toBeUndefined();
    expect(looks).toBe(3 + 4);
  });

  it('retry() throws the last failure, and at once what will not come right', async () => {
    let tries = 0;
    const fail = (): Promise<never> => Promise.reject(new Error(`failure ${(tries += 1)}`));
    await expect(retry(fail, () => true, patience())).rejects.toThrow('failure 4');
    await expect(retry(fail, () => false, patience())).rejects.toThrow('failure 5');
    await expect(retry(fail, () => true, patience(AbortSignal.abort()))).rejects.toThrow('failure 6');
    expect(
      await retry(
        () => Promise.resolve(tries),
        () => true,
        patience(),
      ),
    ).toBe(6);
  });
});

it('Repeats are logged at the begin, when they change, and ever more rarely', () => {
  const clock = new FakeClock();
  const repeats = new Repeats(clock, 60_000, 120_000);
  const met = (text: string, afterMs: number): number | undefined => {
    clock.advance(afterMs);
    return repeats.met('one', text);
  };
  expect([met('a', 0), met('a', 59_000), met('a', 1000), met('a', 119_000), met('a', 1000), met('b', 0)]).toEqual([
    1,
    undefined,
    3,
    undefined,
    5,
    1,
  ]);
  expect([repeats.ended('one'), repeats.ended('one'), met('b', 0)]).toEqual([true, false, 1]);
});
