// A look that lasts for longer than a contradiction takes to be believed, as when the API server has just started.
import { expect, it } from 'vitest';
import type { Location, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import { StoryClock } from '../support/interleaving.ts';
import { shared, sharedGeneration } from '../support/shared-store.ts';

const start = new Date('2026-06-01T12:00:00Z');
const signal = new AbortController().signal;
const place = (name: string): Location => (shared.artefacts.find((row) => row.name === name) as ResolvedArtefact).truth;
const [original, copy] = [place('all-ca'), place('all-ca-copy')];

it('an original read before another writer came, and its copy after that, wait for the next look', async () => {
  const store = await sharedGeneration(start);
  const clock = new StoryClock(start);
  const look = (read = store.read.bind(store)) =>
    gather({
      resolved: shared,
      store: { read, write: store.write.bind(store) },
      signal,
      now: clock.now(),
      readAt: () => clock.now(),
      previous: new Map(),
    });
  const { facts } = await look(async (location) => {
    if (location !== copy) return store.read(location);
    clock.ms += 2000;
    const others = store.peek(place('long-ca'));
    for (const one of [original, copy]) store.put(one, others);
    return store.read(copy);
  });
  const { decisions } = plan({
    resolved: shared,
    facts,
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clock: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true },
    now: clock.now(),
  });
  const decision = decisions.find(({ artefact }) => artefact === 'all-ca-copy');
  expect(decision).toMatchObject({ action: 'keep', reason: 'Settling' });
  expect(decision?.recheckAt).toEqual(new Date(clock.ms + 1000));
});
