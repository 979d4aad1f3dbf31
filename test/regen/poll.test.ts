// Polls between two looks: a change of what is external ends the pause, and nothing else does.
import { describe, expect, it } from 'vitest';
import type { Location, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signSigner } from '../../lib/pki/sign.ts';
import { type Pause, pause } from '../../lib/regen/poll.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { algorithm } from '../support/faults/interleaving.ts';
import { contentDigest, type Store } from '../../lib/store/store.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const place: Location = { kind: 'configMap', namespace: 'theirs', name: 'ca' };
const other: Location = { kind: 'configMap', namespace: 'theirs', name: 'absent' };

/** A pause of 30 s, as its clock stands when it ends. */
class Resting {
  readonly store = new MemoryStore();
  readonly clock = new FakeClock();
  readonly stop = new AbortController();
  readonly began = this.clock.now().getTime();
  reads = 0;
  ended = false;

  constructor() {
    this.store.put(place, { entries: {}, annotations: {} });
  }

  begin(more: Partial<Pause> = {}): Promise<void> {
    const content = contentDigest(this.store.peek(place)?.entries ?? {});
    const reading: Pause['store'] = {
      read: (location) => ((this.reads += 1), this.store.read(location)),
      write: () => Promise.resolve('conflict'),
    };
    const external = new Map([
      [place, content],
      [other, undefined],
    ]);
    const { clock, stop } = this;
    const options = {
      external,
      store: reading,
      clock,
      signal: stop.signal,
      delayMs: 30_000,
      pace: () => ({ delayMs: 100, of: 'all' }) as const,
      ...more,
    };
    return pause(options).then(() => void (this.ended = true));
  }

