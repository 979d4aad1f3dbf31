// Measures the built program on a real control plane and keeps the result in docs/benchmarks.md:
//   npm run bench                    every row (about twenty minutes)
//   npm run bench -- --only=b,e      some rows; the others keep their last result
//   npm run bench -- --dry-run       prints, writes nothing
// Never a test: the figures depend on the machine and on what else runs there, which is why the load is printed.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { RecoveryWorld } from '../test/support/cluster/recovery-world.ts';
import { adoptedRecoveries } from './bench/adopted.ts';
import { boots } from './bench/boot.ts';
import { inContainer } from './bench/container.ts';
import { fleets } from './bench/fleet.ts';
import { hostileLoad } from './bench/hostile.ts';
import { addUnrelatedSecrets, steadyMemory } from './bench/memory.ts';
import { openshiftRecoveries, openshiftUpdates } from './bench/openshift.ts';
import { recoveries, startToDisk, versionStart } from './bench/recovery.ts';
import { repairs } from './bench/repair.ts';
import { load, machine, record, table, type Line, type Measured } from './bench/table.ts';
import { fileToReaction, updatesToDisk, updatesToServed } from './bench/updates.ts';

const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    'dry-run': { type: 'boolean', default: false },
    /** Divides counts and waiting times. */
    quick: { type: 'boolean', default: false },
  },
});
const some = (count: number): number => (options.quick ? Math.ceil(count / 5) : count);
const idleMs = options.quick ? 12_000 : 60_000;
const unrelated = 5000;

const say = (text: string): void => void process.stderr.write(`${text}\n`);
type Measure = () => Promise<Measured[]>;

/** The control plane that most rows share; not started for those that do not ask for it. */
let shared: Promise<RecoveryWorld> | undefined;
const onWorld = (measure: (world: RecoveryWorld) => Promise<Measured[]>): Measure => {
  return async () => measure(await (shared ??= RecoveryWorld.create({ unsafeNoFsync: false, say })));
};

async function endShared(): Promise<void> {
  const world = await shared;
  shared = undefined;
  await world?.[Symbol.asyncDispose]();
}

/** In this order: what changes the control plane for those that follow comes late, and nodes need the machine alone. */
const rows: Readonly<Record<string, Measure>> = {
  h: () => versionStart(some(20)),
  i: () => repairs(some(15)),
  a: onWorld((world) => startToDisk(world, some(15))),
  b: onWorld((world) => updatesToDisk(world, some(300))),
  f: onWorld((world) => updatesToServed(world, some(200))),
  g: onWorld((world) => fileToReaction(world, some(200))),
  c: onWorld((world) => steadyMemory(world, idleMs, '14 objects')),
  e: onWorld((world) => recoveries(world, some(10), idleMs / 6)),
  k: onWorld((world) => inContainer(world, some(20), idleMs / 6)),
  d: onWorld(async (world) => {
    await addUnrelatedSecrets(world, unrelated);
    return steadyMemory(world, idleMs, `beside ${unrelated} Secrets`);
  }),
  m: async () => {
    await endShared();
    return openshiftRecoveries(some(10));
  },
  n: () => openshiftUpdates(some(30)),
  j: async () => {
    await endShared();
    return boots(some(7), say);
  },
  l: async () => {
    await endShared();
    return adoptedRecoveries(some(10), say);
  },
  o: async () => {
    await endShared();
    return hostileLoad(options.quick ? 10 : 25, say);
  },
  p: async () => {
    await endShared();
    return fleets(some(10));
  },
};

const wanted = options.only?.split(',') ?? Object.keys(rows);
const unknown = wanted.filter((row) => !(row in rows));
if (unknown.length > 0)
  throw new Error(`no row ${unknown.join(', ')}; there are ${Object.keys(rows).toSorted().join(', ')}`);

const lines: Line[] = [];
say(machine());
await using cleanup = new AsyncDisposableStack();
cleanup.defer(endShared);
for (const [row, measure] of Object.entries(rows)) {
  if (!wanted.includes(row)) continue;
  const before = load();
  say(`row ${row}, load ${before}`);
  const measured = await measure();
  const line = measured.map((each): Line => ({ ...each, row, load: before, at: new Date() }));
  lines.push(...line);
  say(table(line));
}
lines.sort((a, b) => (a.row < b.row ? -1 : a.row > b.row ? 1 : 0));
process.stdout.write(`\n${machine()}, load ${load()}\n\n${table(lines)}\n`);
if (!options['dry-run'] && !options.quick) {
  const command = ['npm run bench', ...(options.only === undefined ? [] : [`-- --only=${options.only}`])].join(' ');
  record(fileURLToPath(new URL('../docs/benchmarks.md', import.meta.url)), command, lines);
}
