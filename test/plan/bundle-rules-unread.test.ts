// A composed bundle while one of its inputs is about to change, or its signer cannot be read: it would be written twice.
import { expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { decisionsOf, verdictOf } from '../support/decisions.ts';
import { at, beforeExpiry, bundle, ca, present, signer, start } from '../support/facts.ts';

const second = { ...signer, name: 'signer2', location: { ...signer.location, name: 'signer2' } };
const bundle2 = { ...bundle, name: 'bundle2', location: { ...bundle.location, name: 'bundle2' }, signers: ['signer2'] };
const both: ResolvedArtefact = {
  kind: 'composedBundle',
  name: 'both',
  location: { kind: 'configMap', namespace: 'n', name: 'both' },
  readers: [],
  inputs: ['bundle', 'bundle2'],
};
const resolved: Resolved = { name: 'x', artefacts: [signer, second, bundle, bundle2, both] };
const dead = (name: string) => ca(name, [-60, -1]);
const [one, two] = [present(dead('one')), present(dead('two'))];
const decide = (signer2: ArtefactFacts): string => {
  const facts = new Map<string, ArtefactFacts>([
    ['signer', one],
    ['signer2', signer2],
    ['bundle', one],
    ['bundle2', two],
    ['both', present(dead('one'), dead('two'))],
  ]);
  return verdictOf(decisionsOf({ resolved, facts })['both']);
};

it('a composed bundle waits for the signer of an input that could not be read', () => {
  const unread = decide({ state: 'unavailable', message: '500', since: start });
  expect(unread).toMatch(/^keep Settling/);
});

it('and is written without it when it cannot be read for longer', () => {
  const unread = decide({ state: 'unavailable', message: '500', since: at(-1 / 3600) });
  expect(unread).toMatch(/^renew InputsDiffer/);
});

it('its expired certificates are cleared away once its inputs are settled, in one write with what they bring', () => {
  // A first look after a start: the signer is new, and its bundle may be what another of us has just written.
  const live = ca('one-new', [0, 30]);
  const facts = (since?: Date) =>
    new Map<string, ArtefactFacts>([
      ['signer', present(live)],
      ['signer2', present(ca('two', [-1, 30]))],
      ['bundle', { ...present(dead('one')), ...(since !== undefined && { since }) }],
      ['bundle2', present(ca('two', [-1, 30]))],
      ['both', present(dead('one'), ca('two', [-1, 30]))],
    ]);
  const decided = (since?: Date) => decisionsOf({ resolved, facts: facts(since), policy: beforeExpiry })['both'];
  expect(decided(start)).toMatchObject({ action: 'keep', reason: 'Settling' });
  expect(decided()).toMatchObject({ action: 'renew' });
});

it('an input that is only cleared of expired certificates changes nothing in what it is composed into', () => {
  const [live, other] = [ca('one', [-1, 30]), ca('two', [-1, 30])];
  const decisions = decisionsOf({
    resolved,
    facts: new Map<string, ArtefactFacts>([
      ['signer', present(live)],
      ['signer2', present(other)],
      ['bundle', present(dead('old'), live)],
      ['bundle2', present(other)],
      ['both', present(live, other)],
    ]),
    policy: beforeExpiry,
  });
  const [input, composed] = [decisions['bundle'], decisions['both']];
  expect(input).toMatchObject({ action: 'renew', reason: 'ExpiredInBundle' });
  expect(composed).toMatchObject({ action: 'keep', reason: 'Healthy' });
});
