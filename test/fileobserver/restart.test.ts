// From files to a restart: the whole observer on real files, the reaction to it on a real process with the name of a
// component. The machine may run others of that name: only what a test has started is shown to the reaction.
import { copyFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { runFileObserver } from '../../lib/fileobserver/run.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { processesInPod } from '../../lib/restart/processes.ts';
import { PodRestarter } from '../../lib/restart/pod-restarts.ts';
import { isGone, Processes } from '../restart/processes.ts';
import { soon, TemporaryDirectory } from './observation.ts';

const component = 'kube-controller-manager';
const names = ['root-ca', 'service-account', 'etcd-ca', 'request-ca'];

let directory: TemporaryDirectory;
let processes: Processes;
let pids: number[];
let events: unknown[];
beforeEach(async () => {
  directory = new TemporaryDirectory();
  processes = new Processes();
  pids = [];
  events = [];
  for (const name of names) await writeFile(at(name), 'first');
  await tick();
});
afterEach(async () => {
  await processes[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

const at = (name: string): string => join(directory.path, name);
/** Longer than the kernel's clock tick, by which starts of processes and times of files are told apart. */
const tick = (): Promise<void> => delay(30);

async function start(): Promise<{ readonly pid: number }> {
  const { pid = 0 } = await processes.start({ name: component, file: '/none' });
  pids.push(pid);
  return { pid };
}

async function replace(name: string, content: string): Promise<void> {
  await writeFile(at(`.${name}`), content);
  await rename(at(`.${name}`), at(name));
}

/** The observer and its reaction until the end of the test. */
function observe(quietMs = 600): AsyncDisposable {
  const stop = new AbortController();
  const log = createLog({ write: (line) => void events.push((JSON.parse(line) as { event: string }).event) });
  const shared = { clock: systemClock, log, signal: stop.signal };
  const reaction = new PodRestarter({
    ...shared,
    component,
    manifest: undefined,
    hasShortBackOff: true,
    isApiReady: async () => true,
    processes: (name) => processesInPod(name).filter(({ pid }) => pids.includes(pid)),
    pace: { quietMs },
  });
  const running = Promise.all([
    reaction.run(),
    runFileObserver({
      ...shared,
      resolved: { name: 'test', artefacts: names.map(artefact) },
      destinationDir: directory.path,
      prove: async () => ({ state: 'proven', message: 'not asked', at: new Date() }),
      restart: (change) => reaction.notice(change),
    }),
  ]);
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
    },
  };
}

const artefact = (name: string): ResolvedArtefact => ({
  kind: 'opaque',
  name,
  location: { kind: 'pemFile', file: at(name) },
  readers: [{ component, needs: 'restart', proof: { kind: 'none' } }],
});

test('changes of four artefacts within a second end their reader once', async () => {
  const first = await start();
  await tick();
  await using _ = observe(3_000);
  await delay(300);
  for (const name of names) {
    await replace(name, 'second');
    await delay(200);
    expect(await isGone(first.pid)).toBe(false);
  }
  await expect.poll(() => isGone(first.pid), { interval: 20, timeout: 30_000 }).toBe(true);
  const second = await start();
  await soon(() => events.filter((event) => event === 'restart.done').length).toBe(1);
  await delay(4_000);
  expect(await isGone(second.pid)).toBe(false);
  expect(events).not.toContain('reaction.failed');
});

test('a reader that is younger than its files is left alone, whatever is touched but not changed', async () => {
  const first = await start();
  await using _ = observe();
  await delay(1_000);
  await copyFile(at('root-ca'), at('.copy'));
  await rename(at('.copy'), at('root-ca'));
  await delay(1_200);
  expect(await isGone(first.pid)).toBe(false);
  expect(events).toEqual([]);
});

test('a reader that is older than files which were there when the observer started is ended', async () => {
  const first = await start();
  await tick();
  await replace('etcd-ca', 'second');
  await using _ = observe();
  await expect.poll(() => isGone(first.pid), { interval: 20, timeout: 30_000 }).toBe(true);
  await start();
  await soon(() => events).toContain('restart.done');
});
