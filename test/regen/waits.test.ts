import { describe, expect, it } from 'vitest';
import {
  counted,
  pollPace,
  isBusy,
  isSettled,
  apiPollDelay,
  next,
  noStreaks,
  unreadDelay,
} from '../../lib/regen/waits.ts';
import type { Next, PassOutcome, Streaks } from '../../lib/regen/waits.ts';

const now = new Date('2026-06-01T00:00:00Z');
const later = (ms: number): Date => new Date(now.getTime() + ms);
const quiet: PassOutcome = {
  unavailable: 0,
  written: 0,
  conflicts: 0,
  failed: 0,
  blocked: 0,
  settling: 0,
  awaiting: 0,
  recheckAt: later(3_600_000),
};

interface Row {
  readonly name: string;
  readonly outcome?: Partial<PassOutcome>;
  readonly streaks?: Partial<Streaks>;
  readonly busyForMs?: number;
  readonly once?: boolean;
  readonly polled?: boolean;
  readonly expected: Next;
}

describe('next()', () => {
  it.each<Row>([
    { name: 'nothing to do: half a minute at most', expected: { kind: 'again', delayMs: 30_000 } },
    { name: 'a date that is near', outcome: { recheckAt: later(1234) }, expected: { kind: 'again', delayMs: 1234 } },
    {
      name: 'a date that has passed: no hot loop',
      outcome: { recheckAt: later(-5) },
      expected: { kind: 'again', delayMs: 100 },
    },
    { name: 'once, nothing to do', once: true, expected: { kind: 'done', converged: true } },
    {
      name: 'once, blocked for a reason',
      outcome: { blocked: 2 },
      once: true,
      expected: { kind: 'done', converged: true },
    },
    {
      name: 'once, a contradiction to believe in',
      outcome: { settling: 1, recheckAt: later(500) },
      once: true,
      expected: { kind: 'again', delayMs: 500 },
    },
    {
      name: 'all written: looks whether it is true',
      outcome: { written: 12 },
      streaks: { written: 1 },
      expected: { kind: 'again', delayMs: 0 },
    },
    {
      name: 'a conflict: looks again at once',
      outcome: { conflicts: 1 },
      streaks: { written: 5 },
      expected: { kind: 'again', delayMs: 0 },
    },
    {
      name: 'conflict after conflict: slower',
      outcome: { conflicts: 1 },
      streaks: { written: 6 },
      expected: { kind: 'again', delayMs: 100 },
    },
    {
      name: 'writes that never help: ever slower',
      outcome: { written: 1 },
      streaks: { written: 12 },
      expected: { kind: 'again', delayMs: 6400 },
    },
    {
      name: 'writes that never help, for long',
      outcome: { written: 1 },
      streaks: { written: 5000 },
      expected: { kind: 'again', delayMs: 30_000 },
    },
    {
      name: 'writes that a webhook has refused once: again soon',
      outcome: { failed: 13, refusedCost: 43 },
      streaks: { failed: 1 },
      expected: { kind: 'again', delayMs: 200 },
    },
    {
      name: 'writes that a webhook refuses: no more than its look may cost',
      outcome: { failed: 13, refusedCost: 43 },
      streaks: { failed: 2 },
      expected: { kind: 'again', delayMs: 10_750 },
    },
    {
      name: 'rows that are asked for between looks',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 3 },
      polled: true,
      expected: { kind: 'again', delayMs: 30_000 },
    },
    {
      name: 'a failed write',
      outcome: { failed: 1 },
      streaks: { failed: 1 },
      expected: { kind: 'again', delayMs: 200 },
    },
    {
      name: 'a write that fails for ever',
      outcome: { failed: 1 },
      streaks: { failed: 99 },
      expected: { kind: 'again', delayMs: 30_000 },
    },
    {
      name: 'a row that cannot be read',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 1 },
      expected: { kind: 'again', delayMs: 100 },
    },
    {
      name: 'a row that cannot be read for a while',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 40 },
      expected: { kind: 'again', delayMs: 1000 },
    },
    {
      name: 'a row that is forbidden for good',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 100 },
      expected: { kind: 'again', delayMs: 10_000 },
    },
    {
      name: 'once, a row that cannot be read yet',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 9 },
      busyForMs: 29_000,
      once: true,
      expected: { kind: 'again', delayMs: 1000 },
    },
    {
      name: 'once, a row that cannot be read, before the last try',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 9 },
      busyForMs: 29_990,
      once: true,
      expected: { kind: 'again', delayMs: 10 },
    },
    {
      name: 'once, a row that cannot be read',
      outcome: { unavailable: 1 },
      streaks: { unavailable: 40 },
      busyForMs: 30_000,
      once: true,
      expected: { kind: 'done', converged: false },
    },
    {
      name: 'once, a write that fails',
      outcome: { failed: 1 },
      streaks: { failed: 9 },
      busyForMs: 30_000,
      once: true,
      expected: { kind: 'done', converged: false },
    },
    {
      name: 'once, all written after failures: looks whether it is true',
      outcome: { written: 2 },
      streaks: { written: 1 },
      busyForMs: 30_000,
      once: true,
      expected: { kind: 'again', delayMs: 0 },
    },
    {
      name: 'once, another writes against it again and again',
      outcome: { written: 2 },
      streaks: { written: 6 },
      busyForMs: 30_000,
      once: true,
      expected: { kind: 'done', converged: false },
    },
    {
      name: 'the first failed write beside a row that is forbidden for good',
      outcome: { failed: 1, unavailable: 1 },
      streaks: { failed: 1, unavailable: 5000 },
      expected: { kind: 'again', delayMs: 200 },
    },
    {
      name: 'a lost race beside a write that fails for ever',
      outcome: { failed: 1, conflicts: 1 },
      streaks: { failed: 99, written: 1 },
      expected: { kind: 'again', delayMs: 0 },
    },
    {
      name: 'a row that cannot be read yet beside a write that fails for ever',
      outcome: { failed: 1, unavailable: 1 },
      streaks: { failed: 99, unavailable: 1 },
      expected: { kind: 'again', delayMs: 100 },
    },
  ])('$name', ({ outcome, streaks, busyForMs = 0, once = false, polled = false, expected }) => {
    const all = { ...noStreaks, ...streaks, ...(streaks !== undefined && { busySince: later(-busyForMs) }) };
    expect(next({ outcome: { ...quiet, ...outcome }, streaks: all, now, once, polled })).toEqual(expected);
  });
});

