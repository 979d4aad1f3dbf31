import { expect, it } from 'vitest';
import type { ResolvedTarget } from '../../lib/inventory/model.ts';
import { trustOfReaders } from '../../lib/proof/trust-of-readers.ts';
import { chain, target } from '../support/facts.ts';

const serving: ResolvedTarget = { ...target, usage: 'serving', hostnames: ['kubernetes', 'api.example.com'] };
const namesOf = async (artefact: ResolvedTarget): Promise<readonly string[]> =>
  (await trustOfReaders(artefact, { resolved: chain, serverName: 'kubernetes' })).names;

it('asks for the name by which a certificate is met, where the inventory gives it that', async () => {
  expect(await namesOf(serving)).toEqual(['kubernetes']);
  expect(await namesOf({ ...serving, hostnames: ['other'] })).toEqual([]);
});

it('asks for the names that are demanded, and for none of one that is renewed as it is', async () => {
  expect(await namesOf({ ...serving, template: 'present', demandedHostnames: ['a', 'b'] })).toEqual(['a', 'b']);
  expect(await namesOf({ ...serving, template: 'present' })).toEqual([]);
});
