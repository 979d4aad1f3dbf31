// Windows of time: what is written, when the next one is, also on the days on which clocks are set.
import { describe, expect, it } from 'vitest';
import { nextWindow, parseWindow, type RenewalWindow } from '../../lib/plan/window.ts';

const parsed = (text: string): RenewalWindow => {
  const window = parseWindow(text);
  if (window === undefined) throw new Error(`no window: ${text}`);
  return window;
};
const next = (text: string, now: string): string => {
  const { from, until } = nextWindow(parsed(text), new Date(now));
  return `${from.toISOString().slice(0, 16)} ${until.toISOString().slice(0, 16)}`;
};

describe('parseWindow()', () => {
  const everyDay = [0, 1, 2, 3, 4, 5, 6];
  it.each([
    ['02:00-05:00', { days: everyDay, from: 120, until: 300 }],
    ['Sat,Sun/02:00-05:00', { days: [0, 6], from: 120, until: 300 }],
    ['sat-mon/22:00-04:00 Europe/Berlin', { days: [0, 1, 6], from: 1320, until: 1680, zone: 'Europe/Berlin' }],
    ['Mon-Fri,Sun/00:00-24:00 +05:30', { days: [0, 1, 2, 3, 4, 5], from: 0, until: 1440, zone: '+05:30' }],
    ['23:55-00:05', { days: everyDay, from: 1435, until: 1445 }],
  ])('%s', (text, window) => {
    expect(parseWindow(text)).toEqual(window);
  });

  it.each([
    '',
    '/',
    '02:00',
    '2:00-5:00',
    '02:00-02:00',
    '02:00-02:09',
    '24:00-01:00',
    '02:60-05:00',
    '02:00-24:01',
    '02:00-05:00 ',
    '02:00-05:00 Mars/Olympus',
    '02:00-05:00 ../../etc/localtime',
    ' 02:00-05:00',
    '02:00-05:00\n',
    'Sat,/02:00-05:00',
    'Sat-/02:00-05:00',
    'Sat-Sun-Mon/02:00-05:00',
    'Caturday/02:00-05:00',
    '*/02:00-05:00',
    `${'Sat,'.repeat(100_000)}Sun/02:00-05:00`,
    `02:00-05:00 ${'a/'.repeat(100_000)}`,
    '٠٢:٠٠-٠٥:٠٠',
  ])('%j is none', (text) => {
    expect(parseWindow(text)).toBeUndefined();
  });
});

describe('nextWindow()', () => {
  it.each([
    ['open: its own begin and end', '02:00-05:00 UTC', '2027-06-01T02:00:00Z', '2027-06-01T02:00 2027-06-01T05:00'],
    ['its last moment is not in it', '02:00-05:00 UTC', '2027-06-01T05:00:00Z', '2027-06-02T02:00 2027-06-02T05:00'],
    ['begun yesterday', 'Mon/22:00-04:00 UTC', '2027-06-01T03:59:59Z', '2027-05-31T22:00 2027-06-01T04:00'],
    ['once a week', 'Mon/22:00-04:00 UTC', '2027-06-01T04:00:00Z', '2027-06-07T22:00 2027-06-08T04:00'],
    ['east of UTC', 'Tue/02:00-05:00 Asia/Tokyo', '2027-05-31T12:00:00Z', '2027-05-31T17:00 2027-05-31T20:00'],
    ['west of UTC', 'Tue/20:00-23:00 America/Los_Angeles', '2027-06-02T05:00Z', '2027-06-02T03:00 2027-06-02T06:00'],
    ['by half hours', '02:00-05:00 Asia/Kolkata', '2027-06-01T00:00:00Z', '2027-06-01T20:30 2027-06-01T23:30'],
    ['all of the time', '00:00-24:00 UTC', '2027-06-01T23:59:59Z', '2027-06-01T00:00 2027-06-02T00:00'],
    ['over the new year', 'Fri/23:00-01:00 UTC', '2028-01-01T00:30:00Z', '2027-12-31T23:00 2028-01-01T01:00'],
    ['before 1970', '02:00-05:00 UTC', '1969-12-30T12:00:00Z', '1969-12-31T02:00 1969-12-31T05:00'],
  ])('%s', (_, text, now, times) => {
    expect(next(text, now)).toBe(times);
  });

  // 2027: on 28 March 02:00 becomes 03:00 in Berlin, on 31 October 03:00 becomes 02:00.
  it.each([
    [
      'spring, around the hour that is left out',
      '01:00-04:00',
      '2027-03-27T12:00Z',
      '2027-03-28T00:00 2027-03-28T02:00',
    ],
    [
      'spring, begun in the hour that is left out',
      '02:30-05:00',
      '2027-03-27T12:00Z',
      '2027-03-28T01:30 2027-03-28T03:00',
    ],
    [
      'spring, all of it left out: it is not lost',
      '02:00-03:00',
      '2027-03-27T12:00Z',
      '2027-03-28T01:00 2027-03-28T02:00',
    ],
    [
      'autumn, around the hour that comes twice',
      '01:00-04:00',
      '2027-10-30T12:00Z',
      '2027-10-30T23:00 2027-10-31T03:00',
    ],
    [
      'autumn, within the hour that comes twice',
      '02:00-03:00',
      '2027-10-30T12:00Z',
      '2027-10-31T00:00 2027-10-31T02:00',
    ],
    ['autumn, in between both', '02:00-02:30', '2027-10-31T00:45Z', '2027-10-31T00:00 2027-10-31T01:30'],
  ])('Berlin in %s', (_, text, now, times) => {
    expect(next(`${text} Europe/Berlin`, now)).toBe(times);
  });

  it('clocks that are set by half an hour, and a day that is left out', () => {
    expect(next('Sun/02:00-03:00 Australia/Lord_Howe', '2027-10-01T00:00Z')).toBe('2027-10-02T15:30 2027-10-02T16:00');
    // Samoa had no 30 December 2011, a Friday.
    expect(next('Fri/02:00-03:00 Pacific/Apia', '2011-12-29T20:00Z')).toMatch(/^2011-12-3\d|^2012-01-0/);
  });

  it.each(['Europe/Berlin', 'America/Sao_Paulo', 'Australia/Lord_Howe', 'Africa/Casablanca', undefined])(
    'each follows the one before within days, for years: %s',
    (zone) => {
      const window = { ...parsed('Sat,Sun/01:30-03:15'), zone };
      let { until } = nextWindow(window, new Date('2015-01-01T00:00:00Z'));
      for (let count = 0; count < 1100; count += 1) {
        const found = nextWindow(window, until);
        expect(found.from.getTime()).toBeGreaterThanOrEqual(until.getTime());
        const lasts = (found.until.getTime() - found.from.getTime()) / 60_000;
        expect(lasts).toBeGreaterThanOrEqual(45);
        expect(lasts).toBeLessThanOrEqual(165);
        expect(found.from.getTime() - until.getTime()).toBeLessThan(7 * 86_400_000);
        expect(nextWindow(window, found.from)).toEqual(found);
        ({ until } = found);
      }
    },
  );
});
