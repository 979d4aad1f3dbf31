// Somebody sets the clock while regen runs: what it remembers of the time before never makes it wait for that time to come
// again, and what it has dated by the wrong time is reissued. Real keys and certificates, a store in memory, and a clock
// that only the test moves.
import { beforeAll, describe, expect, it } from 'vitest';
import { createLog } from '../../lib/log.ts';
import { noMetrics } from '../../lib/metrics.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import type { OtherClock } from '../../lib/plan/clock-rules.ts';
import { Journal } from '../../lib/regen/journal.ts';
import { createLook, type Look } from '../../lib/regen/look.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';
import { shared, sharedGeneration } from '../support/cluster/shared-store.ts';
import { StoreReaders } from '../support/stories/store-readers.ts';

const second = 1000;
const hour = 3_600_000;
const day = 24 * hour;
const made = new Date('2026-06-01T00:00:00Z');
const after = (ms: number): Date => new Date(made.getTime() + ms);
const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;
const all = (): boolean => true;
const readers = new StoreReaders(shared);
let generation: MemoryStore;
beforeAll(async () => {
  generation = await sharedGeneration(made);
});

interface Node {
  readonly clock: FakeClock;
  readonly store: MemoryStore;
  readonly look: Look;
}

function node(clock: FakeClock, store: MemoryStore, more: Partial<RegenOptions> = {}): Node {
  const log = createLog({ level: 'error', write: () => undefined });
  const look = createLook({
    resolved: shared,
    clock,
    store,
    log,
    journal: new Journal({ resolved: shared, clock, log, dryRun: false, metrics: noMetrics }),
    policy: { kind: 'OnlyWhenExpired', graceMs: 60 * second, settleMs: second },
    clockFacts: () => ({ builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: false }),
    keyPool: createKeyPool({ algorithm, size: 0 }),
    keyAlgorithm: algorithm,
    once: false,
    dryRun: false,
    signal: new AbortController().signal,
    ...more,
  });
  return { clock, store, look };
}

/** Looks every other second for so long; how many writes there were. */
async function looks({ clock, look }: Node, forMs: number): Promise<number> {
  let written = 0;
  for (let passed = 0; passed <= forMs; passed += 2 * second) {
    written += (await look(all)).outcome.written;
    clock.advance(2 * second);
  }
  return written;
}

const rowOf = (name: string): (typeof shared.artefacts)[number] => {
  const row = shared.artefacts.find((one) => one.name === name);
  if (row === undefined) throw new Error(`no ${name}`);
  return row;
};

describe('a contradiction that was first seen by a clock an hour ahead', () => {
  it('is believed a second after the clock is right, not an hour later', async () => {
    const store = new MemoryStore(generation.objects);
    // The bundle of the one lacks its signer: it holds that of another.
    store.put(rowOf('root-ca').location, generation.peek(rowOf('middle-ca').location));
    const world = node(new FakeClock(after(2 * hour)), store);
    expect((await world.look(all)).outcome).toMatchObject({ written: 0 });
    world.clock.set(after(hour));
    expect(await looks(world, 20 * second)).toBeGreaterThan(0);
    expect(readers.unsound(store, world.clock.now())).toEqual([]);
  });
});

describe('everything is reissued by a clock that is a year ahead', () => {
  const yearAhead = (): FakeClock => new FakeClock(after(365 * day + hour));

  it('and again by the process that has done it, as soon as its clock is set', async () => {
    const world = node(yearAhead(), new MemoryStore(generation.objects));
    expect(await looks(world, 4 * second)).toBeGreaterThan(10);
    world.clock.set(after(2 * hour));
    expect(readers.unsound(world.store, world.clock.now())).not.toEqual([]);
    await looks(world, 30 * second);
    expect(readers.unsound(world.store, world.clock.now())).toEqual([]);
  });

  it('and by another process only when the clock of another machine confirms the time', async () => {
    const store = new MemoryStore(generation.objects);
    await looks(node(yearAhead(), store), 4 * second);
    let others: readonly OtherClock[] = [];
    const otherClocks = (): Promise<readonly OtherClock[]> => Promise.resolve(others);
    const world = node(new FakeClock(after(2 * hour)), store, { otherClocks });
    expect(await looks(world, 30 * second)).toBe(0);
    others = [{ of: 'node-b', aheadMs: 3 * second }];
    expect(await looks(world, 30 * second)).toBeGreaterThan(10);
    expect(readers.unsound(store, world.clock.now())).toEqual([]);
  });

  it('is not done at all while a machine that is a year behind renews its Lease', async () => {
    const otherClocks = (): Promise<readonly OtherClock[]> => Promise.resolve([{ of: 'b', aheadMs: 365 * day }]);
    const world = node(yearAhead(), new MemoryStore(generation.objects), { otherClocks });
    expect(await looks(world, 30 * second)).toBe(0);
  });

  it('asks no other machine while nothing is to be signed, or the clock is synchronised', async () => {
    let asked = 0;
    const otherClocks = (): Promise<readonly OtherClock[]> => Promise.resolve([]).finally(() => (asked += 1));
    await looks(node(new FakeClock(after(hour)), new MemoryStore(generation.objects), { otherClocks }), 4 * second);
    const clockFacts = () => ({ builtAt: made, synchronised: true });
    const store = new MemoryStore(generation.objects);
    await looks(node(yearAhead(), store, { otherClocks, clockFacts }), 4 * second);
    expect(asked).toBe(0);
  });

  it('reads everything again when others have taken some time to answer', async () => {
    const store = new MemoryStore(generation.objects);
    const world = node(yearAhead(), store, {
      otherClocks: async () => {
        // Meanwhile another machine does the work.
        await looks(node(new FakeClock(world.clock.now()), store), 4 * second);
        world.clock.advance(3 * second);
        return [];
      },
    });
    expect((await world.look(all)).outcome).toMatchObject({ written: 0, conflicts: 0 });
    expect(readers.unsound(store, world.clock.now())).toEqual([]);
  });
});
