// What people are told while something lasts: once when it begins, then now and then.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import { Health } from '../../lib/health.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { systemClock } from '../../lib/clock.ts';
import type { RecordedEvent } from '../../lib/kube/events.ts';
import { noMetrics } from '../../lib/metrics.ts';
import type { Decision } from '../../lib/plan/decision.ts';
import type { Plan } from '../../lib/plan/plan.ts';
import { Journal } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { DailySummary, summaryOf } from '../../lib/summary.ts';
import type { Store } from '../../lib/store/store.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { DiskWorld, movedClock } from './disk-world.ts';
import type { LogLine } from './disk-world.ts';

let world: DiskWorld;
beforeEach(async () => {
  world = await DiskWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const lines = (event: string, artefact: string): LogLine[] =>
  world.lines.filter((line) => line.event === event && line.artefact === artefact);

/** A disk that refuses all writes, with what `problem` says at that attempt at the signer; the loop ends at `last`. */
function refusing(last: number, problem: (attempt: number) => string): { store: Store; signal: AbortSignal } {
  const stop = new AbortController();
  let attempts = 0;
  const store: Store = {
    read: (...args) => world.store.read(...args),
    write: (location) => {
      if (location.kind === 'pemPair' && location.certFile.endsWith('/signer.crt')) attempts += 1;
      if (attempts === last) stop.abort();
      return Promise.reject(new RecoveryError('WriteFailed', problem(attempts)));
    },
  };
  return { store, signal: stop.signal };
}

describe('a renewal that fails for good', () => {
  it('is told once, then ever more rarely, with the number of attempts', async () => {
    await runRegen(world.options({ ...refusing(20, () => 'no room'), clock: movedClock(0), once: false }));
    expect(lines('rotation.decided', 'signer')).toHaveLength(1);
    const failed = lines('rotation.failed', 'signer');
    expect(failed).toHaveLength(3); // 20 attempts take six minutes: at once, after one and after three
    expect(failed.map(({ err }) => err)).toEqual(failed.map(() => 'no room'));
    expect(failed[0]).not.toHaveProperty('attempt');
    const attempts = failed.slice(1).map(({ attempt }) => Number(attempt));
    expect(attempts[0]).toBeGreaterThan(8); // the backoff reaches half a minute at the ninth
    expect(attempts).toEqual(attempts.toSorted((a, b) => a - b));
  });

  it('makes one key and a handful of Events of an object, however often it is tried', async () => {
    const stop = new AbortController();
    const location = { kind: 'secret', namespace: 'n', name: 'remote' } as const;
    const lives = { readers: [], validity: 86_400_000, refresh: 43_200_000 };
    const artefacts: Resolved['artefacts'] = [{ ...lives, kind: 'signer', name: 'remote', owned: true, location }];
    const keys = new Set<string>();
    const store: Store = {
      read: () => Promise.resolve(undefined),
      write: (_, { entries }) => {
        keys.add(Buffer.from(entries['tls.key'] ?? []).toString());
        attempts += 1;
        if (attempts === 60) stop.abort();
        return Promise.reject(new RecoveryError('KubeRejected', 'admission webhook "all" denied the request'));
      },
    };
    let attempts = 0;
    const notes: string[] = [];
    const events = { record: ({ type, note }: RecordedEvent) => void (type === 'Warning' && notes.push(note)) };
    const more = { resolved: { name: 'test', artefacts }, store, events, signal: stop.signal };
    await runRegen(world.options({ ...more, clock: movedClock(0), once: false }));
    expect(attempts).toBe(60); // half an hour
    expect(keys.size).toBe(1);
    expect(notes).toHaveLength(lines('rotation.failed', 'remote').length);
    expect(notes.length).toBeLessThan(8);
  });

  it('is told again when the error is another', async () => {
    const { store, signal } = refusing(6, (attempt) => (attempt < 4 ? 'no room' : 'no right'));
    await runRegen(world.options({ store, signal, clock: movedClock(0), once: false }));
    expect(lines('rotation.failed', 'signer').map(({ err }) => err)).toEqual(['no room', 'no right']);
  });
});

it('a renewal that is decided again after it was written is told again', async () => {
  let lost = 0;
  const store: Store = {
    // What was written is gone at the next look, twice.
    read: async (location, signal) => {
      const isSigner = location.kind === 'pemPair' && location.certFile.endsWith('/lonely.crt');
      return isSigner && (lost += 1) <= 2 ? undefined : world.store.read(location, signal);
    },
    write: async (location, next, seen, signal) => {
      const found = await world.store.read(location, signal);
      return world.store.write(location, next, found === undefined ? seen : { version: found.version }, signal);
    },
  };
  await runRegen(world.options({ store }));
  expect(lines('signer.regenerated', 'lonely')).toHaveLength(2);
  expect(lines('rotation.decided', 'lonely').filter(({ level }) => level === 'info')).toHaveLength(2);
});

it('every line of a mode names the mode once', async () => {
  await runRegen(world.options({ log: world.log.with({ mode: 'regen' }) }));
  expect(world.text.length).toBeGreaterThan(10);
  expect(world.text.filter((line) => line.split('"mode":').length !== 2)).toEqual([]);
});

it('readiness says why the API cannot be read', async () => {
  const stop = new AbortController();
  const clock = new FakeClock();
  const health = new Health();
  const text = 'Cannot get Secret "n/remote": the API server answered 403 Forbidden';
  const store: Store = {
    read: () => Promise.reject(new RecoveryError('KubeForbidden', text)),
    write: (...args) => world.store.write(...args),
  };
  const location = { kind: 'secret', namespace: 'n', name: 'remote' } as const;
  const resolved: Resolved = { name: 'test', artefacts: [{ kind: 'opaque', name: 'remote', location, readers: [] }] };
  const ended = runRegen(world.options({ resolved, store, clock, health, once: false, signal: stop.signal }));
  await clock.waiting();
  expect(health.report()).toContainEqual({ name: 'regen', kind: 'readiness', ok: false, message: text });
  stop.abort();
  await ended;
});

describe('how all of it stands', () => {
  const summaries = (): LogLine[] => world.lines.filter(({ event }) => event === 'regen.summary');

  it('is one line at the start, with what ends first', async () => {
    await runRegen(world.options());
    const count = world.resolved.artefacts.length;
    expect(summaries()).toMatchObject([{ level: 'info', count }]);
    const [{ artefact, notAfter, message } = expect.unreachable()] = summaries();
    expect(message).toBe(`${count} of ${count} artefacts are good; the first that ends is ${artefact}`);
    expect(new Date(String(notAfter)).getTime()).toBeGreaterThan(systemClock.now().getTime());
  });

  it('is not told by a single run within a day of another that has', async () => {
    await runRegen(world.options({ summaryLoggedAt: new Date(systemClock.now().getTime() - 3_600_000) }));
    expect(summaries()).toEqual([]);
  });

  it('is told once a day', () => {
    const clock = new FakeClock();
    const summary = new DailySummary({ clock, log: world.log, event: 'regen.summary' });
    const standing = { name: 'a', isGood: false, notAfter: undefined };
    summary.tell(() => undefined); // nothing was looked at
    for (let hour = 0; hour < 50; hour += 1) {
      summary.tell(() => summaryOf([standing], 'artefacts are good'));
      clock.advance(3_600_000);
    }
    expect(summaries()).toHaveLength(3);
    expect(summaries()[0]?.['message']).toBe('0 of 1 artefacts are good; not as they should be: a');
  });
});

describe('Journal', () => {
  const decided = (action: Decision['action'], reason: Decision['reason']): Plan => {
    const recheckAt = new Date(0);
    return {
      recheckAt,
      decisions: [{ artefact: 'lonely', action, reason, message: reason, recheckAt, after: [] }],
    };
  };
  const clock = (): FakeClock => new FakeClock();
  const journalOf = (own: FakeClock): Journal =>
    new Journal({ resolved: world.resolved, clock: own, log: world.log, dryRun: false, metrics: noMetrics });
  const all = (): boolean => true;

  it('says in one line that what was stuck is good again', () => {
    const journal = journalOf(clock());
    journal.decided(decided('keep', 'Healthy'), all);
    journal.decided(decided('blocked', 'Absent'), all);
    journal.decided(decided('keep', 'Healthy'), all);
    journal.decided(decided('keep', 'Healthy'), all);
    expect(lines('rotation.resolved', 'lonely')).toHaveLength(1);
    expect(lines('rotation.blocked', 'lonely')).toHaveLength(1);
  });

  it('counts a recovery from the moment at which it was seen to be due', () => {
    const own = clock();
    const journal = journalOf(own);
    journal.firstAnswerAt = own.now();
    own.advance(100);
    journal.decided(decided('keep', 'Healthy'), all);
    own.advance(300_000);
    journal.decided(decided('renew', 'Expired'), all);
    own.advance(200);
    journal.settled();
    const [finished] = world.lines.filter(({ event }) => event === 'recovery.finished');
    expect(finished).toMatchObject({ duration: 200 });
  });

  it('counts the one that the first look finds from the API’s first answer', () => {
    const own = clock();
    const journal = journalOf(own);
    journal.firstAnswerAt = own.now();
    own.advance(100);
    journal.decided(decided('renew', 'Expired'), all);
    own.advance(200);
    journal.settled();
    expect(world.lines.filter(({ event }) => event === 'recovery.finished')).toMatchObject([{ duration: 300 }]);
  });
});
