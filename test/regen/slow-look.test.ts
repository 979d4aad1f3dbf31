// A look that lasts for longer than a contradiction takes to be believed, as when the API server has just started.
import { expect, it } from 'vitest';
import type { Location, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { gather } from '../../lib/plan/gather.ts';
import { plan } from '../../lib/plan/plan.ts';
import type { Found } from '../../lib/store/store.ts';
import { StoryClock } from '../support/faults/interleaving.ts';
import type { MemoryStore } from '../support/stories/memory-store.ts';
import { shared, sharedGeneration } from '../support/cluster/shared-store.ts';

const start = new Date('2026-06-01T12:00:00Z');
const signal = new AbortController().signal;
const place = (name: string): Location =>
  (shared.artefacts.find((row) => row.name === name) as ResolvedArtefact).location;
const [original, copy] = [place('all-ca'), place('all-ca-copy')];

interface Reading {
  readonly store: MemoryStore;
  readonly clock: StoryClock;
}

/** What a look decides of the copy, when its reads go so. */
async function decideBy(read: (location: Location, reading: Reading) => Promise<Found | undefined>) {
  const store = await sharedGeneration(start);
  const clock = new StoryClock(start);
  const { facts, readAt } = await gather({
    resolved: shared,
    store: { read: (location) => read(location, { store, clock }), write: store.write.bind(store) },
    signal,
    now: clock.now(),
    readAt: () => clock.now(),
    previous: new Map(),
  });
  const { decisions } = plan({
    resolved: shared,
    facts,
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clock: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true },
    now: readAt,
  });
  return { decision: decisions.find(({ artefact }) => artefact === 'all-ca-copy'), clock };
}

/** Another writer writes original and copy. */
function writeBoth(store: MemoryStore): void {
  const others = store.peek(place('long-ca'));
  for (const one of [original, copy]) store.put(one, others);
}

it('an original read before another writer came, and its copy after that, wait for the next look', async () => {
  const { decision, clock } = await decideBy(async (location, { store, clock: story }) => {
    if (location === copy) {
      story.ms += 2000;
      writeBoth(store);
    }
    return store.read(location);
  });
  expect(decision).toMatchObject({ action: 'keep', reason: 'Settling' });
  expect(decision?.recheckAt).toEqual(new Date(clock.ms + 1000));
});

it('a third object that answers late makes no contradiction of the other two older', async () => {
  const late = shared.artefacts
    .map(({ location }) => location)
    .find((location) => location !== original && location !== copy);
  const { decision } = await decideBy(async (location, { store, clock }) => {
    if (location === copy) writeBoth(store);
    if (location === late) {
      await new Promise((done) => setTimeout(done, 20));
      clock.ms += 2000;
    }
    return store.read(location);
  });
  expect(decision).toMatchObject({ action: 'keep', reason: 'Settling' });
});
