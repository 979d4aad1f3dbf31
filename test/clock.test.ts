import { afterEach, describe, expect, it, vi } from 'vitest';
import { createUptime, isRecent, systemClock } from '../lib/clock.ts';
import { FakeClock } from './support/fake-clock.ts';

const start = new Date('2026-01-01T00:00:00Z');
const hour = 3_600_000;

describe('systemClock', () => {
  it('sleep() resolves at once when its signal has aborted or aborts', async () => {
    await systemClock.sleep(hour, AbortSignal.abort());
    const stop = new AbortController();
    const sleeping = systemClock.sleep(hour, stop.signal);
    stop.abort();
    await sleeping;
  });

  it('sleep() takes the time asked for, and a negative time is none', async () => {
    const before = performance.now();
    await systemClock.sleep(30);
    expect(performance.now() - before).toBeGreaterThanOrEqual(29);
    await systemClock.sleep(-1);
  });

  it('sleep() above the longest timer waits instead of returning at once', async () => {
    const stop = new AbortController();
    let woken = false;
    const sleeping = systemClock.sleep(2 ** 40, stop.signal).then(() => (woken = true));
    await systemClock.sleep(20);
    expect(woken).toBe(false);
    stop.abort();
    await sleeping;
  });

  describe('on a machine that is suspended or whose clock is set', () => {
    afterEach(() => void vi.useRealTimers());

    /** Where a sleep of an hour stands after its timer ran for `ranMs`, and the wall clock besides by `movedMs`. */
    async function sleptAfter(ranMs: number, movedMs: number): Promise<'awake' | 'asleep'> {
      vi.useFakeTimers({ now: start, toFake: ['Date', 'setTimeout', 'clearTimeout'] });
      const stop = new AbortController();
      let state: 'awake' | 'asleep' = 'asleep';
      const sleeping = systemClock.sleep(hour, stop.signal).then(() => (state = 'awake'));
      await vi.advanceTimersByTimeAsync(10_000);
      vi.setSystemTime(start.getTime() + 10_000 + movedMs);
      await vi.advanceTimersByTimeAsync(ranMs - 10_000);
      const found = state;
      stop.abort();
      await sleeping;
      return found;
    }

    it.each<[string, number, number, 'awake' | 'asleep']>([
      ['the time passed while it was suspended', 30_000, hour, 'awake'],
      ['a part of the time passed while it was suspended', 30_000, hour / 2, 'asleep'],
      ['the rest has passed too', hour / 2 + 30_000, hour / 2, 'awake'],
      ['nothing happened', hour - 1, 0, 'asleep'],
      ['nothing happened, and the time is over', hour, 0, 'awake'],
      ['the clock was set back: it does not sleep for longer', hour, -24 * hour, 'awake'],
    ])('sleep(): %s', async (_what, ranMs, movedMs, expected) => {
      expect(await sleptAfter(ranMs, movedMs)).toBe(expected);
    });
  });

  it('uptimeSeconds() goes on', async () => {
    const before = systemClock.uptimeSeconds() ?? Number.NaN;
    await systemClock.sleep(50);
    // /proc/uptime counts hundredths of a second.
    expect((systemClock.uptimeSeconds() ?? Number.NaN) - before).toBeGreaterThanOrEqual(0.04);
  });
});

