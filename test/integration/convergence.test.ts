// Whatever others do to the objects of the API while everything has expired: after their last act all of it is whole, or
// what is not is named with its reason, a single run ends, and no valid CA of others has got another key.
// CONVERGENCE_SEEDS: how many sequences (100). CONVERGENCE_FIRST: the first of them, to run one again.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { unmetConditions } from '../../lib/regen/unmet.ts';
import { systemClock } from '../../lib/clock.ts';
import { bundlesFor, dependenciesOf } from '../../lib/inventory/order.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { type ActOfOthers, actsOfOthers, release } from '../support/faults/acts-of-others.ts';
import { algorithm, pick, type Random, seeded } from '../support/faults/interleaving.ts';
import { broughtSigner, type ConvergenceWorld, createWorld, objectsIn, publicKeyOf } from './convergence-world.ts';
import { contentsInApi, problems } from '../support/stories/soundness.ts';
import { Actor, type LogLine } from './regen-world.ts';

const count = Number(process.env['CONVERGENCE_SEEDS'] ?? '100');
const firstSeed = Number(process.env['CONVERGENCE_FIRST'] ?? '1');
/** Most of them wait: for a contradiction to settle, or for the patience of a single run to end. */
const lanes = 16;

let controlPlane: ControlPlane;
let connection: KubeConnection;

beforeAll(async () => {
  controlPlane = await startControlPlane();
  connection = await openConnection({
    kubeconfigFile: controlPlane.recoveryKubeconfig,
    clock: systemClock,
    userAgent: 'test',
  });
});

afterAll(async () => {
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
});

interface Story {
  readonly world: ConvergenceWorld;
  readonly acts: readonly string[];
  /** Left of what a person would have to take away first. */
  readonly isReleased: boolean;
}

const names = Object.keys(actsOfOthers) as ActOfOthers[];

