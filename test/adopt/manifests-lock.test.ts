import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { requireManifestsFree, withManifestsLock } from '../../lib/adopt/manifests-lock.ts';
import { systemClock } from '../../lib/clock.ts';

let lockDir: string;
beforeEach(async () => {
  lockDir = await mkdtemp(join(tmpdir(), 'manifests-lock-'));
});
afterEach(() => rm(lockDir, { recursive: true, force: true }));

it('requireManifestsFree() says while somebody changes the manifests that it is so, and holds nothing itself', async () => {
  const locking = { lockDir, clock: systemClock, refuseBesideOthers: () => undefined };
  await withManifestsLock(locking, async () => {
    await expect(requireManifestsFree(locking)).rejects.toMatchObject({ code: 'AlreadyRunning' });
  });
  await requireManifestsFree(locking);
  expect(await withManifestsLock(locking, () => Promise.resolve('ours'))).toBe('ours');
});
