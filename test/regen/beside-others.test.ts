// Others who write the same files: who holds the lock, who takes none, and who stands between two writes. And whom to ask
// about the clock before anything is signed.
import { appendFile, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import { acquireLock } from '../../lib/host/lock.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { DiskWorld, movedClock } from './disk-world.ts';

const day = 24 * 3_600_000;

let world: DiskWorld;
let directory: string;
beforeEach(async () => {
  world = await DiskWorld.create();
  directory = join(world.directory, 'run');
});
afterEach(() => world[Symbol.asyncDispose]());

const file = (name: string): string => join(world.directory, 'pki', name);
const lockDisk = (): ReturnType<typeof acquireLock> => acquireLock({ directory, clock: systemClock });
const refusals = (): readonly unknown[] =>
  world.lines.filter(({ event }) => event === 'rotation.failed').map(({ code }) => code);

describe('a process that lasts', () => {
  /** Until it waits for the next look. */
  async function lasting(more: Partial<RegenOptions>, during: (clock: FakeClock) => Promise<void>): Promise<number> {
    const stop = new AbortController();
    const clock = new FakeClock(systemClock.now());
    const ended = runRegen(world.options({ once: false, signal: stop.signal, clock, lockDisk, ...more }));
    await clock.waiting();
    await during(clock);
    stop.abort();
    return (await ended).writes;
  }

  it('holds the lock while it writes, and then no more', async () => {
    const held: boolean[] = [];
    const store: RegenOptions['store'] = {
      ...world.store,
      async write(...args) {
        held.push(
          await lockDisk().then(
            async (lock) => (await lock.release(), false),
            () => true,
          ),
        );
        return world.store.write(...args);
      },
    };
    const writes = await lasting({ store }, async () => {
      await (await lockDisk()).release();
    });
    expect(writes).toBe(9);
    expect(new Set(held)).toEqual(new Set([true]));
  });

  it('writes nothing while another process holds it, goes on looking, and writes after', async () => {
    const other = await lockDisk();
    const writes = await lasting({}, async (clock) => {
      expect(new Set(refusals())).toEqual(new Set(['AlreadyRunning']));
      await expect(readFile(file('ca.crt'))).rejects.toThrow('ENOENT');
      await other.release();
      clock.advance(30_000);
      await clock.waiting();
      clock.advance(30_000);
      await clock.waiting();
    });
    expect(writes).toBe(9);
  });
});

describe('a lock that was deleted with its directory', () => {
  /** After the first write; counts those that begin when `then` has resolved. */
  function afterFirst(then: () => Promise<void>): { readonly store: RegenOptions['store']; late: number } {
    let [writes, isOver] = [0, false];
    const counted = {
      late: 0,
      store: {
        ...world.store,
        async write(...args: Parameters<RegenOptions['store']['write']>) {
          writes += 1;
          if (isOver) counted.late += 1;
          const isFirst = writes === 1;
          const outcome = await world.store.write(...args);
          if (!isFirst) return outcome;
          await rm(directory, { recursive: true });
          await then();
          isOver = true;
          return outcome;
        },
      },
    };
    return counted;
  }

  it('is taken again before the next write', async () => {
    const { store } = afterFirst(() => Promise.resolve());
    expect(await runRegen(world.options({ lockDisk, store }))).toMatchObject({ converged: true, writes: 9 });
  });

  it.each([true, false])('lets the process write that has it now (a single run: %s)', async (once) => {
    const stop = new AbortController();
    const clock = new FakeClock(systemClock.now());
    let other: Awaited<ReturnType<typeof lockDisk>> | undefined;
    const counted = afterFirst(async () => void (other = await lockDisk()));
    const { store } = counted;
    const ended = runRegen(world.options({ once, lockDisk, store, clock, signal: stop.signal }));
    await clock.waiting();
    expect(new Set(refusals())).toEqual(new Set(['AlreadyRunning']));
    expect(counted.late).toBe(0);
    stop.abort();
    await ended;
    await other?.release();
  });
});

it('looks for a writer that takes no lock before each look that writes, and for none before others', async () => {
  let looks = 0;
  const kubeadm = new RecoveryError('AlreadyRunning', 'kubeadm runs');
  const refuseBesideOthers = (): void => {
    looks += 1;
    if (looks < 3) throw kubeadm;
  };
  expect(await runRegen(world.options({ refuseBesideOthers, clock: movedClock(0) }))).toMatchObject({ writes: 9 });
  expect(looks).toBe(3);
  expect(refusals()).toContain('AlreadyRunning');
  await runRegen(world.options({ refuseBesideOthers }));
  expect(looks).toBe(3);
});

describe('a pair that does not match', () => {
  const policy = { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 1000 } as const;
  const mismatch = async (): Promise<void> => {
    await writeFile(file('serving.key.new'), await readFile(file('client.key')), { mode: 0o600 });
    await rename(file('serving.key.new'), file('serving.key'));
  };
  beforeEach(async () => void (await runRegen(world.options())));

  it('may be half of what somebody writes just now: it has time to become whole', async () => {
    const key = await readFile(file('serving.key'));
    await mismatch();
    let waited = 0;
    const clock = {
      ...systemClock,
      async sleep(): Promise<void> {
        waited += 1;
        await writeFile(file('serving.key'), key);
      },
    };
    expect(await runRegen(world.options({ policy, clock }))).toMatchObject({ converged: true, writes: 0 });
    expect(waited).toBe(1);
  });

  it('is reissued when it stays so for three seconds', async () => {
    await mismatch();
    const clock = movedClock(0);
    expect(await runRegen(world.options({ policy, clock }))).toMatchObject({ converged: true, writes: 1 });
    expect(clock.slept).toBeGreaterThan(1000);
    expect(clock.slept).toBeLessThan(5000);
  });

  it.each([
    ['was left long ago, as by a power loss', -10_000],
    ['dates from the future', 3_600_000],
  ])('is reissued at once when it %s', async (_, ms) => {
    await mismatch();
    const clock = movedClock(0);
    const changedAt = new Date(clock.now().getTime() + ms);
    const store: RegenOptions['store'] = {
      ...world.store,
      async read(...args) {
        const found = await world.store.read(...args);
        return found && { ...found, changedAt };
      },
    };
    expect(await runRegen(world.options({ policy, clock, store }))).toMatchObject({ converged: true, writes: 1 });
    expect(clock.slept).toBe(0);
  });

  it('waits also as half of a pair, and where there is no PEM', async () => {
    await rm(file('serving.crt'));
    await appendFile(file('client.key'), '-----BEGIN');
    const clock = movedClock(0);
    expect(await runRegen(world.options({ policy, clock }))).toMatchObject({ converged: true, writes: 2 });
    expect(clock.slept).toBeGreaterThan(1000);
  });
});

describe('whether the clock is synchronised', () => {
  const asking = (answer: boolean): { readonly asked: boolean[]; readonly clockFacts: RegenOptions['clockFacts'] } => {
    const asked: boolean[] = [];
    return {
      asked,
      clockFacts: (thorough) => {
        asked.push(thorough);
        return { builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: thorough && answer };
      },
    };
  };

  it('is asked thoroughly only when something must be signed and may not', async () => {
    await runRegen(world.options());
    // Everything begins in the future; nothing has to be signed but what is lost.
    const clock = movedClock(-day);
    await rm(file('serving.crt'));
    const [no, yes] = [asking(false), asking(true)];
    expect(await runRegen(world.options({ clock, clockFacts: no.clockFacts }))).toMatchObject({ writes: 0 });
    expect(no.asked).toContain(true);
    const report = await runRegen(world.options({ clock, clockFacts: yes.clockFacts }));
    expect(report.writes).toBeGreaterThan(0);
    expect(yes.asked).toContain(true);
  });

  it('costs a healthy pass nothing', async () => {
    await runRegen(world.options());
    const { asked, clockFacts } = asking(true);
    expect(await runRegen(world.options({ clockFacts }))).toMatchObject({ converged: true, writes: 0 });
    expect(asked).toEqual([false]);
  });
});