describe('counted()', () => {
  it('counts each trouble apart, and begins again when it is over', () => {
    const [one, two, three] = [now, later(1000), later(2000)];
    const first = counted(noStreaks, { ...quiet, unavailable: 2, written: 1 }, one);
    expect(first).toEqual({
      unavailable: 1,
      failed: 0,
      written: 1,
      busySince: one,
      restlessSince: one,
      unavailableSince: one,
      lastChangeAt: one,
    });
    const second = counted(first, { ...quiet, failed: 1, unavailable: 1 }, two);
    expect(second).toEqual({
      unavailable: 2,
      failed: 1,
      written: 0,
      busySince: one,
      restlessSince: one,
      unavailableSince: one,
      lastChangeAt: one,
    });
    const third = counted(second, { ...quiet, conflicts: 1 }, three);
    expect(third).toEqual({
      unavailable: 0,
      failed: 0,
      written: 1,
      busySince: one,
      restlessSince: one,
      lastChangeAt: three,
    });
    expect(counted(third, { ...quiet, blocked: 1, settling: 1 }, three)).toEqual({
      ...noStreaks,
      restlessSince: one,
      lastChangeAt: three,
    });
  });

  it('remembers since when others are awaited', () => {
    const first = counted(noStreaks, { ...quiet, awaiting: 1 }, now);
    const second = counted(first, { ...quiet, awaiting: 3 }, later(1000));
    expect(second).toEqual({ ...noStreaks, awaitingSince: now });
    expect(counted(second, quiet, later(2000))).toEqual(noStreaks);
  });
});

