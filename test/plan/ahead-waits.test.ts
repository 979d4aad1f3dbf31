// Renewal ahead of time while another node renews, or the API server that knows is away: it waits, and not for ever.
import { expect, it } from 'vitest';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { ahead, decisionsOf, hostAuthority, hostLeaf } from '../support/decisions.ts';
import { at, ca, leaf, onlyWhenExpired, present } from '../support/facts.ts';

function decide(ends: number, waits?: string) {
  const facts = new Map<string, ArtefactFacts>([
    ['ca', present(ca('ca', [-100, 4000]))],
    ['a', present(leaf('a', [-300, ends], 'ca'))],
  ]);
  const policy = { ...onlyWhenExpired, ahead: { ...ahead, waits } };
  const resolved = { name: 'test', artefacts: [hostAuthority, hostLeaf('a')] };
  return decisionsOf({ resolved, facts, policy })['a'];
}

const held = 'Lease "x" is held by "node2"';

it('is postponed, says for whom, and until when it waits', () => {
  expect(decide(20)).toMatchObject({ action: 'renew', reason: 'RefreshDue' });
  const waiting = decide(20, held);
  expect(waiting).toMatchObject({ action: 'keep', reason: 'Postponed' });
  expect(waiting?.message).toContain(held);
  expect(waiting?.message).toContain(at(17).toISOString());
});

it('waits no longer when a tenth of the threshold is left', () => {
  expect(decide(3.1, held)?.action).toBe('keep');
  expect(decide(3, held)).toMatchObject({ action: 'renew', reason: 'RefreshDue' });
});

it('never waits with what has expired', () => {
  expect(decide(0, held)).toMatchObject({ action: 'renew', reason: 'Expired' });
});
