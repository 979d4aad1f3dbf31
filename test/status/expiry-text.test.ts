import { describe, expect, it } from 'vitest';
import { expiresText, residualText } from '../../lib/status/expiry-text.ts';

describe('residualText()', () => {
  it.each([
    [-3000, '<invalid>'],
    [-1500, '0s'],
    [119_000, '119s'],
    [120_000, '2m'],
    [599_000, '9m59s'],
    [600_000, '10m'],
    [179 * 60_000, '179m'],
    [180 * 60_000, '3h'],
    [479 * 60_000, '7h59m'],
    [8 * 3_600_000, '8h'],
    [47 * 3_600_000, '47h'],
    [48 * 3_600_000, '2d'],
    [191 * 3_600_000, '7d23h'],
    [8 * 86_400_000, '8d'],
    [729 * 86_400_000, '729d'],
    [730 * 86_400_000, '2y'],
    [(8 * 365 - 1) * 86_400_000, '7y364d'],
    [8 * 365 * 86_400_000, '8y'],
    [3650 * 86_400_000, '10y'],
  ])('of %i ms is %s', (ms, text) => expect(residualText(ms)).toBe(text));
});

describe('expiresText()', () => {
  it('pads day, hour and minute', () => {
    expect(expiresText(new Date('2026-01-02T03:04:05Z'))).toBe('Jan 02, 2026 03:04 UTC');
  });
});
