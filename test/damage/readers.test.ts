// Damage to all that is read, case by case from a seed: 2,000 here, 240,000 in test/long.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Dice } from '../support/faults/damage.ts';
import { ObjectCases } from '../support/faults/damaged-objects.ts';
import { damageOptions, MachineCases, violationsOf } from '../support/faults/damaged-readers.ts';
import { RecordCases } from '../support/faults/damaged-records.ts';

const missing = (): never => expect.fail('nothing was prepared');
const timeout = 300_000; // seconds on a machine of its own; it may have to share two cores with everything else

describe('nothing throws, no other entry changes, nothing healthy is written', () => {
  let machine: MachineCases | undefined;
  let objects: ObjectCases | undefined;
  let records: RecordCases | undefined;
  beforeAll(async () => {
    [machine, objects, records] = await Promise.all([
      MachineCases.create(),
      ObjectCases.create(),
      RecordCases.create(),
    ]);
  }, timeout);
  afterAll(() => Promise.all([machine?.[Symbol.asyncDispose](), records?.[Symbol.asyncDispose]()]));

  it(
    'when a file of a kubeadm machine is damaged: certificate, key, kubeconfig, manifest, configuration, backup',
    async () => expect(await violationsOf(machine ?? missing(), damageOptions(1, 400))).toEqual([]),
    timeout,
  );

  it(
    'when a Secret or a ConfigMap is damaged: its pair, bundle or key, or its data',
    async () => expect(await violationsOf(objects ?? missing(), damageOptions(1, 600))).toEqual([]),
    timeout,
  );

  it(
    'when a record, the configuration or a request is damaged',
    async () => expect(await violationsOf(records ?? missing(), damageOptions(1, 1000))).toEqual([]),
    timeout,
  );
});

it('the same seed is the same damage', () => {
  const rolls = (): readonly number[] => {
    const dice = new Dice(7);
    return Array.from({ length: 5 }, () => dice.roll(1000));
  };
  expect(rolls()).toEqual(rolls());
  expect(new Set(Array.from({ length: 100 }, (_, seed) => new Dice(seed).roll(1e9))).size).toBe(100);
});
