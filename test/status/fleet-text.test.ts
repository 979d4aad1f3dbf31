import { describe, expect, it } from 'vitest';
import { type FleetReport, laggingNodes, renderFleet } from '../../lib/status/fleet-text.ts';
import { judgeFleet, seenNode, type WantedBundles } from '../../lib/plan/judge-fleet.ts';

const at = new Date('2026-11-28T10:00:00Z');
const since = new Date('2026-11-01T00:00:00Z');
const ca = (digit: string, name = `CN=${digit}`) => ({
  print: digit.repeat(16),
  name,
  expirationDate: new Date('2036-01-01T00:00:00Z'),
});
const [former, next] = [ca('1'), ca('2', 'CN=\u001b[31mnext')] as const;
const wanted: WantedBundles = new Map([
  ['kubelet-client-ca', { of: 'client-ca', cas: [former] }],
  ['kubelet.conf', { of: 'server-ca', cas: [former, next] }],
]);
const bundles = (prints: readonly string[], loaded: boolean) =>
  new Map([
    ['kubelet-client-ca', { cas: [former.print], since, loaded: true }],
    ['kubelet.conf', { cas: prints, since: new Date('2026-11-27T12:30:00Z'), loaded }],
  ]);
const both = [former.print, next.print];
const seen = [
  seenNode('worker-1', bundles(both, true), wanted),
  seenNode('worker-2', bundles([former.print], true), wanted),
  seenNode('worker-3', bundles(both, false), wanted),
  seenNode('worker-4', undefined, wanted),
  seenNode('worker-5', bundles([], false), wanted),
];
const renewals = new Map(seen.slice(0, 4).map(({ name }) => [name, at]));
const reportOf = (nodes: typeof seen): FleetReport => ({ at, wanted, nodes: judgeFleet(nodes, renewals, at) });
const report = reportOf(seen);

describe('renderFleet()', () => {
  it('prints a row for a node that is current, and for each bundle of one that is not', () => {
    expect(
      renderFleet(report, 'table')
        .split('\n')
        .map((line) => line.trimEnd()),
    ).toEqual([
      'NODE       STATE        BUNDLE                           SINCE                    MISSING',
      'worker-1   current      kubelet-client-ca,kubelet.conf   Nov 27, 2026 12:30 UTC',
      String.raw`worker-2   behind       kubelet.conf                     Nov 27, 2026 12:30 UTC   CN=\u{1b}[31mnext (2222222222222222)`,
      'worker-3   not loaded   kubelet.conf                     Nov 27, 2026 12:30 UTC',
      'worker-4   no report    -                                -',
      String.raw`worker-5   off          kubelet.conf                     Nov 27, 2026 12:30 UTC   CN=1 (1111111111111111), CN=\u{1b}[31mnext (2222222222222222)`,
      '',
      'Nodes: 1 current, 1 behind, 1 not loaded, 1 no report, 1 off. 4 of 5 nodes are not known to trust all 2 CAs.',
      '',
    ]);
    expect(laggingNodes(report)).toBe(4);
  });

  it('ends in one line where all nodes are current', () => {
    const text = renderFleet(reportOf(seen.slice(0, 1)), 'table');
    expect(text).toMatch(/\n\nNodes: 1 current\. Every node trusts all 2 CAs\.\n$/);
  });

  it('prints the same for programs', () => {
    const info = JSON.parse(renderFleet(report, 'json')) as object;
    expect(info).toMatchObject({
      kind: 'FleetInfo',
      at: '2026-11-28T10:00:00.000Z',
      lagging: 4,
      bundles: [{ name: 'kubelet-client-ca', cas: [{ print: former.print, name: 'CN=1' }] }, { name: 'kubelet.conf' }],
    });
    expect((info as { readonly nodes: object[] }).nodes[1]).toEqual({
      name: 'worker-2',
      state: 'behind',
      lags: true,
      bundles: [
        { name: 'kubelet-client-ca', since: since.toISOString(), loaded: true, missing: [] },
        {
          name: 'kubelet.conf',
          since: '2026-11-27T12:30:00.000Z',
          loaded: true,
          missing: [{ ...next, expirationDate: '2036-01-01T00:00:00.000Z' }],
        },
      ],
    });
    expect(renderFleet(report, 'yaml')).toContain('kind: FleetInfo\n');
  });
});
