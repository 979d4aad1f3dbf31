import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLog } from '../../lib/log.ts';
import { CachesSynced, syncSummary } from '../../lib/syncer/run.ts';

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
