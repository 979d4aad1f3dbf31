import { expect, it } from 'vitest';
import { judgeMachineLease } from '../../lib/restart/decide.ts';

type Held = Parameters<typeof judgeMachineLease>[0];

const held: Held = {
  spec: { holderIdentity: 'node2', leaseDurationSeconds: 60 },
  holder: 'node1',
  unchangedMs: 10_000,
};

it.each<[string, Partial<Held>, ReturnType<typeof judgeMachineLease>]>([
  ['is taken where nobody holds it', { spec: { holderIdentity: '' } }, { take: true, reason: 'Free' }],
  ['is taken where it says nothing', { spec: undefined }, { take: true, reason: 'Free' }],
  ['is taken where its holder is null', { spec: { holderIdentity: null as never } }, { take: true, reason: 'Free' }],
  ['is taken again by its holder', { holder: 'node2' }, { take: true, reason: 'Own' }],
  ['is left to another', {}, { take: false, holder: 'node2', leftMs: 50_000 }],
  ['is left to one whose name only begins alike', { holder: 'node' }, { take: false, holder: 'node2', leftMs: 50_000 }],
  ['is left up to its last moment', { unchangedMs: 59_999 }, { take: false, holder: 'node2', leftMs: 1 }],
  ['is over after its time without a change', { unchangedMs: 60_000 }, { take: true, reason: 'Over' }],
  [
    'that names no time lasts 10 minutes',
    { spec: { holderIdentity: 'node2' } },
    { take: false, holder: 'node2', leftMs: 590_000 },
  ],
])('The restart Lease %s', (_title, given, wanted) => {
  expect(judgeMachineLease({ ...held, ...given })).toEqual(wanted);
});