describe('FakeClock', () => {
  it('stands still until it is moved', () => {
    const clock = new FakeClock(start, 100);
    expect(clock.now()).toEqual(start);
    expect(clock.uptimeSeconds()).toBe(100);
    clock.advance(hour);
    expect(clock.now()).toEqual(new Date('2026-01-01T01:00:00Z'));
    expect(clock.uptimeSeconds()).toBe(3700);
  });

  it('set() moves the wall clock alone: a jump', () => {
    const clock = new FakeClock(start, 100);
    clock.set('2036-01-01T00:00:00Z');
    expect(clock.now().getUTCFullYear()).toBe(2036);
    expect(clock.uptimeSeconds()).toBe(100);
  });

  it('suspend() moves wall clock and uptime, and wakes nobody', async () => {
    const clock = new FakeClock(start, 100);
    const stop = new AbortController();
    const sleeping = clock.sleep(1000, stop.signal);
    clock.suspend(hour);
    expect(clock.now()).toEqual(new Date('2026-01-01T01:00:00Z'));
    expect(clock.uptimeSeconds()).toBe(3700);
    expect(clock.nextWake).toBe(1000);
    stop.abort();
    await sleeping;
  });

  it('advance() wakes sleepers in their order, each at its own time', async () => {
    const clock = new FakeClock(start);
    const woken: [string, Date][] = [];
    const sleeper = async (name: string, ms: number): Promise<void> => {
      await clock.sleep(ms);
      woken.push([name, clock.now()]);
    };
    const all = [sleeper('late', 3000), sleeper('early', 1000), sleeper('later', 9000)];
    expect(clock.sleeping).toBe(3);
    expect(clock.nextWake).toBe(1000);
    clock.advance(3000);
    await Promise.all(all.slice(0, 2));
    expect(woken.map(([name]) => name)).toEqual(['early', 'late']);
    expect(clock.sleeping).toBe(1);
    expect(clock.nextWake).toBe(6000);
    clock.advance(6000);
    await all[2];
  });

  it('waiting() resolves when so many sleep, and at once when they do already', async () => {
    const clock = new FakeClock(start);
    let resolved = false;
    const waiting = clock.waiting(2).then(() => (resolved = true));
    const first = clock.sleep(1);
    await Promise.resolve();
    expect(resolved).toBe(false);
    const second = clock.sleep(1);
    await waiting;
    await clock.waiting(2);
    clock.advance(1);
    await Promise.all([first, second]);
    expect(clock.sleeping).toBe(0);
  });

  it('steps a loop: it works, sleeps, and is moved to its next wake', async () => {
    const clock = new FakeClock(start);
    const stop = new AbortController();
    const looks: string[] = [];
    const loop = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        looks.push(clock.now().toISOString());
        await clock.sleep(30_000, stop.signal);
      }
    };
    const running = loop();
    for (let step = 0; step < 2; step += 1) {
      await clock.waiting();
      clock.advance(clock.nextWake ?? Number.NaN);
    }
    await clock.waiting();
    stop.abort();
    await running;
    expect(looks).toEqual(['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:30.000Z', '2026-01-01T00:01:00.000Z']);
  });

  it('sleep() resolves at once when its signal has aborted', async () => {
    const clock = new FakeClock(start);
    await clock.sleep(hour, AbortSignal.abort());
    expect(clock.sleeping).toBe(0);
  });
});

describe('createUptime()', () => {
  it('goes on from the last reading when one fails, so that no two times are of different clocks', () => {
    const readings = [100, undefined, 107];
    let ms = 5000;
    const uptime = createUptime(
      () => readings.shift(),
      () => ms,
    );
    expect(uptime()).toBe(100);
    ms += 2500;
    expect(uptime()).toBe(102.5);
    expect(uptime()).toBe(107);
  });

  it('is unknown for good where it was unknown at first', () => {
    const readings = [undefined, 100];
    const uptime = createUptime(() => readings.shift());
    expect([uptime(), uptime()]).toEqual([undefined, undefined]);
  });
});

it.each<[string, Date | undefined, boolean]>([
  ['of this moment', new Date('2026-11-25T08:00:00.000Z'), true],
  ['of an hour less a millisecond', new Date('2026-11-25T07:00:00.001Z'), true],
  ['of an hour', new Date('2026-11-25T07:00:00.000Z'), false],
  ['of the future', new Date('2026-11-25T08:00:00.001Z'), false],
  ['that is not known', undefined, false],
])('isRecent() for an hour: a time %s', (_, remembered, answer) => {
  expect(isRecent(remembered, 3_600_000, new Date('2026-11-25T08:00:00Z'))).toBe(answer);
});
