// Months in milliseconds: nobody is fought, nothing flaps, and a wrong clock does no harm.
import { describe, expect, test } from 'vitest';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { isFile } from '../../lib/inventory/places.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { at, beforeExpiry, chain, day, goodClock, onlyWhenExpired, start, unknownClock } from '../support/facts.ts';
import { SimulatedCluster } from '../support/stories/simulated-cluster.ts';

const minute = 60_000;
const hour = 60 * minute;
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);

/** Everything made on day 0, by the rules of the owner. */
function fresh(): SimulatedCluster {
  const cluster = new SimulatedCluster(chain);
  cluster.act('init', beforeExpiry, goodClock, start);
  expect(cluster.unusable(start)).toEqual([]);
  cluster.writes.length = 0;
  return cluster;
}

describe('OnlyWhenExpired on a healthy control plane', () => {
  test('writes nothing in a month, looked at every 30 s', () => {
    const cluster = fresh();
    for (let now = start; now < at(29.9); now = later(now, 30_000)) cluster.act('us', onlyWhenExpired, goodClock, now);
    expect(cluster.writes).toEqual([]);
  });

  test('writes nothing in a year beside an owner that rotates normally', () => {
    const cluster = fresh();
    for (let now = start; now < at(365); now = later(now, 10 * minute)) {
      cluster.act('us', onlyWhenExpired, goodClock, now);
      cluster.act('owner', beforeExpiry, goodClock, later(now, 1000));
    }
    expect(cluster.writes.filter(({ by }) => by === 'us')).toEqual([]);
    expect(cluster.writes.length).toBeGreaterThan(20);
  });
});

test('BeforeExpiry keeps everything usable for three years, with one write per artefact and generation', () => {
  const cluster = fresh();
  for (let now = start; now < at(3 * 365); now = later(now, hour)) {
    cluster.act('us', beforeExpiry, goodClock, now);
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
    cluster.act('a', beforeExpiry, goodClock, now);
    cluster.act('b', beforeExpiry, goodClock, later(now, 2000));
  }
  const alone = fresh();
  for (let now = start; now < at(365); now = later(now, hour)) alone.act('a', beforeExpiry, goodClock, now);
  expect(cluster.writes.length).toBe(alone.writes.length);
});

test('the kubernetes preset: everything absent but a CA in files, and later everything expired, is healed by one plan', () => {
  const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
  const cluster = new SimulatedCluster(resolved);
  cluster.act('init', onlyWhenExpired, goodClock, start);
  // etcd's CA may be on another machine: only `init render` makes one where there is none.
  expect(cluster.unusable(start)).toEqual(['etcd-signer', 'etcd-server', 'etcd-peer', 'etcd-client']);
  cluster.make('etcd-signer', start);
  cluster.act('init', onlyWhenExpired, goodClock, start);
  expect(cluster.unusable(start)).toEqual([]);
  expect(cluster.act('us', onlyWhenExpired, goodClock, later(start, minute))).toBe(0);
  const tenYears = later(start, 3650 * day + hour);
  const made = cluster.act('us', onlyWhenExpired, { builtAt: tenYears, synchronised: true }, tenYears);
  expect(made).toBe(resolved.artefacts.filter(({ kind }) => kind !== 'keyPair').length);
  expect(cluster.unusable(tenYears)).toEqual([]);
});

/** Days off, and by how many minutes the clocks of three machines are behind the first one. */
const lives: readonly { readonly off: readonly (readonly [number, number])[]; readonly skews: readonly number[] }[] = [
  { off: [], skews: [0, -4, -2] },
  { off: [[10, 29.5]], skews: [0, 0, 0] },
  { off: [[14.9, 28.9]], skews: [-1, 0, -3] },
  { off: [[12, 16]], skews: [-4, -2, 0] },
  { off: [[5, 29.9]], skews: [0, -1, -2] },
  { off: [[29, 44.9]], skews: [-1, -2, 0] },
  {
    off: [
      [3, 14],
      [16, 29.7],
      [40, 59.8],
    ],
    skews: [-2, 0, -4],
  },
];

