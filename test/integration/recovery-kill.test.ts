// The whole program is killed with SIGKILL at random moments of a recovery, again and again. After each kill a reader
// that knows nothing of it finds no mixed pair and no empty file below the destination; the next start goes on, and in
// the end all is well, on disk as in the API, with exactly one new generation of every object, however often it was
// killed on the way. SIGTERM at such a moment ends it soon, with 0. RECOVERY_KILL_ROUNDS changes how often everything expires.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { eventually } from '../support/eventually.ts';
import { isRecovery, type Line, RecoveryWorld, type Tool } from '../support/recovery-world.ts';
import { type Contents, contentsInApi, damage, problems } from '../support/soundness.ts';
import { watchGenerations } from '../support/generations.ts';

const rounds = Number(process.env['RECOVERY_KILL_ROUNDS'] ?? 12);
const mostKills = 3;
const stops = 10;

let world: RecoveryWorld;

beforeAll(async () => {
  // The controller manager fills the tokens of our own service accounts, and is not needed afterwards.
  world = await RecoveryWorld.create({ components: ['etcd', 'kube-apiserver', 'kube-controller-manager'] });
  await world.controlPlane.stopComponent('kube-controller-manager');
});
afterAll(() => world?.[Symbol.asyncDispose]());

/** What readers find below the destination, by `secrets/<name>`. */
async function published(): Promise<Map<string, Record<string, string>>> {
  const found = new Map<string, Record<string, string>>();
  for (const kind of ['secrets', 'configmaps']) {
    for (const name of await readdir(join(world.certs, kind))) {
      const directory = join(world.certs, kind, name);
      const keys = (await readdir(directory)).filter((key) => !key.startsWith('..'));
      const texts = keys.map(async (key) => [key, await readFile(join(directory, key), 'utf8')] as const);
      found.set(`${kind}/${name}`, Object.fromEntries(await Promise.all(texts)));
    }
  }
  return found;
}

async function expectNoDamage(): Promise<void> {
  const found = await published();
  expect(found.size).toBe(world.resolved.artefacts.filter(({ published: isPublished }) => isPublished).length);
  for (const [name, entries] of found) {
    expect(Object.keys(entries).length, name).toBeGreaterThan(0);
    expect(damage(entries), name).toBeUndefined();
  }
  // A pair of the host is two renames, so only its files by themselves are whole at every moment.
  const pki = join(world.root, 'pki');
  for (const name of await readdir(pki, { recursive: true })) {
    if (!/\.(crt|key)$/.test(name)) continue;
    expect(await readFile(join(pki, name), 'utf8'), name).toMatch(/^-----BEGIN [^]+-----END [A-Z ]+-----\n$/);
  }
}

/** Of the host's files, which the API knows nothing of. */
async function contentsOnHost(): Promise<Contents> {
  const read = (path: string): Promise<string> => readFile(path, 'utf8');
  const contents = new Map<string, Record<string, string>>();
  for (const { name, truth } of world.resolved.artefacts) {
    if (truth.kind === 'pemPair') {
      contents.set(name, { 'tls.crt': await read(truth.certFile), 'tls.key': await read(truth.keyFile) });
    } else if (truth.kind === 'pemFile') contents.set(name, { 'ca-bundle.crt': await read(truth.file) });
  }
  return contents;
}

/** All is valid, in the API and on the host, and the destination holds what the API has. */
async function expectRecovered(): Promise<void> {
  const { resolved, controlPlane } = world;
  const contents = new Map([...(await contentsInApi(controlPlane, resolved)), ...(await contentsOnHost())]);
  expect(problems(resolved, contents, systemClock.now())).toEqual([]);
  const files = await published();
  for (const { name, truth, published: isPublished } of resolved.artefacts) {
    if (isPublished === undefined || !('namespace' in truth)) continue;
    const kind = truth.kind === 'secret' ? 'secrets' : 'configmaps';
    expect(files.get(`${kind}/${truth.name}`), name).toEqual(contents.get(name));
  }
}

interface Tally {
  kills: number;
  /** Kills by how far the recovery had come: nothing written yet, in the middle, all written. */
  readonly when: { early: number; middle: number; late: number };
}

/** A line of the log that stands for something written, in the API or on disk. */
const isDeed = ({ event }: Line): boolean => /regenerated|updated|sync\.written/.test(event);

