// What people are told of one object. The API is a function here: what it answers is not what is tested.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import type { ApiObject } from '../../lib/syncer/material.ts';
import { ObjectSync } from '../../lib/syncer/object-sync.ts';
import { Room } from '../../lib/syncer/room.ts';
import type { SyncedObject } from '../../lib/syncer/synced-objects.ts';
import { FakeClock } from '../support/fake-clock.ts';

let directory: string;
let clock: FakeClock;
let lines: Record<string, unknown>[];
let events: string[];
let counted: string[];
let inApi: ApiObject | undefined;
/** While the API is asked. */
let meanwhile: () => Promise<void>;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'object-sync-'));
  [clock, lines, events, counted, inApi] = [new FakeClock(), [], [], [], undefined];
  meanwhile = () => Promise.resolve();
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const request = async ({ path }: { readonly path: string }): Promise<unknown> => {
  if (path.includes('?')) return { items: [] };
  await meanwhile();
  if (inApi === undefined) throw new RecoveryError('KubeNotFound', 'absent');
  return inApi;
};

function syncOf(isMade: boolean, signal = new AbortController().signal): ObjectSync {
  const object: SyncedObject = {
    name: 'x',
    location: { kind: 'configMap', namespace: 'a', name: 'x' },
    published: 'required',
    expects: { kind: 'opaque' },
    directory: join(directory, 'configmaps', 'x'),
    mode: 0o644,
    what: 'ConfigMap "a/x"',
    isMade,
  };
  return new ObjectSync({
    object,
    connection: { request } as unknown as KubeConnection,
    clock,
    dryRun: false,
    hold: () => Promise.resolve(),
    room: new Room(1),
    log: createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
    events: { record: ({ reason }) => void events.push(reason) },
    metrics: {
      wrote: (mode, result) => void counted.push(`${mode} ${result}`),
      failed: (mode, code) => void counted.push(`${mode} ${code}`),
    },
    signal,
  });
}

const content = (text: string, resourceVersion: string): ApiObject => ({
  metadata: { resourceVersion },
  data: { key: text },
});
const told = (): string[] => lines.map(({ level, event }) => `${String(level)} ${String(event)}`);
async function pass(sync: ObjectSync, object: ApiObject | undefined): Promise<void> {
  inApi = object;
  await sync.pass({ version: object?.metadata?.resourceVersion });
}

it('what regen makes is asked of nobody at once, and of somebody when regen has not made it', async () => {
  const sync = syncOf(true);
  await pass(sync, undefined);
  expect(told()).toEqual(['info sync.refused']);
  expect(lines[0]?.['message']).toContain('there are no files of it either; mode regen makes it');
  expect({ events, counted }).toEqual({ events: [], counted: [] });
  expect(sync.status.state).toBe('kept');
  clock.advance(60_000);
  await pass(sync, undefined);
  expect(told()).toEqual(['info sync.refused', 'warn sync.refused']);
  expect(lines[1]?.['message']).toContain('mode regen makes it, and has not for 30 s: see its log');
  clock.advance(60_000);
  await pass(sync, undefined);
  expect(told()).toHaveLength(2);
  expect({ events, counted }).toEqual({ events: ['CertificateUpdateFailed'], counted: ['syncer missing'] });
  await pass(sync, content('one', '1'));
  expect(told().at(-1)).toBe('info sync.written');
  expect(counted.at(-1)).toBe('syncer written');
});

/** The loop of an object that has been published, and its file. */
async function published() {
  const ended = new AbortController();
  const sync = syncOf(false, ended.signal);
  inApi = content('one', '1');
  sync.offer('1');
  const running = sync.run();
  await clock.waiting();
  const stop = async (): Promise<void> => {
    ended.abort();
    await running;
  };
  return { sync, path: join(directory, 'configmaps', 'x', 'key'), stop };
}

