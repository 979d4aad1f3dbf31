import { expect, test } from 'vitest';
import { type Due, nextBatch } from '../../lib/approver/batch.ts';

const signer = 'kubernetes.io/kube-apiserver-client-kubelet';
const second = (count: number): Date => new Date(count * 1000);
const own = 'panda';
const asked = (count: number, lookAt?: number, node?: string): Due => ({
  summary: {
    signer,
    requestedAt: second(count),
    ...(node !== undefined && { node }),
  },
  ...(lookAt !== undefined && { lookAt }),
});

test('what was never looked at goes first, and of that the newest', () => {
  const due = [asked(1), asked(9, 5), asked(3), asked(2)];
  expect(nextBatch(due, own).map(({ summary }) => summary.requestedAt)).toEqual([3, 2, 1, 9].map(second));
});

test('what has been due for longest goes before what came due later', () => {
  const due = [asked(1, 30), asked(2, 10), asked(3, 20)];
  expect(nextBatch(due, own).map(({ lookAt }) => lookAt)).toEqual([10, 20, 30]);
});

test('a turn takes so many, and turn by turn each of a thousand gets its look', () => {
  let now = 0;
  let waiting = Array.from({ length: 1000 }, (_, count) => asked(count));
  const looked = new Set<number>();
  for (let turn = 0; turn < 16; turn += 1) {
    const mine = new Set(nextBatch(waiting, own));
    expect(mine.size).toBe(100);
    for (const { summary } of mine) looked.add(summary.requestedAt.getTime());
    now += 5000;
    waiting = waiting.map((each) => (mine.has(each) ? { ...each, lookAt: now } : each));
  }
  expect(looked.size).toBe(1000);
});

const flood = (node?: string) => Array.from({ length: 5000 }, (_, count) => asked(1000 + count, undefined, node));

test('its own node goes first, however many others ask and whatever came later', () => {
  const mine = asked(1, undefined, own);
  expect(nextBatch([...flood('tiger'), mine], own)[0]).toBe(mine);
  expect(nextBatch([...flood(), mine], own)[0]).toBe(mine);
  expect(nextBatch([asked(9), mine], own)[0]).toBe(mine);
  const again = asked(2, 1, own);
  expect(nextBatch([...flood(), again], own)[0]).toBe(again);
});

test('under a flood each node has one request in a turn, its newest, before any has a second', () => {
  const due = [...flood('tiger'), ...flood('lion'), asked(1, undefined, 'wolf')];
  const turn = nextBatch(due, own).map(({ summary }) => summary);
  expect(turn.slice(0, 3)).toEqual([
    { signer, requestedAt: second(5999), node: 'tiger' },
    { signer, requestedAt: second(5999), node: 'lion' },
    { signer, requestedAt: second(1), node: 'wolf' },
  ]);
  expect(turn).toHaveLength(100);
});

test('a request is looked at although newer ones come faster than turns, in the name of ever other nodes', () => {
  const mine = asked(0, undefined, 'worker');
  let waiting: Due[] = Array.from({ length: 300 }, (_, count) => asked(count - 500, undefined, `before-${count}`));
  waiting.push(mine);
  let turns = 0;
  for (; waiting.includes(mine); turns += 1) {
    expect(turns).toBeLessThan(20);
    for (let count = 0; count < 500; count += 1) {
      const at = turns * 500 + count;
      waiting.push(asked(at + 1, undefined, `flood-${at}`));
    }
    const looked = new Set(nextBatch(waiting, own));
    waiting = waiting.filter((each) => !looked.has(each));
  }
  expect(turns).toBeGreaterThan(1);
});

test('what is due again has its turns beside what is new', () => {
  const again = asked(1, 5, 'worker');
  expect(nextBatch([...flood(), again], own)).toContain(again);
});
