import { expect, it } from 'vitest';
import { asObserved } from '../../lib/restart/machine-lease.ts';

const observed = { version: '123', sinceMs: 4567.8 };

it('an observed version is read as it was kept', () => {
  expect(asObserved(JSON.parse(JSON.stringify(observed)))).toEqual(observed);
});

it.each([null, 7, '123 4567', {}, { ...observed, version: 123 }, { ...observed, sinceMs: 'soon' }])(
  '%j is no observed version',
  (value) => {
    expect(asObserved(value)).toBeUndefined();
  },
);
