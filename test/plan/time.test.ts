// Months in milliseconds: nobody is fought, nothing flaps, and a wrong clock does no harm.
import { describe, expect, test } from 'vitest';
import type { ClockFacts, RenewalPolicy } from '../../lib/plan/plan-types.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { at, chain, day, start } from '../support/facts.ts';
import { SimulatedCluster } from '../support/simulated-cluster.ts';

const minute = 60_000;
const hour = 60 * minute;
const onlyWhenExpired: RenewalPolicy = { kind: 'OnlyWhenExpired', graceMs: minute, settleMs: 1000 };
const beforeExpiry: RenewalPolicy = { kind: 'BeforeExpiry', graceMs: minute, settleMs: 1000 };
const good: ClockFacts = { builtAt: at(-400), synchronised: true };
const unknown: ClockFacts = { builtAt: at(-400), synchronised: false };
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);

/** Everything made on day 0, by the rules of the owner. */
function fresh(): SimulatedCluster {
  const cluster = new SimulatedCluster(chain);
  cluster.act('init', beforeExpiry, good, start);
  expect(cluster.unusable(start)).toEqual([]);
  cluster.writes.length = 0;
  return cluster;
}

describe('OnlyWhenExpired on a healthy control plane', () => {
  test('writes nothing in a month, looked at every 30 s', () => {
    const cluster = fresh();
    for (let now = start; now < at(29.9); now = later(now, 30_000)) cluster.act('us', onlyWhenExpired, good, now);
    expect(cluster.writes).toEqual([]);
  });

  test('writes nothing in a year beside an owner that rotates normally', () => {
    const cluster = fresh();
    for (let now = start; now < at(365); now = later(now, 10 * minute)) {
      cluster.act('us', onlyWhenExpired, good, now);
      cluster.act('owner', beforeExpiry, good, later(now, 1000));
    }
    expect(cluster.writes.filter(({ by }) => by === 'us')).toEqual([]);
    expect(cluster.writes.length).toBeGreaterThan(20);
  });
});

test('BeforeExpiry keeps everything usable for three years, with one write per artefact and generation', () => {
  const cluster = fresh();
  for (let now = start; now < at(3 * 365); now = later(now, hour)) {
    cluster.act('us', beforeExpiry, good, now);
    expect(cluster.unusable(now)).toEqual([]);
  }
  for (const { name } of chain.artefacts) {
    const times = cluster.writes.filter(({ artefact }) => artefact === name).map((write) => write.at.getTime());
    const gaps = times.slice(1).map((time, i) => (time - (times[i] ?? 0)) / day);
    expect(Math.min(...gaps), `${name} is not written twice for one cause`).toBeGreaterThanOrEqual(
      name === 'signer' || name === 'target' ? 10 : 1,
    );
  }
});

test('two owners beside each other write each generation once', () => {
  const cluster = fresh();
  for (let now = start; now < at(365); now = later(now, hour)) {
    cluster.act('a', beforeExpiry, good, now);
    cluster.act('b', beforeExpiry, good, later(now, 2000));
  }
  const alone = fresh();
  for (let now = start; now < at(365); now = later(now, hour)) alone.act('a', beforeExpiry, good, now);
  expect(cluster.writes.length).toBe(alone.writes.length);
});

test('the kubernetes preset: everything absent, and later everything expired, is healed by one plan', () => {
  const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
  const cluster = new SimulatedCluster(resolved);
  cluster.act('init', onlyWhenExpired, good, start);
  expect(cluster.unusable(start)).toEqual([]);
  expect(cluster.act('us', onlyWhenExpired, good, later(start, minute))).toBe(0);
  const tenYears = later(start, 3650 * day + hour);
  const made = cluster.act('us', onlyWhenExpired, { builtAt: tenYears, synchronised: true }, tenYears);
  expect(made).toBe(resolved.artefacts.filter(({ kind }) => kind !== 'keyPair').length);
  expect(cluster.unusable(tenYears)).toEqual([]);
});

interface ClockRow {
  readonly name: string;
  /** What the clock shows while it is wrong. */
  readonly wrong: Date;
  readonly clock: ClockFacts;
  /** Whether something is signed meanwhile, and that is right: the cluster cannot know better. */
  readonly signsMeanwhile: boolean;
  /** The right time again, and whether the clock is then known to be synchronised. */
  readonly after: Date;
  readonly afterClock: ClockFacts;
}

const rows: ClockRow[] = [
  {
    name: 'ten years ahead',
    wrong: at(3650),
    clock: unknown,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknown,
  },
  {
    name: 'ten years back',
    wrong: at(-3650),
    clock: unknown,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknown,
  },
  {
    name: 'two hours back',
    wrong: later(start, -2 * hour),
    clock: unknown,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknown,
  },
  { name: 'a year back', wrong: at(-365), clock: unknown, signsMeanwhile: false, after: at(400), afterClock: unknown },
  {
    name: 'before the build date',
    wrong: at(-401),
    clock: good,
    signsMeanwhile: false,
    after: at(400),
    afterClock: good,
  },
  {
    name: 'suspended for a month, clock right',
    wrong: at(31),
    clock: unknown,
    signsMeanwhile: true,
    after: at(32),
    afterClock: unknown,
  },
];

test.each(rows)('clock: $name', ({ wrong, clock, signsMeanwhile, after, afterClock }) => {
  const cluster = fresh();
  for (let i = 0; i < 20; i += 1) cluster.act('us', onlyWhenExpired, clock, later(wrong, i * 30_000));
  expect(cluster.writes.length > 0).toBe(signsMeanwhile);
  for (let i = 0; i < 20; i += 1) cluster.act('us', onlyWhenExpired, afterClock, later(after, i * 30_000));
  expect(cluster.unusable(later(after, 20 * 30_000))).toEqual([]);
});

test('clock: signed three years ahead, put right: a synchronised clock remakes what begins in the future', () => {
  const cluster = fresh();
  cluster.act('us', onlyWhenExpired, unknown, at(3 * 365));
  expect(cluster.unusable(at(2))).not.toEqual([]);
  for (let i = 0; i < 20; i += 1) cluster.act('us', onlyWhenExpired, good, later(at(2), i * 30_000));
  expect(cluster.unusable(later(at(2), 20 * 30_000))).toEqual([]);
});

test('clock: signed three years ahead, put right but unsynchronised: nothing is signed until somebody says so', () => {
  const cluster = fresh();
  cluster.act('us', onlyWhenExpired, unknown, at(3 * 365));
  const before = cluster.writes.length;
  for (let i = 0; i < 20; i += 1) cluster.act('us', onlyWhenExpired, unknown, later(at(2), i * 30_000));
  expect(cluster.writes.length).toBe(before);
});
