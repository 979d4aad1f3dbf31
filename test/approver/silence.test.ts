// What moves from look to look, and what counts as silence.
import { expect, it } from 'vitest';
import { type Signs, watch, type Watched } from '../../lib/approver/silence.ts';

const at = (second: number): Date => new Date(Date.UTC(2026, 0, 1, 0, 0, second));
const seconds = (count: number): number => count * 1000;

/** Looks at these seconds of uptime. */
const looks = (...each: readonly (readonly [number, Signs])[]): Watched | undefined =>
  each.reduce<Watched | undefined>((before, [second, signs]) => watch(before, signs, seconds(second)), undefined);

const lease = { renewedAt: at(0) };
it.each<[string, Watched | undefined, Partial<Watched>]>([
  ['one look', looks([5, lease]), { silentMs: 0 }],
  ['two looks', looks([5, lease], [12, lease]), { silentMs: seconds(7) }],
  ['looks far apart, as those around an outage', looks([5, lease], [3605, lease]), { silentMs: seconds(10) }],
  [
    'looks as far apart as its own renewals',
    looks([5, lease], [55, { ...lease, renewalMs: 30_000 }]),
    { silentMs: 30_000 },
  ],
  ['a renewal', looks([5, lease], [15, lease], [25, { renewedAt: at(9) }]), { silentMs: 0, spokeAfterMs: seconds(15) }],
  [
    'silence after a renewal',
    looks([5, lease], [15, { renewedAt: at(9) }], [25, { renewedAt: at(9) }]),
    { silentMs: seconds(10), spokeAfterMs: seconds(5) },
  ],
  [
    'a renewal by a clock that was set back',
    looks([5, lease], [15, { renewedAt: at(-99) }]),
    { spokeAfterMs: seconds(5) },
  ],
  ['a Lease that appears', looks([5, {}], [15, lease]), { spokeAfterMs: seconds(5) }],
  [
    'a status that is reported',
    looks([5, lease], [15, { ...lease, heartbeatAt: at(1) }]),
    { spokeAfterMs: seconds(5) },
  ],
])('%s', (_what, watched, want) => {
  expect(watched).toMatchObject(want);
  if (want.spokeAfterMs === undefined) expect(watched?.spokeAfterMs).toBeUndefined();
});

it('a Lease that somebody deletes is no word of the node', () => {
  expect(looks([5, lease], [15, {}])?.spokeAfterMs).toBeUndefined();
});

it('begins again when the time that it is told by has gone back', () => {
  expect(looks([5, lease], [15, { renewedAt: at(9) }], [1, { renewedAt: at(19) }])).toEqual({
    signs: { renewedAt: at(19) },
    lookedMs: seconds(1),
    silentMs: 0,
  });
});
