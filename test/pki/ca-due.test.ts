import { expect, it } from 'vitest';
import { caDueMs, caThresholdMs, defaultCaBeforeMs, earliestDue, jitterPart } from '../../lib/pki/ca-due.ts';

const day = 86_400_000;
const lives = (days: number) => ({ notBefore: new Date(0), notAfter: new Date(days * day) });

it.each([
  ['a year before its end', 3650, 365],
  ['with a third of a shorter life left', 300, 100],
])('a CA is due %s', (_, life, left) => {
  expect(caThresholdMs(lives(life))).toBe(left * day);
  expect(caDueMs(life * day, defaultCaBeforeMs)).toBe(left * day);
});

it('a CA is due by a configured threshold, at most a third of its life', () => {
  expect(caDueMs(3650 * day, 90 * day)).toBe(90 * day);
  expect(caDueMs(90 * day, 90 * day)).toBe(30 * day);
});

it('earliestDue() is before any node renews', () => {
  const ca = lives(300);
  expect(earliestDue(ca).getTime()).toBe(300 * day - 100 * day * (1 + jitterPart));
  expect(earliestDue(ca, 200 * day).getTime()).toBe(300 * day - 200 * day * (1 + jitterPart));
});
