// Races, lost answers, failed reads and killed processes, in any order, some hundreds of stories: two or three processes
// for each inventory look, plan and write as regen does, with different policies, and a seed decides who comes next.
// Told of a small inventory with every shape there is, and of OpenShift's three, whose processes make one object of
// another's and read names from the API. INTERLEAVING_SEEDS changes how many stories begin in each way.
import { beforeAll, describe, expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { pick, type Random, type Role, seeded, Story, type Write } from '../support/faults/interleaving.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';
import { asksForNames, externalBundle, openshiftNames, presetWorld } from '../support/stories/preset-worlds.ts';
import { shared, sharedGeneration } from '../support/cluster/shared-store.ts';
import { StoreReaders } from '../support/stories/store-readers.ts';

const asked = process.env['INTERLEAVING_SEEDS'];
const hour = 3_600_000;
const day = 24 * hour;
const made = new Date('2026-01-01T00:00:00Z');
const after = (ms: number): Date => new Date(made.getTime() + ms);
const policy = (kind: RenewalPolicy['kind']): RenewalPolicy => ({ kind, graceMs: 60_000, settleMs: 1000 });
const onlyWhenExpired = policy('OnlyWhenExpired');
const beforeExpiry = policy('BeforeExpiry');

/** Whose objects the stories are about. */
interface Cast {
  readonly inventories: readonly Resolved[];
  readonly names?: Role['names'];
  /** What others maintain, and nothing else. */
  readonly bare: () => MemoryStore;
  readonly whole: () => MemoryStore;
  /** How long after its making some of it has ended. */
  readonly someDays: readonly number[];
  readonly seedCount: number;
}

const copyOf = (store: MemoryStore): MemoryStore => new MemoryStore(store.objects);

interface Setting {
  readonly store: MemoryStore;
  readonly start: Date;
  readonly random: Random;
}

/** What a story starts with. */
type Prepare = (cast: Cast, random: Random) => Setting | Promise<Setting>;

function rolesOf({ inventories, names }: Cast, policies: (resolved: Resolved) => readonly RenewalPolicy[]): Role[] {
  return inventories.flatMap((resolved) =>
    policies(resolved).map((one) => ({
      resolved,
      policy: one,
      ...(names !== undefined && asksForNames(resolved) && { names }),
    })),
  );
}

/** Two or three of each. */
function severalOf(cast: Cast, random: Random): Role[] {
  return rolesOf(cast, () =>
    Array.from({ length: random() < 0.5 ? 2 : 3 }, () => pick(random, [onlyWhenExpired, beforeExpiry])),
  );
}

type Harm = (store: MemoryStore, write: Write) => void;

/** Throws when a reader refuses what it could check before the write. */
function harmTo({ inventories }: Cast): Harm {
  const readers = inventories.map((resolved) => new StoreReaders(resolved));
  return (store, { artefact, before: found, at }) => {
    const before = copyOf(store);
    before.put(artefact.location, found);
    const harm = readers.flatMap((reader) => reader.harm({ before, after: store, at }, artefact));
    if (harm.length > 0) throw new Error(harm.join('; '));
  };
}

const isPromoted = ({ artefact }: Write): boolean => artefact.kind === 'copy' && artefact.promoteAfter !== undefined;
const namesOf = (writes: readonly Write[]): string[] => writes.map(({ artefact }) => artefact.name);

async function tell(cast: Cast, seed: number, prepare: Prepare, faults = 12): Promise<readonly Write[]> {
  const random = seeded(seed);
  const { store, start } = await prepare(cast, random);
  const harm = harmTo(cast);
  const roles = severalOf(cast, random);
  const story = new Story({ store, random, start, roles, faults, onWrite: (write) => harm(store, write) });
  try {
    await story.tillQuiet();
    const writes = [...story.writes];
    // What is new may wait for a while until it is in use.
    story.clock.ms += hour;
    await story.tillQuiet();
    expect(namesOf(story.writes.slice(writes.length).filter((write) => !isPromoted(write)))).toEqual([]);
    for (const resolved of cast.inventories) {
      expect(new StoreReaders(resolved).unsound(store, story.clock.now()).join('; ')).toBe('');
    }
    const pairs = story.writes.filter(({ artefact }) => artefact.kind === 'signer' || artefact.kind === 'target');
    const twice = pairs.filter(({ artefact }, i) => pairs.findIndex((one) => one.artefact === artefact) !== i);
    expect(twice.map(({ artefact, reason }) => `${artefact.name} once more: ${reason}`)).toEqual([]);
    const all = story.writes.length;
    story.clock.ms += hour;
    await story.tillQuiet();
    expect(namesOf(story.writes.slice(all))).toEqual([]);
    return story.writes;
  } catch (err) {
    const reason = err instanceof Error ? err.message : String(err);
    throw new Error(`seed ${seed}: ${reason}\n${story.lines.slice(-80).join('\n')}`, { cause: err });
  }
}

/** Of real time; a busy machine needs some. */
const mostMs = 300_000;

const seeds = (from: number, count: number): readonly number[] => Array.from({ length: count }, (_, i) => from + i);

/** Some rows are gone, or hold what nobody can use. */
function damaged({ inventories }: Cast, { store, start, random }: Setting): Setting {
  const rows = inventories.flatMap(({ artefacts }) => artefacts).filter(isOurs);
  for (const { location } of rows.filter(() => random() < 0.25)) {
    const found = store.peek(location);
    if (found === undefined) continue;
    const entries = Object.fromEntries(Object.keys(found.entries).map((key) => [key, Buffer.from('garbage')]));
    store.put(location, random() < 0.5 ? undefined : { ...found, entries });
  }
  return { store, start, random };
}

const isOurs = ({ kind }: ResolvedArtefact): boolean => kind !== 'external';

/** Somebody has begun and was killed; then the machine was off for a while, or not. */
async function halfDone(cast: Cast, { store, start, random }: Setting): Promise<Setting> {
  const harm = harmTo(cast);
  const one = pick(random, [onlyWhenExpired, beforeExpiry]);
  const roles = rolesOf(cast, () => [one]);
  const story = new Story({ store, random, start, roles, faults: 0, onWrite: (write) => harm(store, write) });
  const rows = cast.inventories.flatMap(({ artefacts }) => artefacts).filter(isOurs);
  await story.tillKilled(1 + Math.floor(random() * rows.length));
  const off = pick(random, [0, 500, 5000, hour, 100 * day, 400 * day]);
  return { store, start: new Date(story.clock.ms + off), random };
}

const expired = ({ whole }: Cast, random: Random): Setting => ({ store: whole(), start: after(400 * day), random });
const absent = ({ bare }: Cast, random: Random): Setting => ({ store: bare(), start: made, random });
const some = ({ whole, someDays }: Cast, random: Random): Setting => ({
  store: whole(),
  start: after(pick(random, someDays) * day),
  random,
});

const healthy = ({ whole }: Cast, random: Random): Setting => ({ store: whole(), start: after(day), random });

const starts: Record<string, Prepare> = {
  'everything expired': expired,
  'nothing there': absent,
  'some expired': some,
  'half done, of everything expired': (cast, random) => halfDone(cast, expired(cast, random)),
  'half done, of some expired': (cast, random) => halfDone(cast, some(cast, random)),
  'half done, of nothing': (cast, random) => halfDone(cast, absent(cast, random)),
  'some damaged, the rest healthy': (cast, random) => damaged(cast, healthy(cast, random)),
  'some damaged, some expired': (cast, random) => damaged(cast, some(cast, random)),
};

async function smallCast(): Promise<Cast> {
  const whole = await sharedGeneration(made);
  return {
    inventories: [shared],
    bare: () => new MemoryStore(),
    whole: () => copyOf(whole),
    someDays: [31, 41, 46, 61, 91],
    seedCount: Number(asked ?? 12),
  };
}

async function openshiftCast(): Promise<Cast> {
  const { inventories, given } = presetWorld('openshift');
  const bare = new MemoryStore();
  for (const location of given) bare.put(location, await externalBundle(location, made));
  const cast = { inventories, names: openshiftNames, bare: () => copyOf(bare), seedCount: Number(asked ?? 1) };
  const store = copyOf(bare);
  const roles = rolesOf({ ...cast, whole: () => store, someDays: [] }, () => [onlyWhenExpired]);
  await new Story({ store, random: seeded(0), start: made, roles, faults: 0, onWrite: () => undefined }).tillQuiet();
  return { ...cast, whole: () => copyOf(store), someDays: [16, 31, 46, 61, 366] };
}

describe.each([
  ['a small inventory', smallCast],
  ["OpenShift's presets", openshiftCast],
])('several actors for %s on one store', { timeout: mostMs }, (_, prepareCast) => {
  let cast: Cast;
  beforeAll(async () => {
    cast = await prepareCast();
  }, mostMs);

  it('write nothing while all is well, whatever goes wrong', async () => {
    for (const seed of seeds(1, cast.seedCount)) expect(await tell(cast, seed, healthy)).toEqual([]);
  });

  it.each(Object.entries(starts))('heal it once: %s', async (_name, prepare) => {
    for (const seed of seeds(1000, cast.seedCount)) await tell(cast, seed, prepare);
  });
});
