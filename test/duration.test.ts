import { describe, expect, it } from 'vitest';
import { durationText, parseDuration } from '../lib/duration.ts';

describe('parseDuration()', () => {
  it.each([
    ['5s', 5000],
    ['10m', 600_000],
    ['12h', 43_200_000],
    ['30d', 2_592_000_000],
    ['1h30m', 5_400_000],
    ['0s', 0],
    ['250ms', 250],
  ])('reads %s as %i ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
    expect(parseDuration(durationText(ms))).toBe(ms);
  });

  it.each(['', '5', 's', '5 s', '-5s', '1.5h', '5w', '1h ', '99999999999999999d'])('refuses %j', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });
});
