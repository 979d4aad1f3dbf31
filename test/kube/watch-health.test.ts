import { describe, expect, it } from 'vitest';
import { WatchHealth, type WatchStatus } from '../../lib/kube/list-watch.ts';

const began = new Date('2026-01-01T00:00:00Z');
const at = (seconds: number): Date => new Date(began.getTime() + seconds * 1000);

describe('WatchHealth', () => {
  const rows: readonly (readonly [string, WatchStatus, Date, boolean])[] = [
    ['is well at the start', { phase: 'listing', lastProgress: undefined }, at(120), true],
    ['is ill when nothing was ever listed', { phase: 'listing', lastProgress: undefined }, at(121), false],
    ['is well two minutes after a bookmark', { phase: 'watching', lastProgress: at(60) }, at(180), true],
    ['is ill later', { phase: 'watching', lastProgress: at(60) }, at(181), false],
    ['is well while a failure is young', { phase: 'waiting', message: 'm', lastProgress: at(60) }, at(180), true],
    ['says nothing of a watch that was stopped', { phase: 'stopped', lastProgress: at(0) }, at(1000), true],
  ];
  it.each(rows)('%s', (_what, status, now, ok) => {
    const health = new WatchHealth(began);
    health.set('Secret "n/a"', status);
    expect(health.check(now).ok).toBe(ok);
  });

  it('names the objects, ten at most, and why', () => {
    const health = new WatchHealth(began);
    const waiting = { phase: 'waiting', message: 'Cannot list: 403' } as const;
    for (let index = 0; index < 11; index += 1) health.set(`Secret "n/${index}"`, { ...waiting, lastProgress: at(0) });
    health.set('Secret "n/well"', { phase: 'watching', lastProgress: at(190) });
    health.set('Secret "n/former"', { phase: 'stopped', lastProgress: at(-100) });
    expect(health.ageMs(at(200))).toBe(200_000);
    expect(new WatchHealth(began).ageMs(at(200))).toBe(0);
    const { ok, message } = health.check(at(200));
    expect(ok).toBe(false);
    expect(message).toMatch(
      /^nothing heard for two minutes of Secret "n\/0", .*Secret "n\/9", and 1 more: Cannot list: 403$/,
    );
  });
});