/** What an undisturbed recovery takes here, so that the kills fall into one wherever this runs. */
interface Usual {
  readonly ms: number;
  readonly deeds: number;
}

/**
 * Three times in four until a moment after one of the writes, whichever; otherwise until any time from the start on,
 * also before the first write and when all is done.
 */
async function runUntilRandom(usual: Usual): Promise<Tool> {
  const atDeed = Math.random() < 3 / 4 ? Math.ceil(Math.random() * usual.deeds) : Number.POSITIVE_INFINITY;
  const withinMs = Number.isFinite(atDeed) ? usual.ms : usual.ms * Math.random();
  let deeds = 0;
  let tell: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => void (tell = resolve));
  const tool = world.startTool([], (line) => {
    if (isDeed(line) && (deeds += 1) >= atDeed) tell();
  });
  await Promise.race([reached, delay(withinMs)]);
  await delay(Math.random() * 5);
  return tool;
}

async function killAtRandom(tally: Tally, usual: Usual): Promise<void> {
  const tool = await runUntilRandom(usual);
  await tool.stop('SIGKILL');
  tally.kills += 1;
  if (tool.lines.some(({ event }) => event === 'recovery.finished')) tally.when.late += 1;
  else if (tool.lines.some(isDeed)) tally.when.middle += 1;
  else tally.when.early += 1;
  await expectNoDamage();
}

/** SIGTERM ends it soon, in good order, whatever it was doing. */
async function expectStops(tool: Tool): Promise<void> {
  // Before its first line nobody listens to signals yet.
  await eventually(() => expect(tool.lines.length).toBeGreaterThan(0));
  const code = await Promise.race([tool.stop(), delay(10_000, 'still running after ten seconds')]);
  if (typeof code === 'string') await tool.stop('SIGKILL');
  const crash = tool.lines.filter(({ event }) => event === 'stderr').map(({ fields }) => fields['text']);
  expect(code, crash.join('\n')).toBe(0);
}

/** Starts the program and lets it finish; how long that took. */
async function finish(): Promise<{ tool: Tool; took: number }> {
  const began = performance.now();
  const tool = world.startTool();
  await eventually(expectRecovered, { withinMs: 60_000, everyMs: 100 });
  return { tool, took: performance.now() - began };
}

/** Without a kill: what a recovery takes here, so that kills fall into it wherever this runs. */
async function usualRecovery(): Promise<Usual> {
  await world.expireAll();
  const { tool, took } = await finish();
  await expectStops(tool);
  return { ms: took, deeds: tool.lines.filter(isDeed).length };
}

it(`recovers from ${rounds} times everything expired, killed at random moments`, { timeout: 900_000 }, async () => {
  const tally: Tally = { kills: 0, when: { early: 0, middle: 0, late: 0 } };
  const wanted = world.resolved.artefacts.flatMap((artefact) =>
    'namespace' in artefact.truth && artefact.kind !== 'keyPair'
      ? [[artefact.name, isRecovery(artefact) ? 1 : 2] as const]
      : [],
  );
  let longest = 0;
  const usual = await usualRecovery();
  for (let round = 0; round < rounds; round += 1) {
    await world.expireAll();
    const generations = await watchGenerations(world);
    const kills = 1 + (round % mostKills);
    for (let kill = 0; kill < kills; kill += 1) await killAtRandom(tally, usual);
    const { tool, took } = await finish();
    longest = Math.max(longest, took);
    await expectStops(tool);
    expect(await generations.close()).toEqual(Object.fromEntries(wanted));
  }
  const { early, middle, late } = tally.when;
  console.log(
    `${tally.kills} kills (${early} before, ${middle} in, ${late} after the writes) of recoveries of ` +
      `${Math.round(usual.ms)} ms and ${usual.deeds} writes; what was left took at most ${Math.round(longest)} ms`,
  );
  expect(middle).toBeGreaterThan(tally.kills / 4);
});

it('ends in good order when it is asked to, also in the middle of its writes', { timeout: 300_000 }, async () => {
  const usual = await usualRecovery();
  for (let round = 0; round < stops; round += 1) {
    await world.expireAll();
    await expectStops(await runUntilRandom(usual));
    await expectNoDamage();
  }
  await expectStops((await finish()).tool);
});
