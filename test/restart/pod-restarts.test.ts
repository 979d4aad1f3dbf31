// Reactions on real processes with the name of a component. The machine may run others of that name, which are not ours:
// only what a test has started is shown to the reaction.
import { mkdtemp, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { createLog } from '../../lib/log.ts';
import { processesInPod } from '../../lib/restart/processes.ts';
import type { ProcessId } from '../../lib/host/proc.ts';
import { inputsAnnotation } from '../../lib/restart/manifest.ts';
import { type InputChange, type PodRestartOptions, PodRestarter } from '../../lib/restart/pod-restarts.ts';
import { isGone, Processes } from './processes.ts';

const component = 'kube-controller-manager';
const manifestText = `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${component}\nspec:\n  containers:\n  - name: ${component}\n`;

let directory: string;
let processes: Processes;
let lines: Record<string, unknown>[];
let pids: number[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'reactions-'));
  processes = new Processes();
  lines = [];
  pids = [];
});
afterEach(async () => {
  await processes[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const soon = <T>(read: () => T | Promise<T>) => expect.poll(read, { interval: 20, timeout: 8_000 });
const ours = (name: string): readonly ProcessId[] => processesInPod(name).filter(({ pid }) => pids.includes(pid));
const events = (event: string): Record<string, unknown>[] => lines.filter((line) => line['event'] === event);

async function start() {
  const child = await processes.start({ name: component, file: '/none' });
  const pid = child.pid ?? 0;
  pids.push(pid);
  return { pid, isGone: () => isGone(pid), signal: () => child.signalCode };
}

/** Longer than a clock tick of the kernel, by which starts of processes and times of files are told apart. */
const tick = (): Promise<void> => delay(30);

const now = (artefact: string, digest = artefact): InputChange => ({
  artefact,
  digest,
  changedAt: new Date(),
  since: 'changed',
});

class Running implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly reaction: PodRestarter;
  readonly #running: Promise<void>;

  constructor(options: Partial<PodRestartOptions> = {}) {
    this.reaction = new PodRestarter({
      component,
      manifest: undefined,
      hasShortBackOff: true,
      isApiReady: async () => true,
      clock: systemClock,
      log: createLog({ write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) }),
      signal: this.#stop.signal,
      processes: ours,
      ...options,
      pace: {
        quietMs: 150,
        gatherMs: 2_000,
        firstMs: 20,
        mostMs: 50,
        boundMs: 300,
        successorMs: 4_000,
        ...options.pace,
      },
    });
    this.#running = this.reaction.run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

describe('after changes of its inputs', () => {
  it('ends the component once, when no more changes come, and tells when it runs again', async () => {
    const first = await start();
    await tick();
    await using running = new Running({ pace: { quietMs: 3_000 } });
    for (let change = 1; change <= 8; change += 1) {
      running.reaction.notice(now(`artefact-${change}`));
      await delay(50);
      expect(await first.isGone()).toBe(false);
    }
    await soon(first.isGone).toBe(true);
    expect(first.signal()).toBe('SIGTERM');
    expect(events('restart.done')).toEqual([]);
    const second = await start();
    await soon(() => events('restart.done')).toHaveLength(1);
    expect(events('restart.done')[0]).toMatchObject({
      component,
      message: expect.stringMatching(
        `^SIGTERM to process ${first.pid}, which ran \\d+ s; ${second.pid} runs$`,
      ) as string,
    });
    await delay(3_500);
    expect(await second.isGone()).toBe(false);
    expect(events('reaction.failed')).toEqual([]);
  });

  it('does not wait for ever when changes never end', async () => {
    const first = await start();
    await tick();
    await using running = new Running({ pace: { gatherMs: 400 } });
    const began = performance.now();
    for (let change = 1; !(await first.isGone()) && performance.now() - began < 5_000; change += 1) {
      running.reaction.notice(now('artefact', String(change)));
      await delay(40);
    }
    expect(await first.isGone()).toBe(true);
    expect(performance.now() - began).toBeGreaterThanOrEqual(400);
    await start();
  });

  it('restarts again for contents that come after a restart, also for those of before', async () => {
    const first = await start();
    await tick();
    await using running = new Running();
    for (const [index, digest] of ['b', 'a', 'b'].entries()) {
      running.reaction.notice(now('artefact', digest));
      await soon(() => ours(component).length).toBe(0);
      await start();
      await soon(() => events('restart.done').length).toBe(index + 1);
      await tick();
    }
    expect(await first.isGone()).toBe(true);
  });

  it('leaves a process alone that started after the files were written', async () => {
    const written = new Date();
    await tick();
    const first = await start();
    await using running = new Running();
    running.reaction.notice({ artefact: 'found', digest: '1', changedAt: written, since: 'found' });
    running.reaction.notice({ artefact: 'other', digest: '1', changedAt: new Date(0), since: 'found' });
    await delay(600);
    expect(await first.isGone()).toBe(false);
    expect(lines).toEqual([]);
  });

  it('restarts one that started before files that were found', async () => {
    const first = await start();
    await tick();
    const written = new Date();
    await using running = new Running();
    running.reaction.notice({ artefact: 'found', digest: '1', changedAt: written, since: 'found' });
    await soon(first.isGone).toBe(true);
    await start();
  });

  it('waits for the API server, without which the component would end again at once', async () => {
    const first = await start();
    await tick();
    let isReady = false;
    await using running = new Running({ isApiReady: async () => isReady });
    running.reaction.notice(now('artefact'));
    await soon(() => events('reaction.failed')).toHaveLength(1);
    expect(events('reaction.failed')[0]).toMatchObject({
      reason: 'RestartFailed',
      message: expect.stringContaining('is not restarted before the API server is ready') as string,
    });
    expect(await first.isGone()).toBe(false);
    isReady = true;
    await soon(first.isGone).toBe(true);
    await start();
    await soon(() => events('restart.done')).toHaveLength(1);
    expect(events('reaction.failed')).toHaveLength(1);
  });

  it('reports once that nobody starts the component again', async () => {
    const first = await start();
    await tick();
    await using running = new Running({ pace: { successorMs: 400 } });
    running.reaction.notice(now('artefact'));
    await soon(first.isGone).toBe(true);
    await soon(() => events('reaction.failed')).toHaveLength(1);
    await delay(500);
    expect(events('reaction.failed')).toHaveLength(1);
    expect(events('reaction.failed')[0]?.['message']).toMatch(/no new process has come within 0\.4 s/);
    await start();
    await delay(300);
    expect(ours(component).length).toBe(1); // it read the new files
  });

  it('reports at once what is not for it to restart', async () => {
    await using running = new Running({ component: 'etcd', pace: { boundMs: 3_600_000 } });
    running.reaction.notice(now('etcd-ca'));
    await soon(() => events('reaction.failed')).toHaveLength(1);
    expect(events('reaction.failed')[0]).toMatchObject({ component: 'etcd', reason: 'RestartNeeded' });
  });
});

describe('with a manifest', () => {
  const withManifest = async (): Promise<string> => {
    const path = join(directory, `${component}.yaml`);
    await writeFile(path, manifestText);
    return path;
  };

  it('rewrites it once for a pod that has not run long, and sends no signal', async () => {
    const manifest = await withManifest();
    const first = await start();
    await tick();
    await using running = new Running({ manifest, hasShortBackOff: false });
    running.reaction.notice(now('one'));
    running.reaction.notice(now('two'));
    await soon(() => readFile(manifest, 'utf8')).toContain(inputsAnnotation(component));
    const { ino } = await stat(manifest);
    await delay(300);
    expect(await first.isGone()).toBe(false);
    process.kill(first.pid, 'SIGKILL'); // as the kubelet does with the pod
    const next = await start();
    await soon(() => events('restart.done').length).toBe(2); // rewritten; runs again
    await delay(300);
    expect((await stat(manifest)).ino).toBe(ino);
    expect(await next.isGone()).toBe(false);
  });

  it('signals where the manifest has that hash already', async () => {
    const manifest = await withManifest();
    const first = await start();
    await tick();
    const options = { manifest, hasShortBackOff: false, pace: { successorMs: 300 } };
    {
      await using running = new Running(options);
      running.reaction.notice(now('one'));
      await soon(() => events('restart.done')).toHaveLength(1);
    }
    const { ino } = await stat(manifest);
    await using running = new Running(options);
    running.reaction.notice(now('one'));
    await soon(first.isGone).toBe(true);
    expect(first.signal()).toBe('SIGTERM');
    expect((await stat(manifest)).ino).toBe(ino);
    await start();
  });

  it('signals where the manifest is refused, and says why', async () => {
    const manifest = await withManifest();
    await writeFile(manifest, manifestText.replaceAll(component, 'etcd'));
    await utimes(manifest, 1, 1);
    const first = await start();
    await tick();
    await using running = new Running({ manifest, hasShortBackOff: false });
    running.reaction.notice(now('one'));
    await soon(first.isGone).toBe(true);
    expect(events('restart.failed')).toEqual([
      expect.objectContaining({
        level: 'warn',
        code: 'MaterialInvalid',
        err: expect.stringContaining(`it has no container "${component}"`) as string,
      }),
    ]);
    expect((await stat(manifest)).mtimeMs).toBe(1000);
    await start();
  });
});

describe('with the restart Lease', () => {
  function leaseOf(taken: string[], isFree: () => boolean): NonNullable<PodRestartOptions['lease']> {
    return {
      acquire: async () => {
        if (!isFree()) throw new RecoveryError('KubeConflict', 'Cannot take Lease: it is held by "node2"');
        taken.push('taken');
      },
      giveBack: async () => void taken.push('given back'),
      release: async () => void taken.push('given back'),
    };
  }

  it('gives it back later where the API server has refused that', async () => {
    const first = await start();
    await tick();
    const taken: string[] = [];
    const giveBack = async (): Promise<never> => {
      taken.push('refused');
      throw new RecoveryError('KubeUnavailable', 'Cannot update Lease: etcd has no leader');
    };
    await using running = new Running({ lease: { ...leaseOf(taken, () => true), giveBack } });
    running.reaction.notice(now('one'));
    await soon(first.isGone).toBe(true);
    await start();
    await soon(() => taken).toEqual(['taken', 'refused', 'given back']);
  });

  it('ends the component while it holds the Lease only, and gives that back when the next process is ready', async () => {
    const first = await start();
    await tick();
    const taken: string[] = [];
    let isFree = false;
    let isReady = true;
    await using running = new Running({ lease: leaseOf(taken, () => isFree), isApiReady: async () => isReady });
    running.reaction.notice(now('one'));
    await delay(700);
    expect(await first.isGone()).toBe(false);
    expect(lines).toEqual([]); // no failure: another machine holds it
    isFree = true;
    await soon(first.isGone).toBe(true);
    isReady = false;
    await start();
    await delay(300);
    expect(taken).toEqual(['taken']);
    isReady = true;
    await soon(() => taken).toEqual(['taken', 'given back']);
    expect(events('restart.done')).toHaveLength(1);
  });

  it('gives back what an earlier container of the pod has taken, once the API server is ready', async () => {
    await start();
    const taken: string[] = [];
    let isReady = false;
    await using running = new Running({ lease: leaseOf(taken, () => true), isApiReady: async () => isReady });
    running.reaction.notice({ artefact: 'a', digest: '1', changedAt: new Date(0), since: 'found' });
    await delay(400);
    expect(taken).toEqual([]);
    isReady = true;
    await soon(() => taken).toEqual(['given back']);
  });

  it('is given back when there is nothing left to do, and kept while nobody comes back', async () => {
    const first = await start();
    await tick();
    const taken: string[] = [];
    await using running = new Running({ lease: leaseOf(taken, () => true), pace: { successorMs: 300 } });
    running.reaction.notice(now('one'));
    await soon(first.isGone).toBe(true);
    await soon(() => events('reaction.failed')).toHaveLength(1);
    expect(taken).toEqual(['taken']);
    await start();
    await soon(() => taken).toEqual(['taken', 'given back']);
  });
});
