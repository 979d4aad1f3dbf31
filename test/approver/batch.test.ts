import { describe, expect, it, test } from 'vitest';
import { type Due, mostRemembered, nextBatch, Pressure, toForget } from '../../lib/approver/batch.ts';

const signer = 'kubernetes.io/kube-apiserver-client-kubelet';
const second = (count: number): Date => new Date(count * 1000);
const own = 'panda';
const nodes = { own, known: new Set<string>() };
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
  expect(nextBatch(due, nodes).map(({ summary }) => summary.requestedAt)).toEqual([3, 2, 1, 9].map(second));
});

test('what has been due for longest goes before what came due later', () => {
  const due = [asked(1, 30), asked(2, 10), asked(3, 20)];
  expect(nextBatch(due, nodes).map(({ lookAt }) => lookAt)).toEqual([10, 20, 30]);
});

test('a turn takes so many, and turn by turn each of a thousand gets its look, and again', () => {
  let now = 0;
  let waiting = Array.from({ length: 1000 }, (_, count) => asked(count));
  const looks = new Map<number, number>();
  for (let turn = 0; turn < 90; turn += 1) {
    const mine = new Set(nextBatch(waiting, nodes));
    expect(mine.size).toBeLessThanOrEqual(100);
    for (const { summary } of mine) {
      looks.set(summary.requestedAt.getTime(), (looks.get(summary.requestedAt.getTime()) ?? 0) + 1);
    }
    now += 1000;
    waiting = waiting.map((each) => (mine.has(each) ? { ...each, lookAt: now } : each));
    if (turn === 12) expect(looks.size).toBe(1000);
  }
  expect(Math.min(...looks.values())).toBeGreaterThan(1);
});

const flood = (node?: string) => Array.from({ length: 5000 }, (_, count) => asked(1000 + count, undefined, node));

test('its own node goes first, however many others ask and whatever came later', () => {
  const mine = asked(1, undefined, own);
  expect(nextBatch([...flood('tiger'), mine], nodes)[0]).toBe(mine);
  expect(nextBatch([...flood(), mine], nodes)[0]).toBe(mine);
  expect(nextBatch([asked(9), mine], nodes)[0]).toBe(mine);
  const again = asked(2, 1, own);
  expect(nextBatch([...flood(), again], nodes)[0]).toBe(again);
});

test('under a flood each node has one request in a turn, of those that exist its newest', () => {
  const wolf = asked(1, undefined, 'wolf');
  const due = [...flood('tiger'), ...flood('lion'), wolf];
  const turn = nextBatch(due, { own, known: new Set(['lion']) });
  expect(turn).toHaveLength(100);
  expect(turn).toContain(wolf);
  expect(turn[1]?.summary).toEqual({ signer, requestedAt: second(5999), node: 'lion' });
});

test('the forty newest are all in the next turn, whatever they name and whatever else waits', () => {
  const known = Array.from({ length: 5000 }, (_, count) => `node-${count}`);
  const others = [
    ...flood('tiger'),
    ...known.map((node, at) => asked(6000 + at, undefined, node)),
    ...known.map((node, at) => asked(at, at, node)),
    ...Array.from({ length: 10_000 }, (_, at) => asked(at, undefined, `nowhere-${at}`)),
  ];
  const newest = Array.from({ length: 40 }, (_, at) => asked(20_000 + at, undefined, at < 20 ? 'tiger' : `new-${at}`));
  const turn = nextBatch([...newest, ...others], { own, known: new Set(known) });
  expect(turn).toHaveLength(100);
  expect(turn).toEqual(expect.arrayContaining(newest));
});

test('what was left of nodes that nobody has registered is not read again without end', () => {
  const due = Array.from({ length: 10_000 }, (_, at) => asked(at, at, `nowhere-${at}`));
  expect(nextBatch(due, nodes).length).toBeLessThan(20);
  const known = Array.from({ length: 300 }, (_, at) => asked(at, 20_000 + at, `node-${at}`));
  const turn = nextBatch([...due, ...known], { own, known: new Set(known.map(({ summary: { node = '' } }) => node)) });
  expect(turn).toHaveLength(100);
});

describe('toForget()', () => {
  it('forgets what needs no look first, and what this machine or a known node waits for last', () => {
    const settled = { ...asked(90, 1), isSettled: true };
    const left = asked(80, 1, 'nowhere');
    const mine = [asked(1, undefined, own), asked(2, 5, 'lion')];
    const rest = Array.from({ length: mostRemembered - 2 }, (_, at) => asked(100 + at, undefined, `nowhere-${at}`));
    const known = { own, known: new Set(['lion']) };
    expect(toForget([...mine, ...rest], known)).toEqual([]);
    expect(toForget([...mine, left, settled, ...rest], known)).toEqual([settled, left]);
    expect(toForget([...mine, ...rest, asked(99, undefined, 'x')], known)).toEqual([asked(99, undefined, 'x')]);
  });
});

describe('Pressure', () => {
  it('is high from more than a hundred new requests in a minute until a minute had fewer', () => {
    const pressure = new Pressure();
    for (let at = 0; at < 60_000; at += 1000) pressure.note(1, at);
    expect(pressure.isHigh(59_000)).toBe(false);
    for (let at = 60_000; at < 120_000; at += 1000) pressure.note(2, at);
    expect(pressure.isHigh(119_000)).toBe(true);
    expect(pressure.isHigh(179_000)).toBe(true);
    expect(pressure.isHigh(180_000)).toBe(false);
  });
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
    const looked = new Set(nextBatch(waiting, nodes));
    waiting = waiting.filter((each) => !looked.has(each));
  }
  expect(turns).toBeGreaterThan(1);
});

test('what is due again has its turns beside what is new', () => {
  const again = asked(1, 5, 'worker');
  expect(nextBatch([...flood(), again], nodes)).toContain(again);
});
