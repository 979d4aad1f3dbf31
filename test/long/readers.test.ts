// As test/damage, and test/integration/go-readers, many times as often. DAMAGE_SEED begins elsewhere.
import { expect, it } from 'vitest';
import { ObjectCases } from '../support/faults/damaged-objects.ts';
import { damageOptions, MachineCases, violationsOf } from '../support/faults/damaged-readers.ts';
import { RecordCases } from '../support/faults/damaged-records.ts';
import { differencesFromGo } from '../support/faults/go-differences.ts';
import { requestDifferences } from '../support/faults/request-differences.ts';

const hour = 3_600_000;

it(
  '40,000 damages to the files of a machine end nothing and reach nothing else',
  async () => {
    await using cases = await MachineCases.create();
    expect(await violationsOf(cases, damageOptions(1_000_000, 40_000))).toEqual([]);
  },
  4 * hour,
);

it(
  '60,000 damages to objects of the API',
  async () => expect(await violationsOf(await ObjectCases.create(), damageOptions(1_000_000, 60_000))).toEqual([]),
  4 * hour,
);

it(
  '40,000 damages to records, configuration and requests',
  async () => {
    await using cases = await RecordCases.create();
    expect(await violationsOf(cases, damageOptions(1_000_000, 40_000))).toEqual([]);
  },
  4 * hour,
);

it(
  '100,000 certificates, keys, bundles and kubeconfigs are accepted where Go accepts them',
  async () => {
    const { seed, count } = damageOptions(1_000_000, 100_000);
    for (let at = 0; at < count; at += 10_000) {
      expect(await differencesFromGo({ seed: seed + at, count: Math.min(10_000, count - at) })).toEqual([]);
    }
  },
  4 * hour,
);

it(
  '200,000 requests: what is accepted, Go and OpenSSL read and read the same',
  async () => {
    const { seed, count } = damageOptions(1_000_000, 200_000);
    for (let at = 0; at < count; at += 10_000) {
      const part = { seed: seed + at, count: Math.min(10_000, count - at) };
      expect((await requestDifferences(part)).differences).toEqual([]);
    }
  },
  4 * hour,
);
