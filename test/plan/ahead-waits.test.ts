// Renewal ahead of time while another node renews, or the API server that knows is away: it waits, and not for ever.
import { expect, it } from 'vitest';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { plan } from '../../lib/plan/plan.ts';
import { at, ca, day, goodClock, leaf, onlyWhenExpired, present, signer, target } from '../support/facts.ts';

const file = (name: string) => ({ kind: 'pemPair', certFile: `/p/${name}.crt`, keyFile: `/p/${name}.key` }) as const;
const authority = {
  ...signer,
  name: 'ca',
  owned: false,
  location: file('ca'),
  validity: 3650 * day,
} as ResolvedArtefact;
const row = {
  ...target,
  name: 'a',
  issuer: 'ca',
  template: 'present',
  location: file('a'),
  validity: 365 * day,
} as const;

function decide(ends: number, waits?: string) {
  const facts = new Map<string, ArtefactFacts>([
    ['ca', present(ca('ca', [-100, 4000]))],
    ['a', present(leaf('a', [-300, ends], 'ca'))],
  ]);
  const ahead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false, waits };
  const policy = { ...onlyWhenExpired, ahead };
  const resolved = { name: 'test', artefacts: [authority, { ...row, refresh: 292 * day }] };
  return plan({ resolved, facts, policy, clock: goodClock, now: at(0) }).decisions.find(
    ({ artefact }) => artefact === 'a',
  );
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