/** A namespace with a quota that the API server cannot judge refuses whatever is to be created. */
async function limit({ namespace }: ConvergenceWorld, isOn: boolean): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/resourcequotas`;
  const body = { metadata: { name: 'full' }, spec: { hard: { 'count/secrets': '1', 'count/configmaps': '1' } } };
  if (isOn) await controlPlane.admin(path, { method: 'POST', body });
  else await controlPlane.admin(`${path}/full`, { method: 'DELETE' });
}

async function actOnAll(world: ConvergenceWorld, random: Random): Promise<readonly string[]> {
  const done: string[] = [];
  const objects = objectsIn(world.resolved);
  for (let left = 2 + Math.floor(random() * 10); left > 0; left -= 1) {
    if (random() < 0.04) {
      await limit(world, true);
      done.push('a quota');
      continue;
    }
    const { name, location } = pick(random, objects);
    const alike = objects.filter((one) => one.location.kind === location.kind);
    const act = pick(random, names);
    const [first, other] = [name, pick(random, alike).name].map((one) => world.first.get(one));
    if (first === undefined || other === undefined) throw new Error(`${name} was not made`);
    await actsOfOthers[act]({ controlPlane, random, location, first, other, stranger: world.stranger });
    done.push(`${act}: ${name}`);
    await systemClock.sleep(random() * 40);
  }
  return done;
}

/** What has no reason: it is not whole, and nobody has said why, of itself or of what it waits for. */
async function unnamed({ resolved }: ConvergenceWorld, named: ReadonlySet<string>): Promise<readonly string[]> {
  const left = problems(resolved, await contentsInApi(controlPlane, resolved), systemClock.now());
  return left.filter((line) => {
    const row = resolved.artefacts.find(({ name }) => name === line.slice(0, line.indexOf(':')));
    const own = row?.kind === 'signer' ? bundlesFor(resolved.artefacts, row) : [];
    const before = dependenciesOf(resolved.artefacts).get(row?.name ?? '') ?? [];
    return ![row?.name ?? '', ...before, ...own.map(({ name }) => name)].some((name) => named.has(name));
  });
}

/** By the log of a process that goes on: what was said of each last. */
function namedIn(lines: readonly LogLine[]): ReadonlySet<string> {
  const said = lines.filter(({ event, artefact }) => artefact !== undefined && event !== 'clock.implausible');
  const last = new Map(said.map(({ artefact, event }) => [String(artefact), event]));
  const isReason = (event: string): boolean => event === 'rotation.blocked' || event === 'rotation.failed';
  return new Set([...last].flatMap(([name, event]) => (isReason(event) ? [name] : [])));
}

const optionsOf = (seed: number): Partial<RegenOptions> => ({
  keyPool: createKeyPool({ algorithm, size: 0 }),
  keyAlgorithm: algorithm,
  policy: { kind: seed % 2 === 0 ? 'BeforeExpiry' : 'OnlyWhenExpired', graceMs: 0, settleMs: 300 },
});

async function tell(seed: number): Promise<readonly string[]> {
  const random = seeded(seed);
  const world = await createWorld(controlPlane, `convergence-${seed}`, systemClock.now());
  const { resolved } = world;
  const daemon = new Actor(connection, resolved);
  const stop = new AbortController();
  // At first beside them, or after them: a machine that was off meanwhile.
  const isBeside = random() < 0.7;
  const run = (): Promise<unknown> => daemon.run({ ...optionsOf(seed), once: false, signal: stop.signal });
  let running = isBeside ? run() : undefined;
  const story: Story = { world, acts: await actOnAll(world, random), isReleased: random() < 0.5 };
  if (story.isReleased) {
    await limit(world, false);
    for (const { location } of objectsIn(resolved)) await release({ controlPlane, location });
  }
  const faults: string[] = [];
  running ??= run();
  if (seed % 10 === 0) {
    // By itself, as long as it takes a slow machine: it looks every half minute.
    await eventually(async () => expect(await unnamed(world, namedIn(daemon.lines))).toEqual([]), { everyMs: 500 });
  }
  stop.abort();
  await running;
  const one = new Actor(connection, resolved);
  const report = await one.run({ ...optionsOf(seed), signal: AbortSignal.timeout(280_000) });
  const unmet = unmetConditions(report).map(({ message }) => message);
  const named = new Set(unmet.map((message) => message.slice(0, message.indexOf(':'))));
  if (!report.converged && report.gaveUp === undefined) faults.push('the single run did not end by itself');
  faults.push(...(await unnamed(world, named)).map((line) => `not whole, and not named: ${line}`));
  faults.push(...(await keysOfOthers(world, story.acts, [...daemon.lines, ...one.lines])));
  const told = [...story.acts, story.isReleased ? 'all released' : 'nothing released'].join('; ');
  if (faults.length === 0) return [];
  const again = `CONVERGENCE_FIRST=${seed} CONVERGENCE_SEEDS=1 npx vitest run test/integration/convergence.test.ts`;
  return [`seed ${seed} (${again}): ${faults.join('; ')}. Acts: ${told}. Said: ${unmet.join('; ')}`];
}

const harmless: readonly string[] = ['annotate', 'label', 'duplicate', 'release', 'make immutable'];

/**
 * The CA that others brought has its own key, or one that somebody else has put there: as long as somebody has left
 * anything by which it is known, its Secret, its bundle or its leaf.
 */
async function keysOfOthers(
  { resolved, first, stranger }: ConvergenceWorld,
  acts: readonly string[],
  lines: readonly LogLine[],
): Promise<readonly string[]> {
  const isUnknown = [broughtSigner, 'brought-ca', 'kubelet-client'].every((name) =>
    acts.some((act) => act.endsWith(`: ${name}`) && !harmless.includes(act.slice(0, act.indexOf(':')))),
  );
  if (isUnknown) return [];
  const isMade = lines.some(({ event, artefact }) => event === 'signer.regenerated' && artefact === broughtSigner);
  const contents = await contentsInApi(controlPlane, resolved);
  const held = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(
    contents.get(broughtSigner)?.['tls.crt'] ?? '',
  )?.[0];
  const own = Buffer.from(first.get(broughtSigner)?.data?.['tls.crt'] ?? '', 'base64').toString();
  const others = [...first.values()].flatMap(({ data }) => data?.['tls.crt'] ?? []);
  const known = [own, stranger.certificate, ...others.map((one) => Buffer.from(one, 'base64').toString())].map(
    publicKeyOf,
  );
  const isKnown = held === undefined || known.includes(publicKeyOf(held));
  return [
    ...(isMade ? ['the CA of others was made anew'] : []),
    ...(isKnown ? [] : ['the CA of others has another key']),
  ];
}

it(
  `after the last act of others everything is whole or named, of ${count} sequences`,
  { timeout: 900_000 + count * 60_000 },
  async () => {
    const waiting = Array.from({ length: count }, (_, at) => firstSeed + at);
    const failed: string[] = [];
    const lane = async (): Promise<void> => {
      for (let seed = waiting.shift(); seed !== undefined; seed = waiting.shift()) {
        const at = seed;
        failed.push(...(await tell(at).catch((err: unknown) => [`seed ${at}: ${String(err)}`])));
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    expect(failed).toEqual([]);
  },
);
