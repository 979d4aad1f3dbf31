// What is accepted here is what Go and OpenSSL read, and they read the same: 10,000 damaged requests.
import { expect, it } from 'vitest';
import { damageOptions } from '../support/faults/damaged-readers.ts';
import { requestDifferences } from '../support/faults/request-differences.ts';

it('accepts no request that Go or OpenSSL reads otherwise', async () => {
  const { seed, count } = damageOptions(1, 10_000);
  const { differences, accepted, ofKubelets, named } = await requestDifferences({ seed, count });
  expect(differences).toEqual([]);
  // Enough are accepted for this to mean something.
  if (count < 1000) return;
  expect(accepted).toBeGreaterThan(count / 10);
  expect(ofKubelets).toBeGreaterThan(count / 50);
  expect(named).toBeGreaterThan(count / 100);
}, 300_000);