test.each(lives)(
  'what init made never expires while it runs, with one write each time: off $off, clocks $skews',
  (life) => {
    const { artefacts, ...rest } = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: [] } });
    const cluster = new SimulatedCluster({ ...rest, artefacts: artefacts.filter(({ location }) => !isFile(location)) });
    const owner: RenewalPolicy = { kind: 'BeforeExpiry', graceMs: 0, settleMs: 1000 };
    cluster.act('init', owner, goodClock, start);
    cluster.writes.length = 0;
    const nextOn = (now: Date): Date => {
      const off = life.off.find(([from, until]) => at(from) <= now && now < at(until));
      return off === undefined ? now : at(off[1]);
    };
    const pairs = new Set(
      cluster.resolved.artefacts.flatMap((row) =>
        row.kind === 'signer' || row.kind === 'target' || 'promoteAfter' in row ? [row.name] : [],
      ),
    );
    for (let [now, wasOff] = [start, false]; now < at(70);) {
      // What has expired while it was off is reissued at once, as ever.
      if (!wasOff) expect(cluster.unusable(now)).toEqual([]);
      const looks = life.skews.map((skew, number) => {
        const seen = later(now, skew * minute + number * 100);
        cluster.act(`node${number}`, owner, goodClock, seen);
        const { decisions } = cluster.plan(owner, goodClock, seen);
        const changes = decisions.flatMap(({ artefact, recheckAt }) =>
          pairs.has(artefact) ? [recheckAt.getTime()] : [],
        );
        return Math.min(...changes) - skew * minute;
      });
      // As the loop does: at the next date at which a decision can change. Seldom enough besides for a quick test.
      const next = new Date(Math.max(now.getTime() + minute, Math.min(...looks, later(now, 6 * hour).getTime())));
      wasOff = nextOn(next) > next;
      now = nextOn(next);
    }
    for (const { name, kind } of cluster.resolved.artefacts) {
      if (kind !== 'signer' && kind !== 'target') continue;
      const times = cluster.writes.filter(({ artefact }) => artefact === name).map((write) => write.at.getTime());
      const gaps = times.slice(1).map((time, i) => (time - (times[i] ?? 0)) / day);
      expect(Math.min(...gaps), `${name} is written once for each generation`).toBeGreaterThan(10);
    }
  },
);

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
    clock: unknownClock,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknownClock,
  },
  {
    name: 'ten years back',
    wrong: at(-3650),
    clock: unknownClock,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknownClock,
  },
  {
    name: 'two hours back',
    wrong: later(start, -2 * hour),
    clock: unknownClock,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknownClock,
  },
  {
    name: 'a year back',
    wrong: at(-365),
    clock: unknownClock,
    signsMeanwhile: false,
    after: at(400),
    afterClock: unknownClock,
  },
  {
    name: 'before the build date',
    wrong: at(-401),
    clock: goodClock,
    signsMeanwhile: false,
    after: at(400),
    afterClock: goodClock,
  },
  {
    name: 'suspended for a month, clock right',
    wrong: at(31),
    clock: unknownClock,
    signsMeanwhile: true,
    after: at(32),
    afterClock: unknownClock,
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
  cluster.act('us', onlyWhenExpired, unknownClock, at(3 * 365));
  expect(cluster.unusable(at(2))).not.toEqual([]);
  for (let i = 0; i < 20; i += 1) cluster.act('us', onlyWhenExpired, goodClock, later(at(2), i * 30_000));
  expect(cluster.unusable(later(at(2), 20 * 30_000))).toEqual([]);
});

test('clock: signed three years ahead, put right but unsynchronised: nothing is signed until somebody says so', () => {
  const cluster = fresh();
  cluster.act('us', onlyWhenExpired, unknownClock, at(3 * 365));
  const before = cluster.writes.length;
  for (let i = 0; i < 20; i += 1) cluster.act('us', onlyWhenExpired, unknownClock, later(at(2), i * 30_000));
  expect(cluster.writes.length).toBe(before);
});

test('clock: of two nodes one is weeks behind, unsynchronised: what the other renews is not renewed in turns', () => {
  const cluster = fresh();
  const behindMs = 28 * day;
  for (let now = at(29); now < at(35); now = later(now, 10 * minute)) {
    cluster.act('right', onlyWhenExpired, unknownClock, now);
    cluster.act('behind', onlyWhenExpired, unknownClock, later(now, -behindMs));
  }
  expect(cluster.writes.map(({ by, artefact, reason }) => `${by} ${artefact} ${reason}`)).toEqual([
    'right target Expired',
  ]);
});
