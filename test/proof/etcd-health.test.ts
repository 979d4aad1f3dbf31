import { expect, it } from 'vitest';
import { type EtcdMember, judgeQuorum } from '../../lib/proof/etcd-health.ts';

/** The first is here; + is healthy, - is not. */
const members = (others: string): readonly EtcdMember[] => [
  { name: '"here"', isHere: true, problem: undefined },
  ...Array.from(others, (sign, at) => ({
    name: `"other${at + 1}"`,
    isHere: false,
    problem: sign === '+' ? undefined : 'no answer',
  })),
];

it.each([
  ['a single member: nothing keeps its quorum', '', 'proven'],
  ['two, which lose their quorum in any order', '+', 'proven'],
  ['two, of which the other is away: both would be', '-', 'unproven'],
  ['three', '++', 'proven'],
  ['three, of which one is away', '+-', 'unproven'],
  ['three, of which both others are away', '--', 'unproven'],
  ['four', '+++', 'proven'],
  ['four, of which one is away', '++-', 'unproven'],
  ['five, of which one is away', '+++-', 'proven'],
  ['five, of which two are away', '++--', 'unproven'],
])('%s', (_title, others, state) => {
  expect(judgeQuorum(members(others))).toMatchObject({ state });
});

it('says who is not healthy, and how many must be', () => {
  expect(judgeQuorum(members('+-')).message).toBe(
    'of 3 members 2 others must be healthy, 1 are: member "other2" is not healthy: no answer',
  );
});

it('a list in which all are the member here, or several, says nothing of the others', () => {
  const all = members('++').map((one) => ({ ...one, isHere: true }));
  expect(judgeQuorum(all)).toMatchObject({ state: 'unproven' });
  expect(judgeQuorum([...members('++'), ...members('')])).toMatchObject({ state: 'unproven' });
});

it('one that does not vote says nothing of the others', () => {
  const others = members('++').slice(1);
  expect(judgeQuorum(others)).toMatchObject({ state: 'unproven' });
});
