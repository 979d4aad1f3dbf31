// The whole program is killed with SIGKILL at random moments of a recovery, again and again; of several processes one,
// while the others go on. After each kill a reader that knows nothing of it finds no mixed pair and no empty file below
// the destination; the next start goes on, and in the end all is well, on disk as in the API, with exactly one new
// generation of every certificate, however often it was killed on the way; what is composed or copied of several may be
// written once for each. SIGTERM at such a moment ends it soon, with 0.
// RECOVERY_KILL_ROUNDS changes how often everything expires.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { eventually } from '../support/eventually.ts';
import type { Line, Tool } from '../support/cluster/recovery-world.ts';
import { damage, problems } from '../support/stories/soundness.ts';
import { type KillSubject, kubernetesSubject, openshiftSubject, type Process } from './kill-subjects.ts';

const mostKills = 3;

let subject: KillSubject;
let usual: Usual;
/** What each process runs as now. */
const running = new Map<Process, Tool>();

/** What readers find below a destination, by `secrets/<name>`. */
async function published(certs: string): Promise<Map<string, Record<string, string>>> {
  const found = new Map<string, Record<string, string>>();
  for (const kind of ['secrets', 'configmaps']) {
    for (const name of await readdir(join(certs, kind)).catch(() => [])) {
      const directory = join(certs, kind, name);
      const keys = (await readdir(directory)).filter((key) => !key.startsWith('..'));
      const texts = keys.map(async (key) => [key, await readFile(join(directory, key), 'utf8')] as const);
      found.set(`${kind}/${name}`, Object.fromEntries(await Promise.all(texts)));
    }
  }
  return found;
}

async function expectNoDamage(): Promise<void> {
  for (const { certs, resolved } of subject.processes) {
    const found = await published(certs);
    expect(found.size).toBe(resolved.artefacts.filter(({ published: isPublished }) => isPublished).length);
    for (const [name, entries] of found) {
      expect(Object.keys(entries).length, name).toBeGreaterThan(0);
      expect(damage(entries), name).toBeUndefined();
    }
  }
  // A pair of the host is two renames, so only its files by themselves are whole at every moment.
  const pki = subject.hostFiles;
  for (const name of pki === undefined ? [] : await readdir(pki, { recursive: true })) {
    if (!/\.(crt|key)$/.test(name)) continue;
    expect(await readFile(join(pki ?? '', name), 'utf8'), name).toMatch(/^-----BEGIN [^]+-----END [A-Z ]+-----\n$/);
  }
}

/** All is valid, in the API and on the host, and each destination holds what the API has. */
async function expectRecovered(): Promise<void> {
  for (const one of subject.processes) {
    const contents = await subject.contents(one);
    expect(problems(one.resolved, contents, systemClock.now())).toEqual([]);
    const files = await published(one.certs);
    for (const { name, location, published: isPublished } of one.resolved.artefacts) {
      if (isPublished === undefined || !('namespace' in location)) continue;
      const kind = location.kind === 'secret' ? 'secrets' : 'configmaps';
      expect(files.get(`${kind}/${location.name}`), name).toEqual(contents.get(name));
    }
  }
}

interface Tally {
  kills: number;
  /** What was written since everything ended last. */
  deeds: number;
  /** Kills by how far the recovery had come: nothing written yet, in the middle, all written. */
  readonly when: { early: number; middle: number; late: number };
}

/** A line of the log that stands for something written, in the API or on disk. */
const isDeed = ({ event }: Line): boolean => /regenerated|updated|sync\.written/.test(event);
const isFinished = ({ event }: Line): boolean => event === 'recovery.finished';
const any = <T>(of: readonly T[]): T => of[Math.floor(Math.random() * of.length)] as T;

const threeInFour = (): boolean => Math.random() < 3 / 4;

/** What an undisturbed recovery takes here, so that the kills fall into one wherever this runs. */
interface Usual {
  readonly ms: number;
  readonly deeds: number;
}

let onDeed: () => void = () => undefined;

/** Every process that does not run. */
function startAll(): void {
  for (const one of subject.processes) {
    if (running.has(one)) continue;
    running.set(
      one,
      one.start((line) => isDeed(line) && onDeed()),
    );
  }
}

/**
 * Aimed until a moment after one of the writes that are left, whichever; else until any time from the start on, also
 * before the first write and when all is done.
 */
