import { execFile } from 'node:child_process';
import { readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { Health } from '../../lib/health.ts';
import type { Location, Resolved } from '../../lib/inventory/model.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { Store } from '../../lib/store/store.ts';
import { acquireLock } from '../../lib/host/lock.ts';
import { expire } from '../support/cluster/expire.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { DiskWorld, movedClock } from './disk-world.ts';

const run = promisify(execFile);
const day = 24 * 3_600_000;

let world: DiskWorld;
beforeEach(async () => {
  world = await DiskWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const file = (name: string): string => join(world.directory, 'pki', name);
const events = (...names: readonly string[]): string[] =>
  world.lines.filter(({ event }) => names.includes(event)).map(({ event, artefact }) => `${event} ${artefact ?? ''}`);
const changedRows = (before: Record<string, string>, after: Record<string, string>): string[] =>
  Object.keys(after).filter((name) => before[name] !== after[name]);

async function subjects(name: string): Promise<number> {
  return (await readFile(file(name), 'utf8')).split('-----BEGIN').length - 1;
}

async function verify(...args: readonly string[]): Promise<string> {
  const { stdout } = await run('openssl', ['verify', '-x509_strict', ...args]);
  return stdout.trim();
}

/** Two rows more, whose location is in the API: one that we make and one that we only look at. */
function withObjects({ name, artefacts }: Resolved): Resolved {
  const lives = { readers: [], validity: 30 * day, refresh: 15 * day };
  const secret = { kind: 'secret', namespace: 'n', name: 'remote' } as const;
  const configMap = { kind: 'configMap', namespace: 'n', name: 'others' } as const;
  return {
    name,
    artefacts: [
      ...artefacts,
      { ...lives, kind: 'signer', name: 'remote', location: secret },
      { kind: 'opaque', name: 'others', location: configMap, readers: [] },
    ],
  };
}

describe('runRegen() with nothing there', () => {
  it('makes everything, which openssl verifies, in the order signer, bundle, target', async () => {
    const report = await runRegen(world.options());
    expect(report).toMatchObject({ converged: true, writes: 9 });
    expect(report.artefacts.map(({ artefact, writes, outcome }) => [artefact, writes, outcome])).toEqual(
      world.resolved.artefacts.map(({ name }) => [name, 1, 'written']),
    );
    expect(
      await verify(
        '-CAfile',
        file('ca.crt'),
        '-purpose',
        'sslserver',
        '-verify_hostname',
        'localhost',
        file('serving.crt'),
      ),
    ).toContain('OK');
    expect(
      await verify(
        '-CAfile',
        file('ca.crt'),
        '-untrusted',
        file('client.crt'),
        '-purpose',
        'sslclient',
        file('client.crt'),
      ),
    ).toContain('OK');
    expect(await verify('-CAfile', file('all-ca-copy.crt'), file('client.crt'))).toContain('OK');
    const written = events('signer.regenerated', 'caBundle.updated', 'copy.updated', 'target.regenerated');
    const place = (line: string): number => written.indexOf(line);
    expect(place('signer.regenerated signer')).toBeLessThan(place('caBundle.updated ca'));
    expect(place('caBundle.updated ca')).toBeLessThan(place('target.regenerated serving'));
    expect(place('caBundle.updated all-ca')).toBeLessThan(place('copy.updated all-ca-copy'));
  });

  it('sends the chain with a server, and the intermediate alone with a client', async () => {
    await runRegen(world.options());
    expect([await subjects('serving.crt'), await subjects('client.crt'), await subjects('intermediate.crt')]).toEqual([
      2, 2, 1,
    ]);
  });

  it('makes no key and no write in a dry run, and says what it would do', async () => {
    const report = await runRegen(world.options({ dryRun: true }));
    expect(report).toMatchObject({ converged: true, writes: 0 });
    expect(report.artefacts.map(({ action, reason }) => [action, reason])).toContainEqual(['renew', 'Absent']);
    expect(await readdir(file(''))).toEqual([]);
    expect(events('rotation.decided')).toHaveLength(9);
    expect(events('recovery.started')).toEqual([]);
  });

  it('looks as rarely in a dry run that lasts as the real run would', async () => {
    const stop = new AbortController();
    const clock = movedClock(0);
    let reads = 0;
    const store: Store = {
      read: (...args) => {
        reads += 1;
        if (clock.slept > 600_000) stop.abort();
        return world.store.read(...args);
      },
      write: (...args) => world.store.write(...args),
    };
    await runRegen(world.options({ store, clock, dryRun: true, once: false, signal: stop.signal }));
    expect(events('rotation.decided')).toHaveLength(9);
    expect(reads / world.resolved.artefacts.length).toBeLessThan(30); // twice a minute for ten minutes
  });

  it('never writes key material to a log', async () => {
    await runRegen(world.options());
    expect(world.text.join('')).not.toMatch(/BEGIN|PRIVATE|MII/);
    expect(events('recovery.started', 'recovery.finished')).toHaveLength(2);
  });
});

describe('runRegen() with everything healthy', () => {
  it('writes nothing, however often it looks', async () => {
    await runRegen(world.options());
    const before = await world.bytes();
    const { ino } = await stat(file('serving.crt'));
    expect(await runRegen(world.options())).toMatchObject({ converged: true, writes: 0 });
    expect(await world.bytes()).toEqual(before);
    expect((await stat(file('serving.crt'))).ino).toBe(ino);
  });

  it('renews what is due with the policy of an owner, and keeps the former signer trusted', async () => {
    await runRegen(world.options());
    const before = await world.bytes();
    // 16 days on, the 30-day leaves have less than 15 days left; the 60-day signer has not.
    const policy = { kind: 'BeforeExpiry', graceMs: 0, settleMs: 0 } as const;
    const report = await runRegen(world.options({ policy, clock: movedClock(16 * day) }));
    expect(report.converged).toBe(true);
    const changed = changedRows(before, await world.bytes());
    expect(changed).toContain('serving');
    expect(changed).not.toContain('signer');
  });
});

describe('runRegen() with everything expired', () => {
  beforeEach(async () => {
    await runRegen(world.options());
    await expire({ resolved: world.resolved, store: world.store, now: systemClock.now() });
    world.lines.length = 0;
  });

  it('makes one new generation of each', async () => {
    const before = await world.bytes();
    const report = await runRegen(world.options());
    expect(report).toMatchObject({ converged: true, writes: 9 });
    expect(report.artefacts.every(({ writes }) => writes === 1)).toBe(true);
    expect(changedRows(before, await world.bytes())).toHaveLength(9);
    expect(await verify('-CAfile', file('ca.crt'), file('serving.crt'))).toContain('OK');
    expect(world.lines.find(({ event }) => event === 'recovery.finished')).toMatchObject({ count: 9 });
  });

  it('keeps the kind of key that is replaced', async () => {
    const { keyAlgorithm: _, ...options } = world.options();
    await runRegen(options);
    const { stdout } = await run('openssl', ['x509', '-in', file('serving.crt'), '-noout', '-text']);
    expect(stdout).toContain('P-256');
  });

  it('keeps it also where the key that is replaced belongs to another certificate', async () => {
    const { keyAlgorithm: _, ...options } = world.options();
    await runRegen(options);
    await run('cp', [file('client.key'), file('serving.key')]);
    const keyPool = createKeyPool({ algorithm: { name: 'RSA', bits: 2048 }, size: 1 });
    await runRegen({ ...options, keyPool });
    const { stdout } = await run('openssl', ['x509', '-in', file('serving.crt'), '-noout', '-text']);
    expect(stdout).toContain('P-256');
  });

  it('signs nothing while the clock shows a time before the program was built', async () => {
    const before = await world.bytes();
    const builtAt = new Date(systemClock.now().getTime() + day);
    const report = await runRegen(world.options({ clockFacts: () => ({ builtAt, synchronised: true }) }));
    expect(report).toMatchObject({ converged: true, writes: 0 });
    expect(report.artefacts.map(({ reason }) => reason)).toContain('ClockImplausible');
    expect(await world.bytes()).toEqual(before);
    expect(events('clock.implausible').length).toBeGreaterThan(0);
  });

  it('stops what depends on a failed step, goes on with the rest, and heals when the failure is over', async () => {
    let broken = true;
    const store: Store = {
      read: (...args) => world.store.read(...args),
      write: async (location, ...rest) => {
        const isBundle = location.kind === 'pemFile' && location.file === file('ca.crt');
        if (isBundle && broken) {
          broken = false;
          throw Object.assign(new Error('a foreign error'), { code: 'ENOSPC' });
        }
        return world.store.write(location, ...rest);
      },
    };
    const report = await runRegen(world.options({ store }));
    const skipped = world.lines.filter(
      ({ event, message }) => event === 'rotation.blocked' && message === 'ca was not written',
    );
    expect(skipped.map(({ artefact }) => artefact)).toContain('serving');
    expect(events('rotation.failed')).toEqual(['rotation.failed ca']);
    expect(report.converged).toBe(true);
    expect(await verify('-CAfile', file('ca.crt'), file('serving.crt'))).toContain('OK');
    expect(report.artefacts.find(({ artefact }) => artefact === 'signer')).toMatchObject({ writes: 1 });
  });

  it('that is stopped between two steps is finished by the next run', async () => {
    const stop = new AbortController();
    const store: Store = {
      read: (...args) => world.store.read(...args),
      write: async (location, ...rest) => {
        const outcome = await world.store.write(location, ...rest);
        if (location.kind === 'pemPair' && location.certFile === file('signer.crt')) stop.abort();
        return outcome;
      },
    };
    const first = await runRegen(world.options({ store, signal: stop.signal }));
    expect(first.converged).toBe(false);
    expect(first.artefacts.find(({ artefact }) => artefact === 'ca')).toMatchObject({ outcome: 'skipped', writes: 0 });
    const signer = await world.read('signer');
    expect(await runRegen(world.options())).toMatchObject({ converged: true });
    expect((await world.read('signer'))?.entries).toEqual(signer?.entries);
    expect(await verify('-CAfile', file('ca.crt'), file('serving.crt'))).toContain('OK');
  });

  it('gives up a single run whose writes keep failing, and says why', async () => {
    const store: Store = {
      read: (...args) => world.store.read(...args),
      write: () => Promise.reject(new Error('disk is gone')),
    };
    const report = await runRegen(world.options({ store, clock: movedClock(0) }));
    expect(report).toMatchObject({ converged: false, writes: 0 });
    expect(report.artefacts.find(({ artefact }) => artefact === 'signer')).toMatchObject({
      outcome: 'failed',
      err: 'disk is gone',
    });
  });
});

const isObject = ({ kind }: Location): boolean => kind === 'secret' || kind === 'configMap';

/** Reads of objects fail unless `answers` says otherwise. */
const storeOf = (answers: () => boolean): Store => ({
  read: async (location, ...rest) => {
    if (!isObject(location)) return world.store.read(location, ...rest);
    if (answers()) return undefined;
    throw new RecoveryError('KubeUnavailable', 'connection refused');
  },
  write: (...args) => world.store.write(...args),
});

describe('runRegen() for one pass while the API server is away', () => {
  it.each([
    { dryRun: false, writes: 9 },
    { dryRun: true, writes: 0 },
  ])('gives up after half a minute, the files done (dry run: $dryRun)', async ({ dryRun, writes }) => {
    const options = world.options({ resolved: withObjects(world.resolved), store: storeOf(() => false), dryRun });
    const clock = movedClock(0);
    const report = await runRegen({ ...options, clock });
    expect(options.signal.aborted).toBe(false);
    expect(report).toMatchObject({ converged: false, gaveUp: 'the API server has not answered for 30 s', writes });
    expect(clock.slept).toBeLessThan(35_000);
  });

  it('gives up also when it answers each poll and no look', async () => {
    let reads = 0;
    const { name, artefacts } = withObjects(world.resolved);
    const resolved = { name, artefacts: artefacts.filter((row) => row.name !== 'others') };
    const options = world.options({ resolved, store: storeOf(() => (reads += 1) % 2 === 1) });
    const report = await runRegen({ ...options, clock: movedClock(0) });
    expect(options.signal.aborted).toBe(false);
    expect(report).toMatchObject({ converged: false, writes: 9 });
    expect(report.gaveUp).toBeDefined();
  });
});

describe('runRegen() with something broken', () => {
  beforeEach(() => runRegen(world.options()));

  it.each([
    {
      name: 'a broken certificate',
      harm: () => writeFile(file('serving.crt'), '-----BEGIN CERTIFICATE-----\nAAAA'),
      renewed: ['serving'],
    },
    { name: 'a lost key', harm: () => rm(file('serving.key')), renewed: ['serving'] },
    {
      name: 'a key of somebody else',
      harm: () => run('cp', [file('client.key'), file('serving.key')]),
      renewed: ['serving'],
    },
    { name: 'an emptied copy', harm: () => writeFile(file('all-ca-copy.crt'), ''), renewed: ['all-ca-copy'] },
    { name: 'a lost bundle', harm: () => rm(file('ca.crt')), renewed: ['ca'] },
  ])('repairs $name and leaves the rest alone', async ({ harm, renewed }) => {
    const before = await world.bytes();
    await harm();
    const broken = await world.bytes();
    expect(await runRegen(world.options())).toMatchObject({ converged: true });
    const after = await world.bytes();
    expect(changedRows(broken, after).filter((name) => before[name] !== after[name] || renewed.includes(name))).toEqual(
      expect.arrayContaining(renewed),
    );
    expect(after['signer']).toBe(before['signer']);
    expect(await verify('-CAfile', file('ca.crt'), file('serving.crt'))).toContain('OK');
  });
});

describe('runRegen() that goes on', () => {
  it('looks twice a minute whether something has changed, and stops when it is asked to', async () => {
    const stop = new AbortController();
    const clock = new FakeClock(new Date(systemClock.now().getTime() - 60_000));
    const health = new Health();
    const ended = runRegen(world.options({ once: false, signal: stop.signal, clock, health }));
    await clock.waiting();
    expect(events('recovery.finished')).toHaveLength(1);
    expect(health.report().map(({ name, ok }) => [name, ok])).toEqual([
      ['regen-loop', true],
      ['regen', true],
    ]);
    await rm(file('serving.crt'));
    clock.advance(30_000);
    await clock.waiting(); // it has written, and looks at once whether that is true
    clock.advance(0);
    await clock.waiting();
    expect(events('recovery.finished')).toHaveLength(2);
    stop.abort();
    expect(await ended).toMatchObject({ writes: 10 });
    expect(await verify('-CAfile', file('ca.crt'), file('serving.crt'))).toContain('OK');
  });

  it('writes again soon what has failed once, and ends a recovery, beside a row that is forbidden for good', async () => {
    const stop = new AbortController();
    const clock = movedClock(0);
    const attempts: Date[] = [];
    let reads = 0;
    const store: Store = {
      read: async (location, ...rest) => {
        if (location.kind === 'configMap') return undefined;
        if (location.kind !== 'secret') return world.store.read(location, ...rest);
        reads += 1;
        if (reads === 150) await rm(file('serving.crt'));
        if (reads === 170) stop.abort();
        throw new RecoveryError('KubeForbidden', 'no rights');
      },
      write: async (location, ...rest) => {
        if (reads < 150) return world.store.write(location, ...rest);
        attempts.push(clock.now());
        if (attempts.length === 1) throw new Error('lost');
        return world.store.write(location, ...rest);
      },
    };
    const resolved = withObjects(world.resolved);
    const { signal } = stop;
    await runRegen(world.options({ resolved, store, once: false, signal, clock }));
    const [failed, written] = attempts.map((date) => date.getTime());
    expect(attempts).toHaveLength(2);
    expect((written ?? Infinity) - (failed ?? 0)).toBeLessThan(1000);
    expect(events('recovery.finished')).toHaveLength(2);
  });

  it('refuses to be the second that writes files of this host', async () => {
    const directory = join(world.directory, 'run');
    const lock = await acquireLock({ directory, clock: systemClock });
    const lockDisk = () => acquireLock({ directory, clock: systemClock });
    await expect(runRegen(world.options({ lockDisk }))).rejects.toMatchObject({ code: 'AlreadyRunning' });
    expect(await readdir(file(''))).toEqual([]);
    await lock.release();
    expect(await runRegen(world.options({ lockDisk }))).toMatchObject({ writes: 9 });
    expect(await readdir(directory)).toEqual([]);
  });
});
