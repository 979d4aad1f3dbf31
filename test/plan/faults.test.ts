// What is thrown while one entry is read or judged stays that entry's. The faults here are made, because those that were
// found are mended: they stand for the next one.
import { describe, expect, it } from 'vitest';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import { type Found, locationText, type Store } from '../../lib/store/store.ts';
import { chain, healthy, leaf, onlyWhenExpired, present, signer, start, target } from '../support/facts.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const planOf = (facts: ReadonlyMap<string, ArtefactFacts>) =>
  plan({
    resolved: chain,
    facts,
    policy: onlyWhenExpired,
    clock: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true },
    now: start,
  });

describe('a rule that throws', () => {
  it('blocks its own entry, by name and with what was thrown; the others are judged as before', () => {
    const facts = healthy().set('target', present(leaf('leaf', [-1, -1], 'ca', { notAfter: new Date(Number.NaN) })));
    const { decisions, faults, recheckAt } = planOf(facts);
    const [odd] = decisions.filter(({ artefact }) => artefact === 'target');
    expect(odd).toMatchObject({ action: 'blocked', reason: 'Unreadable' });
    expect(odd?.message).toMatch(/"target" met a fault of this program \(Invalid time value\); please report it/);
    expect([...(faults ?? [])]).toEqual([['target', expect.any(RangeError)]]);
    const others = (all: typeof decisions) => all.filter(({ artefact }) => artefact !== 'target');
    expect(others(decisions)).toEqual(others(planOf(healthy()).decisions));
    expect(recheckAt.getTime()).toBeGreaterThan(start.getTime());
  });

  it('nothing is told where nothing was thrown', () => expect(planOf(healthy())).not.toHaveProperty('faults'));
});

describe('reading that throws', () => {
  const poisoned: Found = {
    version: '7',
    annotations: {},
    get entries(): Found['entries'] {
      throw new TypeError('out of order');
    },
  };
  const look = (store: Store) =>
    gather({ resolved: chain, store, now: start, signal: AbortSignal.timeout(5000) }).then(({ facts, faults }) => ({
      facts,
      faults,
    }));

  it('makes its own entry broken, and no other', async () => {
    const { facts, faults } = await look(new MemoryStore(new Map([[locationText(target.location), poisoned]])));
    expect(facts.get('target')).toMatchObject({ state: 'broken', problem: 'unreadable', version: '7' });
    expect(facts.get('target')).toHaveProperty('message', expect.stringMatching(/^"target" met .*out of order/));
    expect([...(faults ?? [])].map(([name]) => name)).toEqual(['target']);
    expect(facts.get('signer')).toEqual({ state: 'absent' });
  });

  it('of the store itself is kept, too: nothing is concluded from it', async () => {
    const memory = new MemoryStore();
    const read: Store['read'] = (location) =>
      locationText(location) === locationText(signer.location)
        ? Promise.reject(new TypeError('out of order'))
        : memory.read(location);
    const { facts, faults } = await look({ read, write: memory.write.bind(memory) });
    expect(facts.get('signer')).toMatchObject({ state: 'unavailable', message: 'out of order' });
    expect(faults?.get('signer')).toBeInstanceOf(TypeError);
    expect(facts.get('target')).toEqual({ state: 'absent' });
  });
});
