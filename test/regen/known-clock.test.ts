import { describe, expect, it } from 'vitest';
import { observeClock } from '../../lib/regen/known-clock.ts';
import type { ClockWatch } from '../../lib/regen/known-clock.ts';

const start = new Date('2026-06-01T00:00:00Z').getTime();
const minute = 60_000;

/** One look: seconds since the machine was switched on, and by how much the clock is wrong, in seconds. */
type Step = readonly [uptime: number, offset: number];

/** Whether signing is delayed at each look, in seconds from that look. */
function delays(steps: readonly Step[]): (number | undefined)[] {
  let watch: ClockWatch | undefined;
  return steps.map(([uptime, offset]) => {
    const now = new Date(start + (uptime + offset) * 1000);
    const observed = observeClock(watch, now, uptime);
    watch = observed.watch;
    return observed.settlesAt === undefined ? undefined : (observed.settlesAt.getTime() - now.getTime()) / 1000;
  });
}

const none = undefined;

describe('observeClock()', () => {
  it.each<{ name: string; steps: Step[]; delayed: (number | undefined)[] }>([
    {
      name: 'a clock that goes on',
      steps: [
        [0, 0],
        [30, 0],
        [60, 0],
      ],
      delayed: [none, none, none],
    },
    { name: 'the first look of a process, whatever the clock shows', steps: [[0, 1e9]], delayed: [none] },
    {
      name: 'a machine that was suspended for a month',
      steps: [
        [0, 0],
        [2_592_000, 0],
      ],
      delayed: [none, none],
    },
    {
      name: 'a small correction',
      steps: [
        [0, 0],
        [30, 59],
      ],
      delayed: [none, none],
    },
    {
      name: 'a clock that drifts slowly for long',
      steps: [
        [0, 0],
        [30, 20],
        [60, 40],
        [90, 60],
        [120, 80],
      ],
      delayed: [none, none, none, none, none],
    },
    {
      name: 'a jump of ten years ahead',
      steps: [
        [0, 0],
        [30, 315_360_000],
        [35, 315_360_000],
        [40, 315_360_000],
      ],
      delayed: [none, 10, 5, none],
    },
    {
      name: 'a jump of ten years back',
      steps: [
        [0, 0],
        [30, -315_360_000],
        [40, -315_360_000],
      ],
      delayed: [none, 10, none],
    },
    {
      name: 'two hours back',
      steps: [
        [0, 0],
        [30, -7200],
        [60, -7200],
      ],
      delayed: [none, 10, none],
    },
    {
      name: 'two jumps',
      steps: [
        [0, 0],
        [30, 7200],
        [35, 0],
        [44, 0],
        [45, 0],
      ],
      delayed: [none, 10, 10, 1, none],
    },
    {
      name: 'a clock that is set again and again: a minute at most, then one look that may sign',
      steps: [
        [0, 0],
        [30, 100],
        [38, 200],
        [46, 300],
        [54, 400],
        [62, 500],
        [70, 600],
        [78, 700],
        [86, 800],
        [90, 900],
        [98, 1000],
      ],
      delayed: [none, 10, 10, 10, 10, 10, 10, 10, 4, none, 10],
    },
  ])('delays signing after $name', ({ steps, delayed }) => {
    expect(delays(steps)).toEqual(delayed);
  });

  it('tells by how much the clock was set', () => {
    const { watch } = observeClock(undefined, new Date(start), 100);
    expect(observeClock(watch, new Date(start + 10 * minute), 130).jumpedMs).toBe(10 * minute - 30_000);
    expect(observeClock(watch, new Date(start - 10 * minute), 130).jumpedMs).toBe(-10 * minute - 30_000);
    expect(observeClock(watch, new Date(start + 30_000), 130)).not.toHaveProperty('jumpedMs');
  });

  it('tells nothing where the uptime is not known', () => {
    expect(observeClock(undefined, new Date(start), undefined)).toEqual({ watch: undefined });
    const { watch } = observeClock(undefined, new Date(start), 1);
    expect(observeClock(watch, new Date(start + 1e12), undefined)).toEqual({ watch: undefined });
  });
});
