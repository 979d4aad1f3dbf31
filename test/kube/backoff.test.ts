import { expect, it } from 'vitest';
import { backoffMs } from '../../lib/kube/backoff.ts';

const options = { firstMs: 100, longestMs: 1000 };

it('backoffMs() doubles up to the limit', () => {
  const delays = [1, 2, 3, 4, 5, 60, 5000].map((attempt) => backoffMs(attempt, { ...options, random: () => 1 }));
  expect(delays).toEqual([100, 200, 400, 800, 1000, 1000, 1000]);
});

it('backoffMs() spreads waiters over the upper half, and never returns 0', () => {
  expect(backoffMs(1, { ...options, random: () => 0 })).toBe(50);
  expect(backoffMs(0, { ...options, random: () => 0 })).toBe(50);
  expect(backoffMs(9, { ...options, random: () => 0.5 })).toBe(750);
});