describe('pollPace()', () => {
  const after = (ms: number, streaks: Partial<Streaks>): string | undefined => {
    const pace = pollPace({ ...noStreaks, ...streaks }, later(ms));
    return pace && `${pace.of} ${pace.delayMs}`;
  };
  const at = [0, 599, 600, 14_999, 15_000, 59_999, 60_000, 86_400_000];

  it('is nothing while all is well', () => expect(after(0, {})).toBeUndefined());
  it('is short for a moment after a write of ours, then one object at a time, and nothing a minute later', () => {
    expect(at.map((ms) => after(ms, { lastChangeAt: now }))).toEqual([
      'all 100',
      'all 100',
      'one 300',
      'one 300',
      'one 1000',
      'one 1000',
      undefined,
      undefined,
    ]);
  });
  it('goes on as long as others are awaited', () => {
    expect(at.slice(-2).map((ms) => after(ms, { awaitingSince: now }))).toEqual(['all 5000', 'all 5000']);
    expect(after(0, { awaitingSince: now })).toBe('all 100');
  });
  it('counts from the later of the two', () => {
    expect(after(60_500, { awaitingSince: now, lastChangeAt: later(60_000) })).toBe('all 100');
  });
  it('is as before the recovery when the clock was set back', () => {
    expect(after(-1, { lastChangeAt: now })).toBeUndefined();
    expect(after(-1, { awaitingSince: now })).toBe('all 5000');
  });
  it('reads three objects at most five times a second over any ten seconds', () => {
    const reads: number[] = [];
    for (let ms = 0; ms < 70_000;) {
      const pace = pollPace({ ...noStreaks, lastChangeAt: now }, later(ms));
      ms += pace?.delayMs ?? 70_000;
      if (pace !== undefined) reads.push(...(pace.of === 'all' ? [ms, ms, ms] : [ms]));
    }
    const within = (from: number): number => reads.filter((ms) => ms >= from && ms < from + 10_000).length;
    expect(Math.max(...reads.map(within))).toBeLessThanOrEqual(50);
  });
});

describe('unreadDelay()', () => {
  it('is short at first, and a row that is forbidden for good is asked for ever more rarely', () => {
    const at = [0, 499, 500, 29_999, 30_000, 119_999, 120_000, 86_400_000, -1];
    expect(at.map(unreadDelay)).toEqual([100, 100, 250, 250, 1000, 1000, 10_000, 10_000, 10_000]);
  });
});

const settled = (outcome: Partial<PassOutcome>, unavailableForMs = 0): boolean => {
  const all = { ...quiet, ...outcome };
  return isSettled({ outcome: all, streaks: counted(noStreaks, all, later(-unavailableForMs)), now });
};

describe('isSettled()', () => {
  it.each(['written', 'conflicts', 'failed', 'settling'] as const)('is false after %s', (key) => {
    expect(settled({ [key]: 1 })).toBe(false);
  });
  it('is true when all is healthy or blocked', () => {
    expect(settled({ blocked: 3 })).toBe(true);
  });
  it('waits for a row that cannot be read while an API server may be starting, and no longer', () => {
    expect([0, 29_999, 30_000].map((ms) => settled({ unavailable: 1 }, ms))).toEqual([false, false, true]);
  });
});

describe('isBusy()', () => {
  it.each(['unavailable', 'written', 'conflicts', 'failed'] as const)('is true after %s', (key) => {
    expect(isBusy({ ...quiet, [key]: 1 })).toBe(true);
  });
  it('is false when all is healthy, blocked or settling', () => {
    expect(isBusy({ ...quiet, blocked: 3, settling: 1 })).toBe(false);
  });
});

describe('apiPollDelay()', () => {
  const at = [0, 29_999, 30_000, 120_000, 86_400_000];
  it('is a fifth of a second while a server starts, and a second at most where one refuses', () => {
    expect(at.map((ms) => apiPollDelay(ms))).toEqual([200, 200, 500, 1000, 1000]);
  });
  it('is a fifth of a second for as long as it is away', () => {
    expect(at.map((ms) => apiPollDelay(ms, true))).toEqual([200, 200, 200, 200, 200]);
  });
});
