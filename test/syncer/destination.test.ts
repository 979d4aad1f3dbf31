import { chmodSync, mkdtempSync, statSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { directoryPath } from '../../lib/inventory/values.ts';
import { createLog } from '../../lib/log.ts';
import { Destination, repairParent } from '../../lib/syncer/destination.ts';

const options = { clock: systemClock, log: createLog({ write: () => undefined }) };

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'destination-lock-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

it.each(['certs', `${'deep/'.repeat(30)}certs`])('hold() lets one syncer in at a time: %s', async (path) => {
  const destination = join(root, path);
  const first = new Destination(destination, options);
  await first.hold();
  expect((await stat(destination)).mode & 0o777).toBe(0o755);
  const second = new Destination(destination, options);
  await expect(second.hold()).rejects.toMatchObject({
    code: 'AlreadyRunning',
    message: expect.stringContaining(`Cannot write files below "${destination}"`) as string,
  });
  await first.release();
  await second.hold();
  await second.release();
});

test('hold() takes the lock again that was deleted with its directory, and refuses where another syncer has come', async () => {
  const destination = join(root, 'certs');
  const [first, second] = [new Destination(destination, options), new Destination(destination, options)];
  await first.hold();
  await rm(destination, { recursive: true });
  await first.hold();
  await expect(second.hold()).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await rm(destination, { recursive: true });
  await second.hold();
  await expect(first.hold()).rejects.toMatchObject({ code: 'AlreadyRunning' });
  await second.release();
  await first.hold();
  await first.release();
});

// As the configuration takes it: syncer.destinationDir, --destination-dir.
test.each([
  ['/etc/kubernetes/static-pod-certs', true],
  ['certs', false],
  ['', false],
  ['/certs/../etc', false],
  ['/certs/\0', false],
  ['/', false],
  ['//', false],
])('destination directory %j: %s', (path, isTaken) => {
  expect(directoryPath.safeParse(path).success).toBe(isTaken);
});

describe('repairParent()', () => {
  // Root with all capabilities is refused nothing.
  const isRoot = process.geteuid?.() === 0;
  beforeAll(() => {
    if (isRoot) process.seteuid?.(65_534);
  });
  afterAll(() => {
    if (isRoot) process.seteuid?.(0);
  });
  const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

  const newParent = (mode: string): string => {
    const directory = mkdtempSync(join(tmpdir(), 'parent-'));
    chmodSync(directory, Number.parseInt(mode, 8));
    return directory;
  };

  test.each([
    ['777', '755'],
    ['775', '755'],
    ['770', '750'],
    ['600', '755'],
    ['0', '755'],
    ['500', '700'],
  ])('turns %s into %s', async (mode, wanted) => {
    const directory = newParent(mode);
    expect((await repairParent({ directory, what: 'directory' }))?.toString(8)).toBe(mode);
    expect(modeOf(directory)).toBe(wanted);
    expect(await repairParent({ directory, what: 'directory' })).toBeUndefined();
  });

  test.each(['755', '750', '700', '711', '1777'])('leaves %s', async (mode) => {
    const directory = newParent(mode);
    expect(await repairParent({ directory, what: 'directory' })).toBeUndefined();
    expect(modeOf(directory)).toBe(mode);
  });

  test('leaves what belongs to somebody else, and what is not there', async () => {
    const directory = newParent('777');
    expect(await repairParent({ directory: join(directory, 'absent'), what: 'directory' })).toBeUndefined();
    const foreign = (async (at: string) => Object.assign(statSync(at), { uid: 12 })) as unknown as Disk['stat'];
    expect(await repairParent({ directory, what: 'directory', disk: { ...realDisk, stat: foreign } })).toBeUndefined();
    expect(modeOf(directory)).toBe('777');
  });
});
