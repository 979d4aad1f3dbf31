import { spawn, spawnSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock as clock } from '../../lib/clock.ts';
import { acquireLock } from '../../lib/host/lock.ts';

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

/** A socket that nobody listens on any more: its process was killed. */
async function deadSocket(path: string, ageMs: number): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const listen = `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`;
  spawnSync(process.execPath, ['-e', listen, path]);
  const then = new Date(clock.now().getTime() - ageMs);
  await utimes(path, then, then);
}

it('acquireLock() removes what a process left that was killed before its socket had a name', async () => {
  const young = '.1111111111111111.sock';
  await deadSocket(join(directory, '.0123456789abcdef.sock'), 3_600_000);
  await deadSocket(join(directory, young), -3_600_000); // its process may just be about to listen
  const lock = await acquireLock({ directory, clock });
  expect((await readdir(directory)).filter((name) => name.startsWith('.'))).toEqual([young]);
  await lock.release();
});

it('acquireLock() says which socket it may not ask, and what to do', async () => {
  const held = join(directory, '0123456789abcdef.sock');
  await deadSocket(held, 0);
  await chmod(held, 0o000);
  const program = `
    import { acquireLock } from ${JSON.stringify(join(import.meta.dirname, '../../lib/host/lock.ts'))};
    import { systemClock as clock } from ${JSON.stringify(join(import.meta.dirname, '../../lib/clock.ts'))};
    await acquireLock({ directory: ${JSON.stringify(directory)}, clock }).catch((err) => console.log(err.message));
  `;
  // Without the capability that opens everything to root.
  const args = ['--input-type=module-typescript', '-e', program];
  const isRoot = process.getuid?.() === 0;
  const { stdout } = isRoot
    ? spawnSync('setpriv', ['--bounding-set=-all', process.execPath, ...args], { encoding: 'utf8' })
    : spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stdout).toContain(`ask who holds the lock "${held}" (EACCES; SELinux?); give both processes one label, or`);
});

it('acquireLock() is not stopped by what a killed process left', async () => {
  const program = `
    import { acquireLock } from ${JSON.stringify(join(import.meta.dirname, '../../lib/host/lock.ts'))};
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

it('confirm() takes a lock again that was taken away, and lets the process that has it meanwhile write', async () => {
  const lock = await acquireLock({ directory, clock });
  await lock.confirm();
  const own = await readdir(directory);
  await rm(directory, { recursive: true });
  await Promise.all([lock.confirm(), lock.confirm()]);
  expect(await readdir(directory)).toHaveLength(1);
  expect(await readdir(directory)).not.toEqual(own);
  await expect(acquireLock({ directory, clock })).rejects.toMatchObject({ code: 'AlreadyRunning' });

  await rm(directory, { recursive: true });
  const other = await acquireLock({ directory, clock });
  await expect(lock.confirm()).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await expect(lock.confirm()).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await other.confirm();
  await other.release();
  await lock.confirm();
  await lock.release();
  expect(await readdir(directory)).toEqual([]);
});

it('confirm() sees that another directory lies where its own was, and that its socket alone has gone', async () => {
  const lock = await acquireLock({ directory, clock });
  await rename(directory, `${directory}.away`);
  await mkdir(directory, { mode: 0o700 });
  await lock.confirm();
  expect(await readdir(directory)).toHaveLength(1);
  for (const name of await readdir(directory)) await rm(join(directory, name));
  await lock.confirm();
  await expect(acquireLock({ directory, clock })).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await lock.release();
});
