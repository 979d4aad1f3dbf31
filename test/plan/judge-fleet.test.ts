import { describe, expect, it } from 'vitest';
import type { ReportedBundle } from '../../lib/kube/reported-bundles.ts';
import { judgeFleet, type NodeState, seenNode, type WantedBundles, type WantedCa } from '../../lib/plan/judge-fleet.ts';

const now = new Date('2026-11-28T10:00:00Z');
const since = new Date('2026-11-01T00:00:00Z');
const ca = (digit: string): WantedCa => ({
  print: digit.repeat(16),
  name: `CN=${digit}`,
  expirationDate: new Date('2036-01-01'),
});
const [client, former, next] = [ca('c'), ca('1'), ca('2')] as const;
const wanted: WantedBundles = new Map([
  ['kubelet-client-ca', { of: 'client-ca', cas: [client] }],
  ['kubelet.conf', { of: 'server-ca', cas: [former, next] }],
  ['admin.conf', { of: 'server-ca', cas: [former, next] }],
]);

type Report = Readonly<Record<string, ReportedBundle>>;
const holds = (cas: readonly WantedCa[], loaded = true): ReportedBundle => ({
  cas: cas.map(({ print }) => print),
  since,
  loaded,
});
const all: Report = { 'kubelet-client-ca': holds([client]), 'kubelet.conf': holds([former, next]) };

function judged(report: Report | undefined, ageMs: number | undefined) {
  const reported = report && new Map(Object.entries(report));
  const renewals = new Map(ageMs === undefined ? [] : [['node', new Date(now.getTime() - ageMs)]]);
  const [one] = judgeFleet([seenNode('node', reported, wanted)], renewals, now);
  return one ?? expect.fail('no row');
}

describe('judgeFleet()', () => {
  const rows: readonly (readonly [string, Report | undefined, number | undefined, NodeState, boolean])[] = [
    ['that holds all', all, 10_000, 'current', false],
    ['that holds more', { ...all, 'kubelet.conf': holds([former, next, ca('9')]) }, 10_000, 'current', false],
    ['that lacks one', { ...all, 'kubelet.conf': holds([former]) }, 10_000, 'behind', true],
    ['that lacks one in one of two files', { ...all, 'admin.conf': holds([former]) }, 10_000, 'behind', true],
    [
      'that has all, and has not loaded it',
      { ...all, 'kubelet.conf': holds([former, next], false) },
      1,
      'not loaded',
      true,
    ],
    ['that lacks one, and has not loaded it', { ...all, 'kubelet.conf': holds([], false) }, 1, 'behind', true],
    ['that reports no file of an object', { 'kubelet.conf': holds([former, next]) }, 10_000, 'behind', true],
    ['that has not reported', undefined, 10_000, 'no report', true],
    ['with a Lease of the future', all, -3_600_000, 'current', false],
    ['whose Lease is five minutes old', all, 300_000, 'current', false],
    ['whose Lease is older', all, 300_001, 'off', false],
    ['without a Lease', all, undefined, 'off', false],
    [
      'that was switched off before it loaded',
      { ...all, 'kubelet.conf': holds([former, next], false) },
      1e9,
      'off',
      false,
    ],
    ['that was switched off without one', { ...all, 'kubelet.conf': holds([former]) }, 1e9, 'off', true],
    ['that was switched off before it reported', undefined, 1e9, 'off', true],
  ];
  it.each(rows)('of a node %s', (_, report, ageMs, state, lags) => {
    expect(judged(report, ageMs)).toMatchObject({ state, lags });
  });

  it('counts a node off whose Lease says no time', () => {
    const nodes = [seenNode('node', new Map(Object.entries(all)), wanted)];
    expect(judgeFleet(nodes, new Map([['node', new Date(Number.NaN)]]), now)).toMatchObject([{ state: 'off' }]);
  });

  it('names what is missing, and where', () => {
    const lacking = { 'kubelet.conf': holds([former]), 'admin.conf': holds([next]), unknown: holds([]) };
    expect(judged(lacking, 10_000).bundles).toEqual([
      { name: 'kubelet.conf', since, loaded: true, missing: [next] },
      { name: 'admin.conf', since, loaded: true, missing: [former] },
      { name: 'client-ca', loaded: true, missing: [client] },
    ]);
  });

  it('puts nodes that lag last, each part in the order of names', () => {
    const seen = ['d', 'c', 'b', 'a'].map((name) =>
      seenNode(name, name < 'c' ? undefined : new Map(Object.entries(all)), wanted),
    );
    const order = judgeFleet(seen, new Map(seen.map(({ name }) => [name, now])), now).map(({ name }) => name);
    expect(order).toEqual(['c', 'd', 'a', 'b']);
  });
});
