// Files that are due by a clock which nothing on the machine confirms: other machines are asked for the time once nothing has
// to be repaired first, and what they say decides. Real keys and certificates, real disk.
import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { OtherClock } from '../../lib/plan/clock-rules.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { type RegenOptions, runRegen } from '../../lib/regen/run.ts';
import { DiskWorld, fastKeys, movedClock } from './disk-world.ts';

const day = 24 * 3_600_000;
const ahead = { beforeMs: 8 * day, signerBeforeMs: day, jitter: 0, warnOnly: false };
const policy: RenewalPolicy = { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0, ahead };
/** Leaves have five days of thirty left, and so has the signer of one of them. */
const clock = movedClock(25 * day);

let world: DiskWorld;
beforeEach(async () => {
  world = await DiskWorld.create();
  await runRegen(world.options());
});
afterEach(() => world[Symbol.asyncDispose]());

const once = async (more: Partial<RegenOptions> = {}): Promise<readonly string[]> => {
  const clockFacts = () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: false });
  const report = await runRegen(world.options({ policy, clock, clockFacts, keyPool: fastKeys(), ...more }));
  return report.artefacts.flatMap(({ artefact, writes }) => (writes > 0 ? [artefact] : [])).toSorted();
};
const saying = (...others: readonly OtherClock[]) => ({ otherClocks: () => Promise.resolve(others) });

it('nothing is renewed while nobody confirms it', async () => {
  const before = await world.bytes();
  expect(await once()).toEqual([]);
  expect(await once(saying())).toEqual([]);
  expect(await world.bytes()).toEqual(before);
});

it('what is due is renewed when another machine shows the same time', async () => {
  expect(await once(saying({ of: 'node-b', aheadMs: 2000 }))).toEqual(['serving']);
});

it('and not when it shows another, or with both', async () => {
  const wrong = { of: 'node-c', aheadMs: 25 * day };
  expect(await once(saying(wrong))).toEqual([]);
  expect(await once(saying({ of: 'node-b', aheadMs: 2000 }, wrong))).toEqual([]);
});

it('what has to be repaired waits for no answer', async () => {
  const { location } = world.row('client');
  if (location.kind !== 'pemPair') throw new Error('no pair');
  await Promise.all([location.certFile, location.keyFile].map((path) => rm(path)));
  let repairedFirst: boolean | undefined;
  const otherClocks = async (): Promise<readonly OtherClock[]> => {
    repairedFirst ??= (await world.read('client')) !== undefined;
    return [];
  };
  expect(await once({ otherClocks })).toEqual(['client']);
  expect(repairedFirst).toBe(true);
});
