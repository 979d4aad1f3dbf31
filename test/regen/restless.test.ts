// Objects that somebody changes again and again: metadata alone is no change, and no change for ever keeps a single run
// from its end.
import { expect, it } from 'vitest';
import type { Clock } from '../../lib/clock.ts';
import type { Location, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { unmetConditions } from '../../lib/regen/unmet.ts';
import { caBundleKey } from '../../lib/inventory/content.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { algorithm } from '../support/faults/interleaving.ts';
import type { MemoryStore } from '../support/stories/memory-store.ts';
import { shared, sharedGeneration } from '../support/cluster/shared-store.ts';
import type { Store } from '../../lib/store/store.ts';
import { regenOptions } from '../integration/regen-world.ts';

const start = new Date('2026-06-01T12:00:00Z');
const place = (name: string): ResolvedArtefact['location'] =>
  (shared.artefacts.find((row) => row.name === name) as ResolvedArtefact).location;

/** Time passes by waiting, in steps of 0.3 s, and with each step others do something. */
class RestlessClock implements Clock {
  #ms = start.getTime();
  readonly #act: (step: number) => void;
  #steps = 0;

  constructor(act: (step: number) => void) {
    this.#act = act;
  }

  now(): Date {
    return new Date(this.#ms);
  }

  uptimeSeconds(): number {
    return this.#ms / 1000;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as of the real one
  async sleep(ms: number): Promise<void> {
    const end = this.#ms + Math.max(ms, 1);
    while (this.#ms < end) {
      this.#ms = Math.min(this.#ms + 300, end);
      this.#act((this.#steps += 1));
    }
  }

  get seconds(): number {
    return (this.#ms - start.getTime()) / 1000;
  }
}

interface Story {
  readonly store: MemoryStore;
  readonly act: (step: number) => void;
  /** Others are always the quicker ones, too. */
  readonly beforeWrite?: (location: Location) => void;
}

/** A single run; what has not ended after ten minutes is stopped. */
async function runOnce({
  store: memory,
  act,
  beforeWrite,
}: Story): Promise<{ readonly report: RegenReport; readonly seconds: number }> {
  const stop = new AbortController();
  const clock = new RestlessClock((step) => {
    if (clock.seconds > 600) stop.abort();
    act(step);
  });
  const store: Store = {
    read: (location) => memory.read(location),
    write: (location, next, seen) => {
      beforeWrite?.(location);
      return memory.write(location, next, seen);
    },
  };
  const keyPool = createKeyPool({ algorithm, size: 0 });
  const report = await runRegen(
    regenOptions({ resolved: shared, store, clock, keyPool, keyAlgorithm: algorithm, signal: stop.signal }),
  );
  return { report, seconds: clock.seconds };
}

const bundleOf = (store: MemoryStore, name: string): string =>
  Buffer.from(store.peek(place(name))?.entries[caBundleKey] ?? []).toString();

function annotate(store: MemoryStore, name: string, step: number): void {
  const found = store.peek(place(name));
  if (found !== undefined) store.put(place(name), { ...found, annotations: { flipped: String(step) } });
}

it('a bundle of which somebody changes an annotation each moment is healed, and what waits for it', async () => {
  const store = await sharedGeneration(start);
  const [whole, other] = [bundleOf(store, 'root-ca'), bundleOf(store, 'both-ca')];
  store.put(place('root-ca'), { entries: { [caBundleKey]: Buffer.from(other) }, annotations: {} });
  store.put(place('serving'), undefined);
  const { report } = await runOnce({ store, act: (step) => annotate(store, 'root-ca', step) });
  expect(report).toMatchObject({ converged: true, gaveUp: undefined });
  expect(bundleOf(store, 'root-ca')).toContain(whole.trim());
  expect(store.peek(place('serving'))).toBeDefined();
});

it('a copy follows an original of which somebody changes the annotations, and its own', async () => {
  const store = await sharedGeneration(start);
  store.put(place('all-ca-copy'), {
    entries: { [caBundleKey]: Buffer.from(bundleOf(store, 'both-ca')) },
    annotations: {},
  });
  const act = (step: number): void => ['all-ca', 'all-ca-copy'].forEach((name) => annotate(store, name, step));
  const { report } = await runOnce({ store, act });
  expect(report).toMatchObject({ converged: true });
  expect(bundleOf(store, 'all-ca-copy')).toBe(bundleOf(store, 'all-ca'));
});

/** Takes the signer out of a bundle in ever other ways. */
function fight(store: MemoryStore): Story['act'] {
  const [one, other] = [bundleOf(store, 'both-ca'), bundleOf(store, 'long-ca')];
  return (step) =>
    store.put(place('middle-ca'), { entries: { [caBundleKey]: Buffer.from(step % 2 ? one : other) }, annotations: {} });
}

it('content that never stands still is believed all the same after a while, and nothing else waits', async () => {
  const store = await sharedGeneration(start);
  const act = fight(store);
  let stillFights = true;
  store.put(place('serving'), undefined);
  const whole = bundleOf(store, 'middle-ca');
  act(1);
  const { report } = await runOnce({
    store,
    act: (step) => {
      // Who has lost once gives up.
      stillFights &&= !bundleOf(store, 'middle-ca').includes(whole.trim());
      if (stillFights) act(step);
    },
  });
  expect(report).toMatchObject({ converged: true });
  expect(bundleOf(store, 'middle-ca')).toContain(whole.trim());
  expect(report.artefacts.find(({ artefact }) => artefact === 'middle-ca')).toMatchObject({ writes: 1 });
});

it('a single run against who never gives up ends, and names what is not healed', async () => {
  const store = await sharedGeneration(start);
  const act = fight(store);
  store.put(place('serving'), undefined);
  act(1);
  let count = 0;
  const beforeWrite = (location: Location): void => {
    if (location === place('middle-ca')) act((count += 1));
  };
  const { report, seconds } = await runOnce({ store, act, beforeWrite });
  expect(report).toMatchObject({ converged: false });
  expect(seconds).toBeLessThan(120);
  expect(store.peek(place('serving'))).toBeDefined();
  expect(unmetConditions(report).map(({ message }) => message)).toEqual([
    expect.stringContaining('regen gave up'),
    expect.stringMatching(/^middle-ca: it does not hold the certificate of middle/),
    expect.stringMatching(/^all-ca: middle-ca is looked at again first/),
    expect.stringMatching(/^middle-client: no valid certificate in middle-ca has signed it/),
  ]);
});
