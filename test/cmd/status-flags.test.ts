import { describe, expect, it } from 'vitest';
import { statusFlags } from '../../cmd/status-flags.ts';

describe('statusFlags()', () => {
  it.each([
    ['2027-05-31', '2027-05-31T00:00:00.000Z'],
    ['2027-05-31T08:30Z', '2027-05-31T08:30:00.000Z'],
    ['2027-05-31T08:30:10+02:00', '2027-05-31T06:30:10.000Z'],
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
  ])('takes %s for %s', (at, time) => {
    const { options, problems } = statusFlags({ at });
    expect(problems).toEqual([]);
    expect(options.at?.toISOString()).toBe(time);
  });

  it.each(['', 'tomorrow', '2027', '2027-02-30', '2027-13-01', '2027-05-31T08:30', '2027-05-31T25:00Z', '31.5.2027'])(
    'refuses %j for a date',
    (at) => {
      const { options, problems } = statusFlags({ at });
      expect(problems).toMatchObject([{ path: '--at', kind: 'invalid' }]);
      expect(options.at).toBeUndefined();
    },
  );

  it('refuses --at with --fleet', () => {
    expect(statusFlags({ fleet: true, at: '2027-05-31' }).problems).toMatchObject([{ path: '--at', kind: 'conflict' }]);
    expect(statusFlags({ fleet: true }).problems).toEqual([]);
  });

  it('takes a duration for --wait, and neither that nor --watch with another day or the fleet', () => {
    expect(statusFlags({ wait: '2m' })).toMatchObject({ again: { waitMs: 120_000 }, problems: [] });
    expect(statusFlags({ wait: '2' }).problems).toMatchObject([{ path: '--wait', kind: 'invalid' }]);
    expect(statusFlags({ wait: '2m', at: '2027-05-31' }).problems).toMatchObject([
      { path: '--wait', kind: 'conflict' },
    ]);
    expect(statusFlags({ watch: true, fleet: true }).problems).toMatchObject([{ path: '--watch', kind: 'conflict' }]);
  });

  it('prints a table unless told otherwise', () => {
    expect(statusFlags({})).toEqual({ options: { output: 'table' }, again: {}, problems: [] });
    expect(statusFlags({ output: 'yaml' }).options.output).toBe('yaml');
  });
});
