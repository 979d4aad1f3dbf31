import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { DestinationLock } from '../../lib/syncer/destination-lock.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'destination-lock-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

it.each(['certs', `${'deep/'.repeat(30)}certs`])('hold() lets one syncer in at a time: %s', async (path) => {
  const destination = join(root, path);
  const first = new DestinationLock(destination, systemClock);
  await first.hold();
  expect((await stat(destination)).mode & 0o777).toBe(0o755);
  const second = new DestinationLock(destination, systemClock);
  await expect(second.hold()).rejects.toMatchObject({
    code: 'AlreadyRunning',
    message: expect.stringContaining(`Cannot write files below "${destination}"`) as string,
  });
  await first.release();
  await second.hold();
  await second.release();
});
