import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { keepObserved, readObserved } from '../../lib/restart/machine-lease.ts';

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'turn-'));
  path = join(directory, 'seen');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('is known to the next process of the same boot', async () => {
  expect(await readObserved(path)).toBeUndefined();
  await keepObserved(path, { version: '123', sinceMs: 4567.8 });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readObserved(path)).toEqual({ version: '123', sinceMs: 4567 });
});

it('is nothing of another boot, and nothing when somebody has written what is none', async () => {
  await keepObserved(path, { version: '123', sinceMs: 4567 });
  const kept = await readFile(path, 'utf8');
  await writeFile(path, kept.replace(/^\S+/, '00000000-0000-0000-0000-000000000000'));
  expect(await readObserved(path)).toBeUndefined();
  for (const other of ['', ' 123 4567', kept.replace('4567', 'soon'), 'x']) {
    await writeFile(path, other);
    expect(await readObserved(path), other).toBeUndefined();
  }
});
