// When a new CA signs whose signer waits for nodes: decision, reason, next look, and what is said of nodes.
import { describe, expect, it, test } from 'vitest';
import type { Resolved } from '../../lib/inventory/model.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import type { Fleet, FleetNode } from '../../lib/plan/judge-fleet.ts';
import { plan } from '../../lib/plan/plan.ts';
import { at, beforeExpiry, bundle, ca, chain, goodClock, healthy, present, signer } from '../support/facts.ts';

/** The new CA is of that day; the leaf of day -1, by the former CA, is due on day 14 and ends on day 29. */
const madeOn = (day: number) => {
  const both = present(ca('new', [day, day + 60]), ca('ca', [-1, 59]));
  return {
    ...Object.fromEntries(healthy()),
    signer: present(ca('new', [day, day + 60])),
    bundle: both,
    composed: both,
    copy: both,
  };
};
const node = (name: string, lags: boolean): FleetNode => ({
  name,
  lags,
  state: lags ? 'behind' : 'current',
  bundles: [],
});
const known = (...nodes: readonly FleetNode[]): Fleet => ({ state: 'known', nodes: new Map([['new', nodes]]) });
const complete = known(node('a', false), node('b', false));
const incomplete = known(node('a', false), node('b', true), node('c', true));
const none: Fleet = { state: 'none', why: 'no Node says which CAs it holds' };
const unread: Fleet = { state: 'unread', why: 'the API server is away' };

const waiting: RenewalPolicy = { ...beforeExpiry, waitForNodes: new Map([['signer', ['kubelet-client-ca']]]) };
const accepting = (...names: readonly string[]): RenewalPolicy => ({ ...waiting, acceptedLagging: new Set(names) });

interface Asked {
  readonly fleet?: Fleet | undefined;
  readonly policy?: RenewalPolicy;
  /** Days. */
  readonly now: number;
  readonly made: number;
}

function decide({ fleet, policy = waiting, now, made }: Asked) {
  const facts = new Map(Object.entries(madeOn(made)));
  const { decisions } = plan({ resolved: chain, facts, policy, clock: goodClock, now: at(now), fleet });
  return decisions.find(({ artefact }) => artefact === 'target') ?? expect.fail('no decision');
}

/** A CA is old enough after a tenth of the leaf's refresh time: a day and a half. The leaf waits until day 27.5. */
const young = { now: 20, made: 19.9 };
const old = { now: 20, made: 10 };
const last = { now: 27.6, made: 20 };

const rows: readonly [name: string, asked: Asked, decision: string, said: string][] = [
  ['every node has it', { ...young, fleet: complete }, 'renew RefreshDue', 'every node has the CA of signer (2)'],
  [
    'nodes lack it, however old it is',
    { ...old, fleet: incomplete },
    'keep NodesLag',
    `2 of 3 nodes lack the CA of signer: b, c; signed all the same from ${at(27.5).toISOString()}`,
  ],
  [
    'one of them is accepted: the other is waited for',
    { ...young, fleet: incomplete, policy: accepting('b') },
    'keep NodesLag',
    '1 of 3 nodes lack the CA of signer: c',
  ],
  [
    'all of them are accepted',
    { ...young, fleet: incomplete, policy: accepting('b', 'c', 'gone') },
    'renew RefreshDue',
    'nodes without the CA of signer were accepted: b, c',
  ],
  ['nothing is known, too young', { ...young, fleet: none }, 'keep SignerTooYoung', 'no Node says which CAs it holds'],
  ['nothing is known, old enough', { ...old, fleet: none }, 'renew RefreshDue', 'and signer is old enough'],
  ['nodes cannot be asked here', old, 'renew RefreshDue', 'nodes are not asked here, and signer is old enough'],
  ['they could not be read', { ...old, fleet: unread }, 'keep NodesLag', 'the API server is away'],
  [
    'nodes lack it, and the leaf would expire',
    { ...last, fleet: incomplete },
    'renew RefreshDue',
    '2 of 3 nodes lack the CA of signer: b, c, and waiting longer would let it expire',
  ],
  [
    'they could not be read, and it would expire',
    { ...last, fleet: unread },
    'renew RefreshDue',
    'would let it expire',
  ],
  ['the leaf has expired', { now: 30, made: 29.9, fleet: incomplete }, 'renew Expired', 'it expired at'],
  [
    'another signer is waited for',
    { ...young, fleet: incomplete, policy: { ...waiting, waitForNodes: new Map([['other', ['a']]]) } },
    'keep SignerTooYoung',
    'its signer is trusted everywhere from',
  ],
];