it.each([
  ['the destination', () => directory],
  ['the directory of the object', () => join(directory, 'configmaps', 'x')],
  ['one file', () => join(directory, 'configmaps', 'x', 'key')],
  ['the content of one file', () => join(directory, 'configmaps', 'x', '..data', 'key')],
])('look() wakes the loop of an object where %s has vanished, long before the recheck', async (_, gone) => {
  const { sync, path, stop } = await published();
  expect(await readFile(path, 'utf8')).toBe('one');
  for (const wakes of [true, false]) {
    sync.look();
    await setImmediate();
    // Once for what the pass itself has written, then nothing has happened.
    if (wakes) await clock.waiting();
    else expect(clock.sleeping).toBe(1);
  }
  await rm(gone(), { recursive: true });
  sync.look();
  while (lines.filter(({ event }) => event === 'sync.written').length < 2) await setImmediate();
  expect(await readFile(path, 'utf8')).toBe('one');
  await stop();
});

it('look() wakes the loop of an object whose file has vanished while its pass was asking the API', async () => {
  const { sync, path, stop } = await published();
  meanwhile = async () => {
    meanwhile = () => Promise.resolve();
    await rm(path);
  };
  inApi = content('one', '2');
  sync.offer('2');
  while (sync.status.resourceVersion !== '2') await setImmediate();
  await clock.waiting();
  sync.look();
  await setImmediate();
  await clock.waiting();
  expect(await readFile(path, 'utf8').catch(String)).toBe('one');
  await stop();
});

it.each([
  ['its version', '1'],
  ['the version of a list, which is newer', '5000'],
])('what vanishes while the API is away comes back at once, where the last list told %s', async (_, version) => {
  const { sync, path, stop } = await published();
  sync.look(); // the pass that confirms the write
  await setImmediate();
  await clock.waiting();
  meanwhile = () => Promise.reject(new RecoveryError('KubeUnavailable', 'away'));
  sync.offer(version);
  await clock.waiting();
  while (sync.status.state !== (version === '1' ? 'synced' : 'failed')) await setImmediate();
  await rm(join(directory, 'configmaps', 'x'), { recursive: true });
  while (lines.filter(({ event }) => event === 'sync.written').length < 2) {
    sync.look();
    await setImmediate();
  }
  expect(await readFile(path, 'utf8').catch(String)).toBe('one');
  // The version that was told is still read.
  [meanwhile, inApi] = [() => Promise.resolve(), content('two', '5000')];
  sync.offer('5000');
  while (sync.status.resourceVersion !== '5000') await setImmediate();
  expect(await readFile(path, 'utf8')).toBe('two');
  await stop();
});

it('a directory that is taken away because a file belongs there is told, with how much lay in it', async () => {
  const path = join(directory, 'configmaps', 'x', 'key');
  await mkdir(join(path, 'deep'), { recursive: true });
  await writeFile(join(path, 'deep', 'a'), '');
  await writeFile(join(path, 'b'), '');
  await pass(syncOf(false), content('one', '1'));
  expect(await readFile(path, 'utf8')).toBe('one');
  expect(told()).toEqual(['warn sync.repaired', 'info sync.written']);
  expect(lines[0]).toMatchObject({
    path,
    message:
      'a directory lay where a file belongs: it was taken away, 3 files and directories with it; no copy is kept',
  });
});

it('what nobody here makes is demanded at once', async () => {
  await pass(syncOf(false), undefined);
  expect(told()).toEqual(['warn sync.refused']);
  expect(lines[0]?.['message']).toContain('create it');
  expect(events).toEqual(['CertificateUpdateFailed']);
});

it('what was stuck and is good again is one line, also where nothing had to be written', async () => {
  const sync = syncOf(false);
  await pass(sync, content('one', '1'));
  await pass(sync, undefined);
  await pass(sync, content('one', '2'));
  await pass(sync, content('one', '2'));
  expect(told()).toEqual(['info sync.written', 'warn sync.refused', 'info sync.resolved']);
  expect(counted).toEqual(['syncer written', 'syncer missing']);
});

it('look() wakes the loop where the same directory vanishes again right after it was put back', async () => {
  const { sync, path, stop } = await published();
  const written = (): number => lines.filter(({ event }) => event === 'sync.written').length;
  for (const times of [1, 2, 3]) {
    while (written() < times) await setImmediate();
    await clock.waiting();
    await rm(join(directory, 'configmaps'), { recursive: true });
    while (written() === times) {
      sync.look();
      await setImmediate();
    }
    expect(await readFile(path, 'utf8').catch(String)).toBe('one');
  }
  await stop();
});
