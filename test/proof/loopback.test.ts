import { expect, it } from 'vitest';
import { judgeLoopback } from '../../lib/proof/loopback.ts';

const day = 86_400_000;
const start = new Date('2026-01-01T00:00:00Z');
const after = (days: number): Date => new Date(start.getTime() + days * day);

it.each([
  [0, 'OK'],
  [79, 'OK'],
  [80, 'EXPIRING'],
  [99, 'EXPIRING'],
  [100, 'EXPIRED'],
])('after %i of a hundred days it is %s', (days, state) => {
  const verdict = judgeLoopback({ notBefore: start, notAfter: after(100) }, after(days));
  expect(verdict).toEqual({ state, restartsAt: after(90), restartsAnywayAt: after(95) });
});
