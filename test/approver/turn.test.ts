import { expect, test } from 'vitest';
import { type Due, nextTurn } from '../../lib/approver/turn.ts';

const second = (count: number): Date => new Date(count * 1000);
const asked = (count: number, lookAt?: number): Due => ({
  outline: { requestedAt: second(count) },
  ...(lookAt !== undefined && { lookAt }),
});

test('what was never looked at goes first, and of that the newest', () => {
  const due = [asked(1), asked(9, 5), asked(3), asked(2)];
  expect(nextTurn(due).map(({ outline }) => outline.requestedAt)).toEqual([3, 2, 1, 9].map(second));
});

test('what has been due for longest goes before what came due later', () => {
  const due = [asked(1, 30), asked(2, 10), asked(3, 20)];
  expect(nextTurn(due).map(({ lookAt }) => lookAt)).toEqual([10, 20, 30]);
});

test('a turn takes so many, and turn by turn each of a thousand gets its look', () => {
  let now = 0;
  let waiting = Array.from({ length: 1000 }, (_, count) => asked(count));
  const looked = new Set<number>();
  for (let turn = 0; turn < 10; turn += 1) {
    const mine = new Set(nextTurn(waiting));
    expect(mine.size).toBe(100);
    for (const { outline } of mine) looked.add(outline.requestedAt.getTime());
    now += 5000;
    waiting = waiting.map((each) => (mine.has(each) ? { ...each, lookAt: now } : each));
  }
  expect(looked.size).toBe(1000);
});