async function runUntilRandom(tally: Pick<Tally, 'deeds'>, isAimed: boolean): Promise<void> {
  const left = usual.deeds - tally.deeds;
  const aimed = isAimed && left > 0;
  const atDeed = aimed ? tally.deeds + Math.ceil(Math.random() * left) : Number.POSITIVE_INFINITY;
  const reached = new Promise<void>((resolve) => {
    onDeed = () => {
      if ((tally.deeds += 1) >= atDeed) resolve();
    };
  });
  startAll();
  await Promise.race([reached, delay(aimed ? usual.ms : usual.ms * Math.random())]);
  await delay(Math.random() * 5);
}

async function killAtRandom(tally: Tally): Promise<void> {
  await runUntilRandom(tally, tally.kills === 0 || threeInFour());
  // One of several that has something under way, if there is one: others have nothing to lose.
  const busy = [...running].filter(([, { lines }]) => lines.some(isDeed) && !lines.some(isFinished));
  const [victim, tool] = any(busy.length > 0 ? busy : [...running]);
  await tool.stop('SIGKILL');
  running.delete(victim);
  tally.kills += 1;
  if (tool.lines.some(isFinished)) tally.when.late += 1;
  else if (tool.lines.some(isDeed)) tally.when.middle += 1;
  else tally.when.early += 1;
  await expectNoDamage();
}

/** SIGTERM ends them soon, in good order, whatever they were doing. */
async function expectStops(): Promise<void> {
  for (const tool of running.values()) {
    // Before its first line nobody listens to signals yet.
    await eventually(() => expect(tool.lines.length).toBeGreaterThan(0));
    const code = await Promise.race([tool.stop(), delay(60_000, 'still running after a minute')]);
    if (typeof code === 'string') await tool.stop('SIGKILL');
    const crash = tool.lines.filter(({ event }) => event === 'stderr').map(({ fields }) => fields['text']);
    expect(code, crash.join('\n')).toBe(0);
  }
  running.clear();
}

/** Starts what does not run and lets it finish; how long that took. */
async function finish(): Promise<number> {
  const began = performance.now();
  startAll();
  await eventually(expectRecovered, { everyMs: 100 });
  return performance.now() - began;
}

/** Without a kill: what a recovery takes here, so that kills fall into it wherever this runs. */
async function usualRecovery(): Promise<Usual> {
  await subject.expire();
  const ms = await finish();
  const deeds = [...running.values()].flatMap(({ lines }) => lines.filter(isDeed)).length;
  await expectStops();
  return { ms, deeds };
}

describe.each([
  ['the preset kubernetes', kubernetesSubject],
  ["OpenShift's presets on two machines", openshiftSubject],
])('%s', (_, create) => {
  beforeAll(async () => {
    subject = await create();
    usual = await usualRecovery();
  });
  afterAll(async () => {
    for (const tool of running.values()) await tool.stop('SIGKILL');
    running.clear();
    await subject?.[Symbol.asyncDispose]();
  });

  it('recovers from everything expired, killed at random moments', { timeout: 900_000 }, async () => {
    const tally: Tally = { kills: 0, deeds: 0, when: { early: 0, middle: 0, late: 0 } };
    let longest = 0;
    for (let round = 0; round < subject.rounds; round += 1) {
      await subject.expire();
      const generations = await subject.watch();
      const kills = 1 + (round % mostKills);
      tally.deeds = 0;
      for (let kill = 0; kill < kills; kill += 1) await killAtRandom(tally);
      longest = Math.max(longest, await finish());
      await expectStops();
      expect(await generations.close()).toEqual([]);
      // A first recovery may have had more to write; aims beyond the last write would hit nothing.
      usual = { ...usual, deeds: Math.min(usual.deeds, tally.deeds) };
    }
    const { early, middle, late } = tally.when;
    console.log(
      `${tally.kills} kills (${early} before, ${middle} in, ${late} after the writes) of recoveries of ` +
        `${Math.round(usual.ms)} ms and ${usual.deeds} writes; what was left took at most ${Math.round(longest)} ms`,
    );
    expect(middle).toBeGreaterThan(tally.kills / 4);
  });

  it('ends in good order when it is asked to, also in the middle of its writes', { timeout: 900_000 }, async () => {
    for (let round = 0; round < subject.stops; round += 1) {
      await subject.expire();
      await runUntilRandom({ deeds: 0 }, threeInFour());
      await expectStops();
      await expectNoDamage();
    }
    await finish();
    await expectStops();
  });
});
