// Renewal ahead of time by a clock that may be wrong: what is still valid waits until somebody says that the clock is right,
// and no longer than its life by this clock allows. What has expired waits for nothing of this.
import { describe, expect, it } from 'vitest';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import {
  ahead,
  decisionsOf,
  hostAuthority,
  hostKubeconfig,
  hostLeaf,
  verdictOf,
  weekend,
} from '../support/decisions.ts';
import { at, ca, day, goodClock, leaf, onlyWhenExpired, present, target, unknownClock } from '../support/facts.ts';

const row = hostLeaf('a');
const conf = hostKubeconfig;
const heard = (...aheadMs: readonly number[]): ClockFacts => ({
  ...unknownClock,
  others: aheadMs.map((one, index) => ({ of: `node-${index}`, aheadMs: one })),
});

interface Asked {
  /** Days from now. */
  readonly ends: number;
  readonly caEnds?: number;
  readonly clock?: ClockFacts;
  readonly policy?: Partial<RenewalPolicy>;
  readonly rows?: readonly ResolvedArtefact[];
}

function decide({ ends, caEnds = 4000, clock = unknownClock, policy = { ahead }, rows = [row] }: Asked) {
  const facts = new Map<string, ArtefactFacts>([
    ['ca', present(ca('ca', [-3350, caEnds]))],
    ['a', present(leaf('a', [-300, ends], 'ca'))],
    ['conf', { ...present(leaf('conf', [-300, 3000], 'ca')), authorities: ['ca'] }],
  ]);
  const resolved = { name: 'test', artefacts: [hostAuthority, ...rows] };
  return decisionsOf({ resolved, facts, policy: { ...onlyWhenExpired, ...policy }, clock });
}
const said = (asked: Asked, name = 'a'): string => verdictOf(decide(asked)[name]);

describe('a leaf', () => {
  it.each<[string, Asked, string]>([
    ['that is due waits', { ends: 20 }, 'keep ClockUnconfirmed'],
    ['of a life that is not yet short is healthy', { ends: 31 }, 'keep Healthy'],
    ['is renewed by a synchronised clock', { ends: 20, clock: goodClock }, 'renew RefreshDue'],
    ['is renewed when another machine shows the same time', { ends: 20, clock: heard(1000) }, 'renew RefreshDue'],
    ['waits when another machine is 28 days behind', { ends: 2, clock: heard(28 * day) }, 'blocked ClockImplausible'],
    ['waits when others contradict each other', { ends: 20, clock: heard(1000, 28 * day) }, 'keep ClockUnconfirmed'],
    ['waits until a tenth of the threshold is left', { ends: 3.1 }, 'keep ClockUnconfirmed'],
    ['is renewed then, because by this clock it ends', { ends: 3 }, 'renew RefreshDue'],
    ['that has expired is repaired', { ends: 0 }, 'renew Expired'],
    [
      'waits for nothing where it is only reported',
      { ends: 20, policy: { ahead: { ...ahead, warnOnly: true } } },
      'keep WarnOnly',
    ],
    ['waits for its window first', { ends: 20, policy: { ahead: weekend } }, 'keep Postponed'],
    [
      'of the policy BeforeExpiry waits as well',
      { ends: 20, policy: { kind: 'BeforeExpiry' } },
      'keep ClockUnconfirmed',
    ],
    [
      'in the API does not: its rotator has a turn of its own',
      { ends: 5, policy: { kind: 'BeforeExpiry' }, rows: [{ ...row, location: target.location }] },
      'renew RefreshDue',
    ],
  ])('%s', (_, asked, want) => {
    expect(said(asked)).toBe(want);
  });

  it('says what the clock shows, what to do, and until when it waits', () => {
    const { a } = decide({ ends: 20 });
    expect(a?.message).toContain(`its clock is not confirmed: it shows ${at(0).toISOString()}`);
    expect(a?.message).toContain('regen.clockSynchronised');
    expect(a?.message).toContain(at(17).toISOString());
    expect(decide({ ends: 3.01 })['a']?.recheckAt).toEqual(at(0.01));
  });

  it('waits for the clock before it waits for another node', () => {
    const waits = 'Lease "x" is held by "node2"';
    expect(said({ ends: 20, policy: { ahead: { ...ahead, waits } } })).toBe('keep ClockUnconfirmed');
    expect(said({ ends: 20, clock: goodClock, policy: { ahead: { ...ahead, waits } } })).toBe('keep Postponed');
  });
});

describe('a CA that is renewed ahead of time with its own key', () => {
  const rows = [row, conf];
  it.each<[string, Asked, string]>([
    ['waits', { ends: 200, caEnds: 300, rows }, 'keep ClockUnconfirmed'],
    ['is renewed by a confirmed clock', { ends: 200, caEnds: 300, rows, clock: goodClock }, 'renew RefreshDue'],
    ['is renewed when a tenth of its threshold is left', { ends: 30, caEnds: 36, rows }, 'renew RefreshDue'],
    ['is renewed when it has expired', { ends: -1, caEnds: 0, rows }, 'renew Expired'],
  ])('%s', (_, asked, want) => {
    expect(said(asked, 'ca')).toBe(want);
  });
});
