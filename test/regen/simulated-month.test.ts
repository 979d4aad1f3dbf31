// A month of three machines whose clocks differ, in seconds. What is promised: as long as a leader with a good clock lives,
// nothing is signed that a machine with a good clock (off by five minutes at most) cannot use within five minutes, whoever
// is a year ahead or set back meanwhile. When everything has expired and no leader lives, nobody can tell a clock that is
// a year ahead from a year off: then what it signs is useless until it is corrected, the others sign nothing over it, and
// all of it is reissued within a minute and a half of the correction, or when a witness confirms the time.
import { afterEach, describe, expect, it } from 'vitest';
import { day, hour, minute, SimulatedMonth } from './simulated-month.ts';

const year = 365 * day;
/** Of real time; a busy machine needs some. */
const mostMs = 300_000;
let month: SimulatedMonth;
afterEach(() => month.end());

const faults = (): (string | undefined)[] => month.writes.filter(({ fault }) => fault).map(({ fault }) => fault);

/** Off by minutes, each its own. */
async function started(): Promise<SimulatedMonth> {
  month = await SimulatedMonth.create();
  month.a.boot(3 * minute);
  month.b.boot(-2 * minute);
  month.c.boot(minute);
  return month;
}

/** All is renewed all the time, and what is there is good. */
async function daysPass(count: number): Promise<void> {
  const before = month.writes.length;
  for (let i = 0; i < count; i += 1) {
    await month.pass(day);
    if (month.unsound().length > 0) await month.rest();
    expect(month.unsound()).toEqual([]);
  }
  expect(month.writes.length).toBeGreaterThan(before + count);
}

/** A machine that did not lead loses its battery while it is off, and is corrected later. */
async function bootsAhead(forMs: number): Promise<void> {
  await month.b.off();
  month.leaders.set('kube-scheduler', month.c);
  await month.pass(5 * minute);
  month.b.boot(year);
  const before = month.writes.length;
  await month.pass(forMs);
  expect(month.writes.slice(before).filter(({ by }) => by === 'b')).toEqual([]);
  expect(month.unsound()).toEqual([]);
  month.b.set(-minute);
}

it(
  'a cluster that lives bears a machine that boots a year ahead, and one that is set back',
  async () => {
    await started();
    await daysPass(7);
    await bootsAhead(minute);
    await daysPass(6);
    await bootsAhead(2 * day);
    await daysPass(6);
    for (const backMs of [3 * hour, 20 * day]) {
      month.c.set(-backMs);
      await month.pass(6 * hour);
      expect(month.unsound()).toEqual([]);
      month.c.set(2 * minute);
      await daysPass(4);
    }
    expect(faults()).toEqual([]);
    expect(month.faults).toEqual([]);
    expect(new Set(month.writes.map(({ by }) => by))).toEqual(new Set(['a', 'b', 'c']));
  },
  mostMs,
);

describe('a cluster whose certificates have all expired while it was off', () => {
  async function deadWithOneAhead(): Promise<void> {
    await started();
    await daysPass(3);
    await month.end();
    await month.pass(40 * day);
    month.b.boot(year);
    await month.pass(2 * minute);
    expect(faults().length).toBe(0); // nobody is there who could not use it
    expect(month.unsound()).not.toEqual([]);
    month.a.boot(3 * minute);
    month.c.boot(-minute);
    await month.pass(10 * minute);
    expect(new Set(month.writes.slice(-10).map(({ by }) => by))).toEqual(new Set(['b']));
  }

  it(
    'is healed by the machine that was a year ahead, as soon as its clock is right',
    async () => {
      await deadWithOneAhead();
      month.b.set(-2 * minute);
      await month.pass(90_000);
      expect(month.unsound()).toEqual([]);
      await daysPass(4);
      expect(faults()).toEqual([]);
    },
    mostMs,
  );

  it(
    'or, when that was restarted, as soon as the clock of one machine is known to be right',
    async () => {
      await deadWithOneAhead();
      await month.b.off();
      month.b.boot(-2 * minute);
      await month.pass(hour);
      expect(month.unsound()).not.toEqual([]);
      month.a.isSynchronised = true;
      await month.pass(90_000);
      expect(month.unsound()).toEqual([]);
      month.a.isSynchronised = false;
      await daysPass(4);
      expect(faults()).toEqual([]);
      expect(month.faults).toEqual([]);
    },
    mostMs,
  );
});
