import { describe, expect, it } from 'vitest';
import { counted, glanceDelay, isBusy, isSettled, knockDelay, next, noStreaks } from '../../lib/regen/waits.ts';
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
  readonly expected: Next;
}

describe('next()', () => {
  it.each<Row>([
    { name: 'nothing to do: half a minute at most', expected: { kind: 'wait', delayMs: 30_000 } },
    { name: 'a date that is near', outcome: { recheckAt: later(1234) }, expected: { kind: 'wait', delayMs: 1234 } },
    {
      name: 'a date that has passed: no hot loop',
      outcome: { recheckAt: later(-5) },
      expected: { kind: 'wait', delayMs: 100 },
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
      expected: { kind: 'wait', delayMs: 500 },
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
  ])('$name', ({ outcome, streaks, busyForMs = 0, once = false, expected }) => {
    const all = { ...noStreaks, ...streaks, ...(streaks !== undefined && { busySince: later(-busyForMs) }) };
    expect(next({ outcome: { ...quiet, ...outcome }, streaks: all, now, once })).toEqual(expected);
  });
});

describe('counted()', () => {
  it('counts each trouble apart, and begins anew when it is over', () => {
    const [one, two, three] = [now, later(1000), later(2000)];
    const first = counted(noStreaks, { ...quiet, unavailable: 2, written: 1 }, one);
    expect(first).toEqual({
      unavailable: 1,
      failed: 0,
      written: 1,
      busySince: one,
      unavailableSince: one,
      stirredAt: one,
    });
    const second = counted(first, { ...quiet, failed: 1, unavailable: 1 }, two);
    expect(second).toEqual({
      unavailable: 2,
      failed: 1,
      written: 0,
      busySince: one,
      unavailableSince: one,
      stirredAt: one,
    });
    const third = counted(second, { ...quiet, conflicts: 1 }, three);
    expect(third).toEqual({ unavailable: 0, failed: 0, written: 1, busySince: one, stirredAt: three });
    expect(counted(third, { ...quiet, blocked: 1, settling: 1 }, three)).toEqual({ ...noStreaks, stirredAt: three });
  });

  it('remembers since when others are awaited', () => {
    const first = counted(noStreaks, { ...quiet, awaiting: 1 }, now);
    const second = counted(first, { ...quiet, awaiting: 3 }, later(1000));
    expect(second).toEqual({ ...noStreaks, awaitingSince: now });
    expect(counted(second, quiet, later(2000))).toEqual(noStreaks);
  });
});

describe('glanceDelay()', () => {
  const after = (ms: number, streaks: Partial<Streaks>): number | undefined =>
    glanceDelay({ ...noStreaks, ...streaks }, later(ms));
  const at = [0, 14_999, 15_000, 59_999, 60_000, 86_400_000];

  it('is nothing while all is well', () => expect(after(0, {})).toBeUndefined());
  it('is short after a write of ours, and nothing a minute later', () => {
    expect(at.map((ms) => after(ms, { stirredAt: now }))).toEqual([100, 100, 500, 500, undefined, undefined]);
  });
  it('is short at first where others are awaited, and then as long as that lasts', () => {
    expect(at.map((ms) => after(ms, { awaitingSince: now }))).toEqual([100, 100, 500, 500, 5000, 5000]);
  });
  it('counts from the later of the two', () => {
    expect(after(70_000, { awaitingSince: now, stirredAt: later(60_000) })).toBe(100);
  });
  it('is as before the recovery when the clock was set back', () => {
    expect(after(-1, { stirredAt: now })).toBeUndefined();
    expect(after(-1, { awaitingSince: now })).toBe(5000);
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

describe('knockDelay()', () => {
  it('is a tenth of a second while a server starts, and a second at most', () => {
    expect([0, 29_999, 30_000, 120_000, 86_400_000].map(knockDelay)).toEqual([100, 100, 500, 1000, 1000]);
  });
});
