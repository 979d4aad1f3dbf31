// A year of OpenShift's operators and regen on the same objects, in seconds. Whoever comes first, and whatever half-done
// work of the other it meets: nothing is written twice for one generation (a certificate, a set of certificates, a
// content), no pair is renewed before its time, and at every rest all of it can be verified.
import { describe, expect, it } from 'vitest';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { leafs, secret } from '../support/stories/operator-actor.ts';
import { SimulatedYear, type YearOptions } from './simulated-year.ts';

/** Of real time; a busy machine needs some. */
const mostMs = 300_000;
const policies: readonly RenewalPolicy['kind'][] = ['OnlyWhenExpired', 'BeforeExpiry'];

async function begun(options: YearOptions): Promise<SimulatedYear> {
  const year = new SimulatedYear(options);
  await year.begin();
  return year;
}

const written = (year: SimulatedYear): string[] =>
  year.writes.filter(({ by }) => by === 'regen').map(({ object }) => object);

describe('a year beside the operator', { timeout: mostMs }, () => {
  it.each([1])('OnlyWhenExpired writes nothing (seed %i)', async (seed) => {
    const year = await begun({ seed, policy: 'OnlyWhenExpired' });
    year.isStrict = true;
    await year.days(365);
    expect(year.faults).toEqual([]);
    expect(written(year)).toEqual([]);
    expect(year.count('operator')).toBeGreaterThan(300);
  });

  it.each([2])('BeforeExpiry shares the work (seed %i)', async (seed) => {
    const year = await begun({ seed, policy: 'BeforeExpiry' });
    year.isStrict = true;
    await year.days(365);
    expect(year.faults).toEqual([]);
    expect(year.count('operator')).toBeGreaterThan(50);
    expect(year.count('regen')).toBeGreaterThan(50);
  });

  it.each(policies)('%s goes with an operator that takes seconds for each write', async (policy) => {
    const year = await begun({ seed: 3, policy, stepMs: 6000 });
    year.isStrict = true;
    await year.days(32);
    expect(year.faults).toEqual([]);
    const pairs = written(year).filter((object) => leafs(year.store.peek(secret(object))).length > 0);
    // What the operator has not yet copied is copied; no certificate is made.
    const copied = /\/csr-signer$|client-cert-key$/;
    if (policy === 'OnlyWhenExpired') expect(pairs.filter((object) => !copied.test(object))).toEqual([]);
  });
});

describe('an operator that was off for months', { timeout: mostMs }, () => {
  it.each(policies)('finds everything healed by %s, and both go on', async (policy) => {
    const year = await begun({ seed: 4, policy });
    year.isOperatorOn = false;
    await year.days(50);
    expect(year.count('operator')).toBe(0);
    expect(year.count('regen')).toBeGreaterThan(10);
    year.isOperatorOn = true;
    year.isStrict = true;
    await year.days(17);
    expect(year.faults).toEqual([]);
  });

  it.each(policies)('heals with %s what has expired meanwhile, when both were off', async (policy) => {
    const year = await begun({ seed: 5, policy });
    year.clock.ms += 200 * 24 * 3_600_000;
    expect(year.unverifiable().length).toBeGreaterThan(5);
    await year.tillQuiet();
    year.isStrict = true;
    await year.days(17);
    expect(year.faults).toEqual([]);
  });
});

it('three presets bring back what has ended without waiting for anybody', { timeout: mostMs }, async () => {
  const year = await begun({ seed: 8, policy: 'OnlyWhenExpired' });
  year.isOperatorOn = false;
  year.clock.ms += 200 * 24 * 3_600_000;
  expect(await year.withoutWaiting()).toEqual([]);
  expect(year.faults).toEqual([]);
});

it('what regen has made from nothing the operator describes once, in its own words', { timeout: mostMs }, async () => {
  const year = new SimulatedYear({ seed: 6, policy: 'BeforeExpiry' });
  await year.begin('regen');
  await year.tillQuiet();
  const described = year.faults.splice(0);
  expect(described.filter((fault) => !fault.endsWith('(changed: openshift.io/description)'))).toEqual([]);
  const objects = described.map((fault) => fault.split(' ')[1]);
  expect(new Set(objects).size).toBe(objects.length);
  await year.days(17);
  expect(year.faults).toEqual([]);
});

describe('the year notices', { timeout: mostMs }, () => {
  it.each([
    ['unsortedBundles', /writes a generation that was there \(changed: ca-bundle.crt\)/],
    ['metadataAlways', /writes a generation that was there \(changed: nothing\)/],
    ['earlyRenewal', /renews it \d+ s early/],
  ] as const)('an operator with %s', async (rule, fault) => {
    const year = new SimulatedYear({ seed: 7, policy: 'BeforeExpiry', broken: new Set([rule]) });
    // One that never rests ends the story. In months its bundles may happen to be in order, by their keys: not in a year.
    await year.begin().catch(() => undefined);
    for (let n = 0; n < 36 && year.faults.length === 0; n += 1) await year.days(10).catch(() => undefined);
    expect(year.faults.join('\n')).toMatch(fault);
  });
});
