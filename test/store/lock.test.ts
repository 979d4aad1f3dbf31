import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock as clock } from '../../lib/clock.ts';
import { acquireLock } from '../../lib/store/lock.ts';

let root: string;
let directory: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'lock-'));
  directory = join(root, 'run');
});
afterEach(() => rm(root, { recursive: true, force: true }));

it('acquireLock() refuses a second holder and lets the next in after release', async () => {
  const lock = await acquireLock({ directory, clock });
  await expect(acquireLock({ directory, clock })).rejects.toMatchObject({
    code: 'AlreadyRunning',
    message: expect.stringContaining(directory) as string,
  });
  await lock.release();
  expect(await readdir(directory)).toEqual([]);
  const again = await acquireLock({ directory, clock });
  await again.release();
});

it('acquireLock() keeps everybody else out of its directory', async () => {
  const lock = await acquireLock({ directory, clock });
  expect((await stat(directory)).mode & 0o777).toBe(0o700);
  await lock.release();
  await chmod(directory, 0o755);
  const again = await acquireLock({ directory, clock });
  expect((await stat(directory)).mode & 0o777).toBe(0o700);
  await again.release();
});

it('acquireLock() gives the lock to exactly one of many that start together', async () => {
  for (let round = 0; round < 20; round += 1) {
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => acquireLock({ directory, clock })));
    const locks = results.filter((result) => result.status === 'fulfilled').map(({ value }) => value);
    expect(locks).toHaveLength(1);
    for (const lock of locks) await lock.release();
  }
});

it('acquireLock() is not stopped by what a killed process left', async () => {
  const program = `
    import { acquireLock } from ${JSON.stringify(join(import.meta.dirname, '../../lib/store/lock.ts'))};
    import { systemClock as clock } from ${JSON.stringify(join(import.meta.dirname, '../../lib/clock.ts'))};
    await acquireLock({ directory: ${JSON.stringify(directory)}, clock });
    process.stdout.write('held');
    setInterval(() => undefined, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  await expect(acquireLock({ directory, clock })).rejects.toMatchObject({ code: 'AlreadyRunning' });
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
  expect(await readdir(directory)).toHaveLength(1);
  const lock = await acquireLock({ directory, clock });
  expect(await readdir(directory)).toHaveLength(1);
  await lock.release();
});
