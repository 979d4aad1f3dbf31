import { beforeEach, describe, expect, it } from 'vitest';
import { Pace } from '../../lib/kube/pace.ts';
import { FakeClock } from '../support/fake-clock.ts';

const { signal } = new AbortController();
const small = 1000;
const megabyte = 1 << 20;

let clock: FakeClock;
let pace: Pace;
beforeEach(() => {
  clock = new FakeClock('2026-06-01T00:00:00Z');
  pace = new Pace(clock);
});

const limit = (): number => pace.limitMs(3000, 30_000);

describe('Pace.limitMs()', () => {
  it('grows with each limit that passed, up to the longest', () => {
    const limits = Array.from({ length: 5 }, () => {
      const now = limit();
      pace.late(pace.step, false);
      return now;
    });
    expect(limits).toEqual([3000, 6000, 12_000, 30_000, 30_000]);
    expect(pace.limitMs(5000, 15_000)).toBe(15_000);
    expect(pace.limitMs(20_000, 10_000)).toBe(20_000);
  });

  it('grows once for all that were given up together', () => {
    const { step } = pace;
    for (let count = 0; count < 30; count += 1) pace.late(step, false);
    expect(limit()).toBe(6000);
  });

  it('stays as long as answers are slow, and for a minute after that', () => {
    pace.late(0, false);
    for (let count = 0; count < 5; count += 1) {
      clock.advance(50_000);
      pace.answered(5000, 3000, small);
    }
    expect(limit()).toBe(6000);
    clock.advance(50_000);
    pace.answered(10, 3000, small);
    expect(limit()).toBe(6000);
    clock.advance(11_000);
    expect(limit()).toBe(3000);
  });

  it('is the usual one after the clock was set back', () => {
    pace.late(0, false);
    clock.advance(-3_600_000);
    expect(limit()).toBe(3000);
  });
});

describe('Pace.enter()', () => {
  /** How many of so many have their turn. */
  async function running(count: number): Promise<number> {
    let entered = 0;
    for (let at = 0; at < count; at += 1) void pace.enter(signal).then((has) => (entered += has ? 1 : 0));
    await new Promise(setImmediate);
    return entered;
  }

  it('lets through more with each answer, in the order in which they came', async () => {
    const order: number[] = [];
    for (let at = 0; at < 100; at += 1) void pace.enter(signal).then(() => order.push(at));
    await new Promise(setImmediate);
    expect(order).toHaveLength(8);
    for (let count = 0; count < 8; count += 1) {
      pace.answered(10, 3000, small);
      pace.leave();
    }
    void pace.enter(signal).then(() => order.push(100));
    await new Promise(setImmediate);
    expect(order).toEqual(Array.from({ length: 24 }, (_, at) => at));
  });

  it('lets through few where answers are large', async () => {
    pace.answered(10, 3000, 1.5 * megabyte);
    expect(await running(60)).toBe(2);
    pace = new Pace(clock);
    pace.answered(10, 3000, 9 * megabyte);
    expect(await running(60)).toBe(2);
  });

  it('lets through fewer where a limit passed although answers came all the while', async () => {
    expect(await running(8)).toBe(8);
    pace.late(0, true);
    for (let count = 0; count < 6; count += 1) pace.leave();
    expect(await running(10)).toBe(0);
    pace.leave();
    expect(await running(0)).toBe(0);
  });

  it('gives no turn to who has given up', async () => {
    pace.bound(1);
    expect(await running(1)).toBe(1);
    const stop = new AbortController();
    const waiting = pace.enter(stop.signal);
    stop.abort();
    expect(await waiting).toBe(false);
    pace.leave();
    expect(await running(2)).toBe(1);
  });
});
