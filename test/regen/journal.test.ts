// What people are told while something lasts: once when it begins, then now and then.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import { createHealth } from '../../lib/health.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { runRegen } from '../../lib/regen/run.ts';
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
  it('is told once, then once a minute with the number of attempts', async () => {
    await runRegen(world.options({ ...refusing(20, () => 'no room'), clock: movedClock(0), once: false }));
    expect(lines('rotation.decided', 'signer')).toHaveLength(1);
    const failed = lines('rotation.failed', 'signer');
    expect(failed.length).toBeGreaterThan(2); // 20 attempts take six minutes
    expect(failed.length).toBeLessThan(9);
    expect(failed.map(({ err }) => err)).toEqual(failed.map(() => 'no room'));
    expect(failed[0]).not.toHaveProperty('attempt');
    const attempts = failed.slice(1).map(({ attempt }) => Number(attempt));
    expect(attempts[0]).toBeGreaterThan(8); // the backoff reaches half a minute at the ninth
    expect(attempts).toEqual(attempts.toSorted((a, b) => a - b));
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
  const health = createHealth();
  const text = 'Cannot get Secret "n/remote": the API server answered 403 Forbidden';
  const store: Store = {
    read: () => Promise.reject(new RecoveryError('KubeForbidden', text)),
    write: (...args) => world.store.write(...args),
  };
  const truth = { kind: 'secret', namespace: 'n', name: 'remote' } as const;
  const resolved: Resolved = { name: 'test', artefacts: [{ kind: 'opaque', name: 'remote', truth, readers: [] }] };
  const ended = runRegen(world.options({ resolved, store, clock, health, once: false, signal: stop.signal }));
  await clock.waiting();
  expect(health.report()).toContainEqual({ name: 'regen', kind: 'readiness', ok: false, message: text });
  stop.abort();
  await ended;
});
