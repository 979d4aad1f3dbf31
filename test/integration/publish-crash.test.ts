// A process that publishes is killed at random moments, thousands of times. After each kill, a reader that knows
// nothing of lib/publish finds a whole pair no older than the last number that was acknowledged; the next start
// repairs the rest. PUBLISH_KILLS changes how often.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { prune, publish } from '../../lib/publish/writer.ts';
import {
  entriesOf,
  layoutProblems,
  newObjectPath,
  pairGeneration,
  what,
  wideFiles,
} from '../publish/object-directory.ts';

const kills = Number(process.env['PUBLISH_KILLS'] ?? 2000);
const lanes = 3; // a child waits for the disk half of its time
const child = fileURLToPath(new URL('../support/faults/publish-child.ts', import.meta.url));
// Two thousand starts: what Node has compiled is kept. It writes that when it ends, so the first child may end by itself.
const compiled = mkdtempSync(join(tmpdir(), 'publish-compiled-'));
const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
execFileSync(process.execPath, [child, newObjectPath(), '1', '7'], { env });
afterAll(() => rmSync(compiled, { recursive: true }));

/**
 * Starts the child, kills it within milliseconds after its first publish, or `early` at any moment of that; the last number
 * that it acknowledged.
 */
async function publishUntilKilled(directory: string, first: number, early: boolean): Promise<number> {
  const running = spawn(process.execPath, [child, directory, String(first)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
  });
  let output = '';
  let errors = '';
  running.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  running.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const ended = once(running, 'close');
  if (early) await delay(40 + Math.random() * 40);
  else await Promise.race([once(running.stdout, 'data'), ended]);
  await delay(Math.random() * 12);
  running.kill('SIGKILL');
  await ended;
  expect(running.signalCode, errors).toBe('SIGKILL'); // otherwise it failed by itself
  const acknowledged = output.split('\n').filter((line) => line !== '');
  return Number(acknowledged.at(-1) ?? first - 1);
}

interface Tally {
  /** Kills that left something to repair: the test means nothing when there are none. */
  residues: number;
  published: number;
}

async function lane(count: number, tally: Tally): Promise<void> {
  const directory = newObjectPath();
  await publish({ directory, what, entries: entriesOf(0), mode: 0o600 });
  let generation = 0;
  for (let kill = 0; kill < count; kill += 1) {
    const early = kill % 8 === 7;
    const acknowledged = await publishUntilKilled(directory, generation + 1, early);
    if (!early) expect(acknowledged).toBeGreaterThan(generation);
    const found = Number(pairGeneration(directory));
    expect(found).toBeGreaterThanOrEqual(acknowledged);
    expect(found).toBeLessThanOrEqual(acknowledged + 1);
    expect(wideFiles(directory)).toEqual([]);
    tally.published += found - generation;
    generation = found;
    // Every second time the next start is the child's own; otherwise it is looked at here.
    if (kill % 2 === 0) continue;
    const pruned = await prune({ directory, what });
    expect(pairGeneration(directory)).toBe(String(found));
    const repaired = await publish({ directory, what, entries: entriesOf(found), mode: 0o600 });
    if (pruned > 0 || repaired === 'repaired') tally.residues += 1;
    expect(pairGeneration(directory)).toBe(String(found));
    expect(layoutProblems(directory, ['tls.crt', 'tls.key'])).toEqual([]);
  }
}

test(`publish() survives ${kills} times kill -9`, { timeout: 900_000 }, async () => {
  const tally: Tally = { residues: 0, published: 0 };
  await Promise.all(Array.from({ length: lanes }, () => lane(Math.ceil(kills / lanes), tally)));
  console.log(
    `${kills} kills, ${tally.published} generations published, ${tally.residues} kills left something to repair`,
  );
  expect(tally.residues).toBeGreaterThan(0);
});