  /** Time passes in steps, so that every poll comes to its end. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0 && !this.ended; left -= 100) {
      this.clock.advance(100);
      await new Promise(setImmediate);
    }
  }

  get tookMs(): number {
    return this.clock.now().getTime() - this.began;
  }
}

describe('pause()', () => {
  it('polls all the time, and ends when it is time for a look', async () => {
    const one = new Resting();
    const ended = one.begin();
    await one.pass(29_900);
    expect(one.ended).toBe(false);
    expect(one.reads).toBe(299 * 2);
    await one.pass(100);
    await ended;
    expect(one.reads).toBe(299 * 2);
  });

  it.each([
    [
      'changes',
      (store: MemoryStore) => store.put(place, { entries: { 'tls.key': Buffer.from('x') }, annotations: {} }),
    ],
    ['goes', (store: MemoryStore) => store.put(place, undefined)],
    ['comes', (store: MemoryStore) => store.put(other, { entries: {}, annotations: {} })],
  ])('ends at the next poll when something external %s', async (_title, change) => {
    const one = new Resting();
    const ended = one.begin();
    await one.pass(1000);
    expect(one.ended).toBe(false);
    change(one.store);
    await one.pass(100);
    await ended;
    expect(one.tookMs).toBe(1100);
  });

  it('takes metadata that others change for no news', async () => {
    const one = new Resting();
    void one.begin();
    one.store.put(place, { entries: {}, annotations: { changed: 'often' } });
    await one.pass(5000);
    expect(one.ended).toBe(false);
    one.stop.abort();
  });

  it('ends when a poll fails: the look tells why', async () => {
    const one = new Resting();
    const store: Pause['store'] = {
      read: () => Promise.reject(new Error('no answer')),
      write: () => Promise.resolve('conflict'),
    };
    const ended = one.begin({ store });
    await one.pass(100);
    await ended;
    expect(one.tookMs).toBe(100);
  });

  it.each<Partial<Pause>>([{ pace: () => undefined }, { external: new Map() }])(
    'reads nothing with %o',
    async (more) => {
      const one = new Resting();
      const ended = one.begin(more);
      await one.pass(30_000);
      await ended;
      expect([one.tookMs, one.reads]).toEqual([30_000, 0]);
    },
  );

  it('is no longer because the API server takes its time', async () => {
    const one = new Resting();
    const store: Pause['store'] = {
      read: async (location) => (await one.clock.sleep(2000), one.store.read(location)),
      write: () => Promise.resolve('conflict'),
    };
    const ended = one.begin({ store });
    await one.pass(40_000);
    await ended;
    expect(one.tookMs).toBeLessThanOrEqual(33_000);
  });

  it('ends at once when it is asked to stop', async () => {
    const one = new Resting();
    const ended = one.begin();
    await one.pass(100);
    one.stop.abort();
    await ended;
    expect(one.tookMs).toBe(100);
  });
});

/** The loop of a process that knows these rows, until it is stopped. */
function startRegen(options: Pick<RegenOptions, 'resolved' | 'store'> & Partial<RegenOptions>) {
  const clock = new FakeClock();
  const stop = new AbortController();
  const ended = runRegen({
    clock,
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    log: createLog({ level: 'error', write: () => undefined }),
    keyPool: createKeyPool({ algorithm, size: 0 }),
    keyAlgorithm: algorithm,
    once: false,
    dryRun: false,
    signal: stop.signal,
    ...options,
  });
  /** Time passes in steps, so that every poll comes to its end. */
  const pass = async (ms: number, stepMs: number): Promise<void> => {
    for (let left = ms; left > 0; left -= stepMs) {
      await clock.waiting();
      clock.advance(stepMs);
      await new Promise(setImmediate);
    }
  };
  return { clock, stop, ended, pass };
}

/** What others give, of one day. */
async function bring(store: MemoryStore, now: Date): Promise<void> {
  const { key } = await generateKey(algorithm);
  const notAfter = new Date(now.getTime() + 86_400_000);
  const { pem } = await signSigner({ commonName: 'theirs', key, notBefore: now, notAfter, now });
  store.put(place, { entries: { 'ca-bundle.crt': Buffer.from(pem) }, annotations: {} });
}

const theirs: ResolvedArtefact = { kind: 'external', name: 'theirs', location: place, readers: [] };
const copied: Location = { ...place, namespace: 'ours' };
const ours: ResolvedArtefact = { kind: 'copy', name: 'ours', location: copied, of: 'theirs', readers: [] };
const lives = { validity: 86_400_000 * 30, refresh: 86_400_000 * 15 };

describe('runRegen()', () => {
  it('copies what others bring when it is there, and does not wait for its next look', async () => {
    const store = new MemoryStore();
    const { clock, stop, ended } = startRegen({ resolved: { name: 'external', artefacts: [theirs, ours] }, store });
    await clock.waiting();
    await bring(store, clock.now());
    clock.advance(100);
    await clock.waiting();
    expect(store.peek(copied)?.entries).toEqual(store.peek(place)?.entries);
    stop.abort();
    expect(await ended).toMatchObject({ writes: 1 });
  });

  it('sees what others bring while a row cannot be written', async () => {
    const store = new MemoryStore();
    const refused: Location = { kind: 'secret', namespace: 'ours', name: 'refused' };
    const own: ResolvedArtefact = { kind: 'signer', name: 'own', location: refused, readers: [], ...lives };
    const write: Store['write'] = (location, next, seen) =>
      location === refused ? Promise.reject(new Error('denied')) : store.write(location, next, seen);
    const { clock, stop, ended, pass } = startRegen({
      resolved: { name: 'both', artefacts: [theirs, own, ours] },
      store: { read: (location) => store.read(location), write },
    });
    // Six failures: the next look is 6.4 s away or more.
    await pass(6500, 50);
    await bring(store, clock.now());
    await pass(300, 50);
    await clock.waiting();
    expect(store.peek(copied)).toBeDefined();
    stop.abort();
    await ended;
  });

  it('does not poll objects where it is for files alone', async () => {
    const store = new MemoryStore();
    store.put(place, { entries: {}, annotations: {} });
    const files: Location = { kind: 'pemPair', certFile: '/x/ca.crt', keyFile: '/x/ca.key' };
    const own: ResolvedArtefact = { kind: 'signer', name: 'own', owned: true, location: files, readers: [], ...lives };
    const reads: string[] = [];
    const { clock, stop, ended, pass } = startRegen({
      resolved: { name: 'both', artefacts: [theirs, own] },
      store: {
        read: (location) => (reads.push(location.kind), store.read(location)),
        write: (location, next, seen) => store.write(location, next, seen),
      },
      locations: 'disk',
    });
    await clock.waiting();
    store.put(files, undefined);
    clock.advance(30_000);
    await pass(10_000, 100);
    stop.abort();
    await ended;
    expect(reads.filter((kind) => kind === 'configMap')).toEqual([]);
  });
});
