// Races, lost answers, failed reads and killed processes, in any order, some hundreds of stories: two or three actors
// with different policies look, plan and write as regen does, and a seed decides who comes next.
import { beforeAll, describe, expect, it } from 'vitest';
import type { RenewalPolicy } from '../../lib/plan/plan-types.ts';
import { pick, type Random, seeded, Story, type Write } from '../support/interleaving.ts';
import { MemoryStore } from '../support/memory-store.ts';
import { refusals, shared, sharedGeneration, unsound } from '../support/shared-store.ts';

const hour = 3_600_000;
const day = 24 * hour;
const made = new Date('2026-01-01T00:00:00Z');
const after = (ms: number): Date => new Date(made.getTime() + ms);
const policy = (kind: RenewalPolicy['kind']): RenewalPolicy => ({ kind, graceMs: 60_000, settleMs: 1000 });
const onlyWhenExpired = policy('OnlyWhenExpired');
const beforeExpiry = policy('BeforeExpiry');

let whole: MemoryStore;
beforeAll(async () => {
  whole = await sharedGeneration(made);
});

const copyOf = (store: MemoryStore): MemoryStore => new MemoryStore(store.objects);

interface Setting {
  readonly store: MemoryStore;
  readonly start: Date;
  readonly random: Random;
}

/** What a story starts with. */
type Prepare = (random: Random) => Setting | Promise<Setting>;

function policies(random: Random): readonly RenewalPolicy[] {
  return Array.from({ length: random() < 0.5 ? 2 : 3 }, () => pick(random, [onlyWhenExpired, beforeExpiry]));
}

/** No leaf that its readers could check before a write is refused after it. */
function harm(store: MemoryStore, { artefact, before, at }: Write): void {
  const former = copyOf(store);
  former.put(artefact.truth, before);
  const now = refusals(store, at, artefact);
  for (const [reading, refusal] of refusals(former, at, artefact)) {
    const then = now.get(reading);
    if (refusal === undefined && then !== undefined) throw new Error(`${artefact.name} harms ${reading}: ${then}`);
  }
}

async function tell(seed: number, prepare: Prepare, faults = 12): Promise<readonly Write[]> {
  const random = seeded(seed);
  const { store, start } = await prepare(random);
  const story = new Story({
    resolved: shared,
    store,
    random,
    start,
    policies: policies(random),
    faults,
    onWrite: (write) => harm(store, write),
  });
  try {
    await story.tillQuiet();
    expect(unsound(store, story.clock.now()).join('; ')).toBe('');
    const writes = [...story.writes];
    const pairs = writes.filter(({ artefact }) => artefact.kind === 'signer' || artefact.kind === 'target');
    const twice = pairs.filter(({ artefact }, i) => pairs.findIndex((one) => one.artefact === artefact) !== i);
    expect(twice.map(({ artefact, reason }) => `${artefact.name} once more: ${reason}`)).toEqual([]);
    story.clock.ms += hour;
    await story.tillQuiet();
    expect(story.writes.slice(writes.length).map(({ artefact }) => artefact.name)).toEqual([]);
    return writes;
  } catch (err) {
    const reason = err instanceof Error ? err.message : String(err);
    throw new Error(`seed ${seed}: ${reason}\n${story.lines.slice(-80).join('\n')}`, { cause: err });
  }
}

/** Of real time; a busy machine needs some. */
const mostMs = 300_000;

const seeds = (from: number, count: number): readonly number[] => Array.from({ length: count }, (_, i) => from + i);

/** Some rows are gone, or hold what nobody can use. */
function damaged({ store, start, random }: Setting): Setting {
  const rows = shared.artefacts.filter(() => random() < 0.25);
  for (const { truth } of rows) {
    const found = store.peek(truth);
    if (found === undefined) continue;
    const entries = Object.fromEntries(Object.keys(found.entries).map((key) => [key, Buffer.from('garbage')]));
    store.put(truth, random() < 0.5 ? undefined : { ...found, entries });
  }
  return { store, start, random };
}

/** Somebody has begun and was killed; then the machine was off for a while, or not. */
async function halfDone({ store, start, random }: Setting): Promise<Setting> {
  const only = { resolved: shared, store, random, start, policies: [pick(random, [onlyWhenExpired, beforeExpiry])] };
  const story = new Story({ ...only, faults: 0, onWrite: (write) => harm(store, write) });
  await story.tillKilled(1 + Math.floor(random() * 12));
  const off = pick(random, [0, 500, 5000, hour, 100 * day, 400 * day]);
  return { store, start: new Date(story.clock.ms + off), random };
}

const expired = (random: Random): Setting => ({ store: copyOf(whole), start: after(400 * day), random });
const absent = (random: Random): Setting => ({ store: new MemoryStore(), start: made, random });
const some = (random: Random): Setting => ({
  store: copyOf(whole),
  start: after(pick(random, [31, 41, 46, 61, 91]) * day),
  random,
});

const healthy: Prepare = (random) => ({ store: copyOf(whole), start: after(day), random });

const starts: Record<string, Prepare> = {
  'everything expired': expired,
  'nothing there': absent,
  'some expired': some,
  'half done, of everything expired': (random) => halfDone(expired(random)),
  'half done, of some expired': (random) => halfDone(some(random)),
  'half done, of nothing': (random) => halfDone(absent(random)),
  'some damaged, the rest healthy': (random) => damaged({ store: copyOf(whole), start: after(day), random }),
  'some damaged, some expired': (random) => damaged(some(random)),
};

describe('several actors on one store', { timeout: mostMs }, () => {
  it('write nothing while all is well, whatever goes wrong', async () => {
    for (const seed of seeds(1, 10)) expect(await tell(seed, healthy)).toEqual([]);
  });

  it.each(Object.entries(starts))('heal it once: %s', async (_name, prepare) => {
    for (const seed of seeds(1000, 12)) await tell(seed, prepare);
  });
});