describe('plan(): a new CA of a signer that waits for nodes', () => {
  it.each(rows)('%s', (_, asked, decision, said) => {
    const { action, reason, message } = decide(asked);
    expect([`${action} ${reason}`, message]).toEqual([decision, expect.stringContaining(said)]);
  });

  it('asks for the CA where that was not done yet, also in the last moment', () => {
    for (const time of [young, old, last]) {
      const { asksNodes, recheckAt, ...decision } = decide({ ...time, fleet: { state: 'unasked' } });
      expect(decision).toMatchObject({ action: 'keep', reason: 'NodesLag' });
      expect(recheckAt).toEqual(at(time.now));
      expect(asksNodes).toMatchObject({ signer: 'signer', ca: { print: 'new' } });
    }
  });

  it('asks nobody while the leaf is not due, has expired, or is of the present CA', () => {
    const fleet: Fleet = { state: 'unasked' };
    for (const time of [
      { now: 10, made: 9 },
      { now: 30, made: 20 },
    ])
      expect(decide({ ...time, fleet }).asksNodes).toBeUndefined();
    const decisions = plan({
      resolved: chain,
      facts: healthy(),
      policy: waiting,
      clock: goodClock,
      now: at(20),
      fleet,
    }).decisions.filter(({ asksNodes }) => asksNodes !== undefined);
    expect(decisions).toEqual([]);
  });

  it('is looked at twice a minute while nodes lack it, and when waiting ends', () => {
    const soon = (now: number) => decide({ now, made: 19.9, fleet: incomplete }).recheckAt;
    expect(soon(20)).toEqual(new Date(at(20).getTime() + 30_000));
    expect(soon(27.4999)).toEqual(at(27.5));
  });

  it('does not wait for nodes until something expires', () => {
    for (let hours = 0; hours < 15 * 24; hours += 1) {
      const now = 14 + hours / 24;
      const { action, recheckAt } = decide({ now, made: 13, fleet: incomplete });
      expect(action).toBe(now < 27.5 ? 'keep' : 'renew');
      if (action === 'keep') expect(recheckAt.getTime()).toBeLessThanOrEqual(at(27.5).getTime());
    }
  });

  it('names ten nodes, and how many more there are', () => {
    const nodes = Array.from({ length: 1000 }, (_, number) => node(`node-${number}`, true));
    const { message } = decide({ ...young, fleet: known(...nodes) });
    expect(message).toMatch(/1000 of 1000 nodes lack the CA of signer: node-0, .*node-9, and 990 more;/);
    expect(message.length).toBeLessThan(300);
  });
});

test('a copy by which kube-controller-manager signs is promoted once nodes have it', () => {
  const used = { kind: 'copy', name: 'used', location: { kind: 'secret', namespace: 'n', name: 'used' } } as const;
  const promoted = { ...used, readers: [], of: 'signer', promoteAfter: 60_000 } as const;
  const resolved: Resolved = { name: 'test', artefacts: [signer, bundle, promoted] };
  const decideAt = (days: number, fleet: Fleet, made = 10) => {
    const facts = new Map(Object.entries({ ...madeOn(made), used: present(ca('ca', [-1, 59])) }));
    const input = { resolved, facts, policy: waiting, clock: goodClock, now: at(days), fleet };
    const decision = plan(input).decisions.find(({ artefact }) => artefact === 'used') ?? expect.fail('no decision');
    return [`${decision.action} ${decision.reason}`, decision.message];
  };
  const said = (text: string): unknown => expect.stringContaining(text);
  expect(decideAt(20, incomplete)).toEqual(['keep NodesLag', said('2 of 3 nodes lack the CA of signer: b, c')]);
  expect(decideAt(10, complete)).toEqual(['renew OriginalDiffers', said('every node has the CA of signer (2)')]);
  expect(decideAt(56.1, incomplete, 50)).toEqual(['renew OriginalDiffers', said('would let it expire')]);
  expect(decideAt(20, none)).toEqual(['renew OriginalDiffers', said('no Node says which CAs it holds')]);
});
