import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WatchStatus } from '../../lib/kube/list-watch.ts';
import { createLog } from '../../lib/log.ts';
import { CachesSynced, syncSummary, WatchHealth } from '../../lib/syncer/run.ts';

const began = new Date('2026-01-01T00:00:00Z');
const at = (seconds: number): Date => new Date(began.getTime() + seconds * 1000);

describe('WatchHealth', () => {
  const rows: readonly (readonly [string, WatchStatus, Date, boolean])[] = [
    ['is well at the start', { phase: 'listing', lastProgress: undefined }, at(120), true],
    ['is ill when nothing was ever listed', { phase: 'listing', lastProgress: undefined }, at(121), false],
    [
      'is well two minutes after a bookmark',
      { phase: 'watching', resourceVersion: '1', lastProgress: at(60) },
      at(180),
      true,
    ],
    ['is ill later', { phase: 'watching', resourceVersion: '1', lastProgress: at(60) }, at(181), false],
    [
      'is well while a failure is young',
      { phase: 'waiting', attempt: 3, until: at(90), message: 'm', lastProgress: at(60) },
      at(180),
      true,
    ],
    ['says nothing of a watch that was stopped', { phase: 'stopped', lastProgress: at(0) }, at(1000), true],
  ];
  it.each(rows)('%s', (_what, status, now, ok) => {
    const health = new WatchHealth(began);
    health.set('Secret "n/a"', status);
    expect(health.check(now).ok).toBe(ok);
  });

  it('names the objects, ten at most, and why', () => {
    const health = new WatchHealth(began);
    const waiting = { phase: 'waiting', attempt: 9, until: at(200), message: 'Cannot list: 403' } as const;
    for (let index = 0; index < 11; index += 1) health.set(`Secret "n/${index}"`, { ...waiting, lastProgress: at(0) });
    health.set('Secret "n/well"', { phase: 'watching', resourceVersion: '1', lastProgress: at(190) });
    const { ok, message } = health.check(at(200));
    expect(ok).toBe(false);
    expect(message).toMatch(
      /^nothing heard for two minutes of Secret "n\/0", .*Secret "n\/9", and 1 more: Cannot list: 403$/,
    );
  });
});

it('syncSummary() says how many are good, which are not, and which ends first', () => {
  const status = { what: '', published: 'required' } as const;
  const notAfter = new Date('2027-01-01T00:00:00Z');
  const objects = [
    { ...status, name: 'a', state: 'synced', notAfter: new Date('2028-01-01T00:00:00Z') },
    { ...status, name: 'b', state: 'synced', notAfter },
    { ...status, name: 'c', state: 'refused' },
  ] as const;
  expect(syncSummary({ objects, ok: false })).toEqual({
    count: 2,
    message: '2 of 3 objects are on disk as the API has them; not as they should be: c; the first that ends is b',
    artefact: 'b',
    notAfter: '2027-01-01T00:00:00.000Z',
  });
});

let root: string;
let lines: string[];
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'caches-synced-'));
  lines = [];
});
afterEach(() => rm(root, { recursive: true }));

const options = (cachesSyncedFile: string | undefined, dryRun = false) => ({
  cachesSyncedFile,
  dryRun,
  log: createLog({ write: (line) => void lines.push(line) }),
});
const objects = (...states: readonly ('pending' | 'synced' | 'failed')[]) => ({
  objects: states.map((state) => ({ state })),
});

describe('CachesSynced', () => {
  it('makes the file when no object is pending any more', async () => {
    const path = join(root, 'synced');
    const caches = new CachesSynced(options(path));
    caches.count(objects('synced', 'pending'));
    await caches.told;
    await expect(readFile(path)).rejects.toThrow('ENOENT');
    caches.count(objects('synced', 'failed'));
    await caches.told;
    expect(await readFile(path, 'utf8')).toBe('');
  });

  it('makes none in a dry run, and says what kept it from it', async () => {
    const path = join(root, 'absent', 'synced');
    const dry = new CachesSynced(options(path, true));
    dry.count(objects('synced'));
    await dry.told;
    expect(lines).toEqual([]);
    const caches = new CachesSynced(options(path));
    caches.count(objects('synced'));
    caches.count(objects('synced'));
    await caches.told;
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('ENOENT');
  });
});
