// A reactor on real pairs; the proof is a function of the test's.
import { copyFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { Reactor, type ReactorOptions, type RestartRequest } from '../../lib/fileobserver/react.ts';
import type { Reader, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import type { ProofResult } from '../../lib/proof/result.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { TemporaryDirectory, soon } from './observation.ts';

const made = new TemporaryDirectory();
let first: Pair;
let second: Pair;
beforeAll(async () => {
  const ca = await createAuthority(join(made.path, 'ca'), { commonName: 'ca' });
  first = await createLeaf(join(made.path, 'first'), ca, { commonName: 'first' });
  second = await createLeaf(join(made.path, 'second'), ca, { commonName: 'second' });
});
afterAll(() => made[Symbol.asyncDispose]());

const reloads: Reader = { component: 'kas', needs: 'nothing', proof: { kind: 'served', serverName: 'localhost' } };
const restarts: Reader = { component: 'kcm', needs: 'restart', proof: { kind: 'none' } };
const at = new Date('2026-11-21T08:00:00Z');
const result = (state: ProofResult['state']): ProofResult => ({ state, message: `it is ${state}`, at });

interface SetupOptions {
  readonly readers?: readonly Reader[];
  readonly clock?: Clock;
  readonly restart?: ReactorOptions['restart'];
}

class Setup implements AsyncDisposable {
  readonly directory = new TemporaryDirectory();
  readonly lines: Record<string, unknown>[] = [];
  readonly #stop = new AbortController();
  readonly reactor: Reactor;
  readonly #running: Promise<void>;

  constructor(
    prove: ReactorOptions['prove'],
    { readers = [reloads], clock = systemClock, restart }: SetupOptions = {},
  ) {
    const artefact: ResolvedArtefact = {
      kind: 'opaque',
      name: 'serving',
      location: { kind: 'secret', namespace: 'a', name: 'serving' },
      readers,
    };
    this.reactor = new Reactor({
      artefact,
      files: { kind: 'pair', certFile: this.cert, keyFile: this.key },
      prove,
      restart,
      clock,
      log: createLog({ level: 'debug', write: (line) => this.lines.push(JSON.parse(line) as Record<string, unknown>) }),
      signal: this.#stop.signal,
    });
    this.#running = this.reactor.run();
  }

  get cert(): string {
    return join(this.directory.path, 'tls.crt');
  }
  get key(): string {
    return join(this.directory.path, 'tls.key');
  }

  async put(cert: Pair, key: Pair = cert): Promise<void> {
    await copyFile(cert.cert, this.cert);
    await copyFile(key.key, this.key);
  }

  events(): unknown[] {
    return this.lines.map(({ event }) => event);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.directory[Symbol.asyncDispose]();
  }
}

test('Reactor proves a changed pair and says how long that took', async () => {
  const asked: unknown[] = [];
  await using setup = new Setup((artefact, publishedAt, readers) => {
    asked.push([artefact.name, publishedAt, readers]);
    return Promise.resolve(result('proven'));
  });
  await setup.put(first);
  const changedAt = new Date();
  setup.reactor.notice('changed', changedAt);
  expect(setup.reactor.isPending).toBe(true);
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(asked).toEqual([['serving', changedAt, [reloads]]]);
  expect(setup.lines[0]).toMatchObject({ artefact: 'serving', message: 'it is proven', duration: expect.any(Number) });
  await soon(() => setup.reactor.isPending).toBe(false);
});

test('Reactor: what is thrown outside the proof is told and tried again, and ends nothing', async () => {
  let asked = 0;
  const clock = new FakeClock();
  const restart = (): void => {
    asked += 1;
    clock.advance(60_000); // else the next attempt comes before it is told
    throw new TypeError('out of order');
  };
  const setting = { readers: [reloads, restarts], restart, clock };
  await using setup = new Setup(() => Promise.resolve(result('proven')), setting);
  await setup.put(first);
  setup.reactor.notice('changed', clock.now());
  await soon(() => setup.events()).toEqual(['reaction.failed']);
  expect(setup.lines[0]).toHaveProperty(
    'message',
    expect.stringMatching(/"serving": fault of this program, TypeError: /),
  );
  await setup.put(second);
  setup.reactor.notice('changed', clock.now());
  await soon(() => asked).toBe(2);
});

test('Reactor tries again until the proof succeeds, also when it throws', async () => {
  let attempts = 0;
  await using setup = new Setup(() => {
    attempts += 1;
    if (attempts === 2) return Promise.reject(new Error('broken'));
    return Promise.resolve(result(attempts < 5 ? 'unproven' : 'proven'));
  });
  await setup.put(first);
  setup.reactor.notice('changed', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(attempts).toBe(5);
});

test('Reactor asks seldom for what others must do first, and not before the rest is proven', async () => {
  const clock = new FakeClock();
  const signs: Reader = { component: 'kcm', needs: 'nothing', proof: { kind: 'signsCsr' } };
  const asked: string[] = [];
  await using setup = new Setup(
    (_, __, readers = []) => {
      asked.push(readers.map(({ component }) => component).join());
      const served = asked.length > 3;
      return Promise.resolve(result(readers[0] === reloads && served ? 'proven' : 'unproven'));
    },
    { readers: [reloads, signs], clock },
  );
  await setup.put(first);
  setup.reactor.notice('changed', clock.now());
  const end = clock.now().getTime() + 60_000;
  while (clock.now().getTime() < end) {
    await soon(() => clock.nextWake ?? Infinity).toBeLessThanOrEqual(30_000); // it sleeps between two attempts
    clock.advance(clock.nextWake ?? 0);
  }
  expect(asked.slice(0, 5)).toEqual(['kas', 'kas', 'kas', 'kas', 'kcm']);
  const minute = asked.filter((component) => component === 'kcm');
  expect(minute.length).toBeGreaterThan(1);
  expect(minute.length).toBeLessThan(8);
});

test('Reactor waits for the other half of a pair, and for one that matches', async () => {
  let asked = 0;
  await using setup = new Setup(() => {
    asked += 1;
    return Promise.resolve(result('proven'));
  });
  await copyFile(first.cert, setup.cert);
  setup.reactor.notice('changed', new Date());
  expect(setup.reactor.isPending).toBe(true);
  await copyFile(second.key, setup.key);
  setup.reactor.notice('changed', new Date());
  await writeFile(setup.cert, '-----BEGIN CERTIFICATE-----\nMIIB');
  setup.reactor.notice('changed', new Date());
  expect(setup.reactor.isPending).toBe(true);
  expect(asked).toBe(0);
  await setup.put(second);
  // No notice: it looks again by itself.
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(asked).toBe(1);
});

test('Reactor makes one reaction of a burst, to the newest state', async () => {
  const gate = Promise.withResolvers<void>();
  const times: Date[] = [];
  await using setup = new Setup(async (_artefact, publishedAt) => {
    times.push(publishedAt);
    await gate.promise;
    return result('proven');
  });
  await setup.put(first);
  setup.reactor.notice('changed', new Date(0));
  await soon(() => times.length).toBe(1);
  for (let i = 1; i <= 200; i += 1) setup.reactor.notice('changed', new Date(i));
  gate.resolve();
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(times).toEqual([new Date(0), new Date(200)]);
});

test('Reactor reports once what is not proven in time, goes on slowly, and tells when it is', async () => {
  const clock = new FakeClock();
  let state: ProofResult['state'] = 'unproven';
  let attempts = 0;
  await using setup = new Setup(
    () => {
      attempts += 1;
      return Promise.resolve(result(state));
    },
    { clock },
  );
  await setup.put(first);
  await clock.waiting();
  setup.reactor.notice('changed', clock.now());
  await soon(() => attempts).toBe(1);
  const from = clock.now().getTime();
  for (await clock.waiting(); !setup.events().includes('proof.missing'); await clock.waiting()) {
    clock.advance(clock.nextWake ?? 0);
  }
  expect(clock.now().getTime() - from).toBeGreaterThanOrEqual(60_000);
  expect(clock.now().getTime() - from).toBeLessThanOrEqual(61_000);
  const before = attempts;
  for (let more = 1; more <= 3; more += 1) {
    await soon(() => clock.nextWake).toBe(30_000);
    clock.advance(30_000);
    await soon(() => attempts).toBe(before + more);
  }
  expect(setup.events()).toEqual(['proof.missing']);
  state = 'proven';
  await soon(() => clock.nextWake).toBe(30_000);
  clock.advance(30_000);
  await soon(() => setup.events()).toEqual(['proof.missing', 'proof.succeeded']);
});

test('Reactor says once for each change that a component must be restarted, and proves the other readers', async () => {
  await using setup = new Setup(() => Promise.resolve(result('proven')), { readers: [restarts, reloads] });
  await setup.put(first);
  setup.reactor.notice('found', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  await setup.put(second);
  setup.reactor.notice('changed', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded', 'reaction.failed', 'proof.succeeded']);
  expect(setup.lines[1]).toMatchObject({ level: 'error', component: 'kcm', reason: 'RestartNeeded' });
});

test('Reactor tells of each content that a component must be restarted for, also of what it finds', async () => {
  const told: RestartRequest[] = [];
  await using setup = new Setup(() => Promise.resolve(result('proven')), {
    readers: [restarts, reloads],
    restart: (change) => void told.push(change),
  });
  await setup.put(first);
  const { ctimeMs } = await stat(setup.key);
  const changedAt = new Date(Math.ceil(ctimeMs));
  setup.reactor.notice('found', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(told[0]).toMatchObject({ component: 'kcm', artefact: 'serving', since: 'found', changedAt });
  await setup.put(second);
  setup.reactor.notice('changed', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded', 'proof.succeeded']);
  await setup.put(first);
  setup.reactor.notice('changed', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded', 'proof.succeeded', 'proof.succeeded']);
  expect(told.map(({ since }) => since)).toEqual(['found', 'changed', 'changed']);
  expect(new Set(told.map(({ digest }) => digest)).size).toBe(2);
});

test('Reactor takes what the observer has seen, and reads no file for its first attempt', async () => {
  const told: RestartRequest[] = [];
  await using setup = new Setup(() => Promise.resolve(result('proven')), {
    readers: [restarts],
    restart: (change) => void told.push(change),
  });
  setup.reactor.notice('changed', at, { state: 'complete', digest: 'seen', changedAt: at });
  await soon(() => setup.reactor.isPending).toBe(false);
  expect(told).toMatchObject([{ component: 'kcm', digest: 'seen', changedAt: at }]);
});

test('Reactor says that a component must be restarted only once the pair is whole', async () => {
  await using setup = new Setup(() => Promise.resolve(result('proven')), { readers: [restarts] });
  await copyFile(first.cert, setup.cert);
  setup.reactor.notice('changed', new Date());
  expect(setup.reactor.isPending).toBe(true);
  await copyFile(first.key, setup.key);
  await soon(() => setup.events()).toEqual(['reaction.failed']);
});

test('Reactor does nothing when the files that it has proven are seen again, and proves those that return', async () => {
  let asked = 0;
  await using setup = new Setup(() => {
    asked += 1;
    return Promise.resolve(result('proven'));
  });
  for (const pair of [first, first, second, first]) {
    await setup.put(pair);
    setup.reactor.notice('changed', new Date());
    await soon(() => setup.reactor.isPending).toBe(false);
  }
  expect(asked).toBe(3);
});

test('Reactor has nothing to do for files that are gone', async () => {
  await using setup = new Setup(() => Promise.reject(new Error('not to be asked')));
  await setup.put(first);
  await rm(setup.cert);
  await rm(setup.key);
  setup.reactor.notice('changed', new Date());
  await soon(() => setup.reactor.isPending).toBe(false);
  expect(setup.lines).toEqual([]);
});

test('Reactor counts from the start what it has found: its files may be older than the boot', async () => {
  await using setup = new Setup(() => Promise.resolve(result('proven')));
  await setup.put(first);
  setup.reactor.notice('found', new Date(0));
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(Number(setup.lines[0]?.['duration'])).toBeLessThan(3_600_000);
});

test('Reactor believes no proof of files that were replaced while it was given', async () => {
  let asked = 0;
  await using setup = new Setup(async () => {
    asked += 1;
    if (asked === 1) await setup.put(second);
    return result('proven');
  });
  await setup.put(first);
  setup.reactor.notice('found', new Date());
  await soon(() => setup.events()).toEqual(['proof.succeeded']);
  expect(asked).toBe(2);
});
