import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { lockHost } from '../../lib/host/sole-writer.ts';
import { systemClock } from '../../lib/clock.ts';

let lockDir: string;
beforeEach(async () => {
  lockDir = await mkdtemp(join(tmpdir(), 'lock-host-'));
});
afterEach(() => rm(lockDir, { recursive: true, force: true }));

const lock = (once: boolean, signal = AbortSignal.timeout(30_000)): ReturnType<typeof lockHost> =>
  lockHost({ lockDir, directories: [], once, clock: systemClock, signal, refuseBesideOthers: () => undefined });

it('a single pass waits for another process of ours', async () => {
  const first = await lock(false);
  const second = lock(true);
  await systemClock.sleep(300);
  await first.release();
  await (await second).release();
});

it('a lasting process does not wait, nor does one that is asked to stop', async () => {
  const first = await lock(false);
  await expect(lock(false)).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await expect(lock(true, AbortSignal.abort())).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await first.release();
});
