import { expect, it } from 'vitest';
import { createLog } from '../../lib/log.ts';
import { knownClock } from '../../lib/regen/known-clock.ts';
import { FakeClock } from '../support/fake-clock.ts';

const second = 1000;

function known(synchronised: boolean) {
  const clock = new FakeClock(new Date('2026-06-01T00:00:00Z'));
  const asked: boolean[] = [];
  const sources = knownClock({
    clock,
    log: createLog({ level: 'error', write: () => undefined }),
    signal: new AbortController().signal,
    clockFacts: (thorough) => {
      asked.push(thorough);
      return { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: thorough && synchronised };
    },
  });
  return { clock, asked, ask: () => sources.ask({ apiAnswers: false }) };
}

it('a machine that denies that its clock is synchronised is asked once by passes that follow each other', async () => {
  const { clock, asked, ask } = known(false);
  for (let pass = 0; pass < 3; pass += 1) {
    expect((await ask()).synchronised).toBe(false);
    clock.advance(0.4 * second);
  }
  expect(asked).toEqual([true, false, false]);
  await ask();
  expect(asked.at(-1)).toBe(true);
});

it('and again at once when its clock was set back since', async () => {
  const { clock, asked, ask } = known(false);
  await ask();
  clock.set(new Date('2026-05-01T00:00:00Z'));
  await ask();
  expect(asked).toEqual([true, true]);
});

it('a confirmation is not remembered: the clock may have been set since', async () => {
  const { asked, ask } = known(true);
  for (let pass = 0; pass < 2; pass += 1) expect((await ask()).synchronised).toBe(true);
  expect(asked).toEqual([true, true]);
});
