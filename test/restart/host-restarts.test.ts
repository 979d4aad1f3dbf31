// Real processes with the names and flags of components, real markers, real signals.
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Clock, systemClock } from '../../lib/clock.ts';
import type { Location } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { restartProcess } from '../../lib/restart/processes.ts';
import type { Component } from '../../lib/restart/decide.ts';
import type { ComponentName } from '../../lib/components.ts';
import { createMarkingStore, Markers } from '../../lib/restart/markers.ts';
import { bootId, startOf } from '../../lib/host/proc.ts';
import { RunState } from '../../lib/host/state.ts';
import type * as systemd from '../../lib/host/systemd.ts';
import { restartMarked } from '../../lib/restart/host-restarts.ts';
import type { Store } from '../../lib/store/store.ts';
import { isGone, Processes } from './processes.ts';

/** What this machine says of systemd. */
const runs = vi.hoisted(() => ({ systemd: false }));
vi.mock('../../lib/host/systemd.ts', async (original) => ({
  ...(await original<typeof systemd>()),
  systemdRuns: () => runs.systemd,
}));

let directory: string;
let processes: Processes;
let boot: string;
let lines: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'restart-'));
  processes = new Processes();
  boot = bootId();
  lines = [];
});
afterEach(async () => {
  await processes[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const signal = AbortSignal.timeout(60_000);
const lockDir = (): string => join(directory, 'lock');
const state = (): RunState => new RunState(lockDir());
const writing = { state: 'writing', running: [] } as const;
/** As a run has them that hands out its store: it has looked at none. */
const markers = (): Markers => new Markers({ state: state(), onFailed: ({ message }) => void lines.push(message) });

async function component(name: ComponentName): Promise<Component> {
  const kubeconfig = join(directory, `${name}.conf`);
  await writeFile(kubeconfig, 'first');
  const location: Location = { kind: 'kubeconfig', file: kubeconfig, endpoint: 'local' };
  return { name, file: kubeconfig, artefacts: [`${name}.conf`], locations: [location], isService: false };
}

/** Replaces a file as the store of this host does; or does not, or fails. */
function storeThat(outcome: 'written' | 'conflict' | 'fails' | 'fails late'): Store {
  return {
    read: async (location) => {
      const bytes = await readFile((location as { readonly file: string }).file);
      return { version: bytes.toString(), entries: {}, annotations: {} };
    },
    write: async (location) => {
      const { file } = location as { readonly file: string };
      if (outcome === 'fails') throw new Error('no space');
      if (outcome === 'conflict') return 'conflict';
      await writeFile(`${file}.new`, 'second');
      await rename(`${file}.new`, file);
      if (outcome === 'fails late') throw new Error('no sync');
      return 'written';
    },
  };
}

async function renew(one: Component, outcome: Parameters<typeof storeThat>[0] = 'written'): Promise<unknown> {
  const store = createMarkingStore(storeThat(outcome), [one], markers());
  const [location] = one.locations as [Location];
  return store.write(location, { entries: {}, annotations: {} }, { version: 'first' }, signal).catch(String);
}

interface Given {
  readonly isReady?: boolean;
  readonly apiAnswers?: () => Promise<void>;
  readonly etcdProblem?: () => Promise<string | undefined>;
  readonly clock?: Clock;
}

async function restart(
  components: readonly Component[],
  { isReady = true, apiAnswers = async () => {}, etcdProblem = async () => undefined, clock = systemClock }: Given = {},
) {
  const log = createLog({ write: (line) => lines.push(line) });
  return restartMarked({
    components,
    markers: markers(),
    isReady: () => isReady,
    apiAnswers,
    etcdProblem,
    quorumProblem: async () => undefined,
    clock,
    log,
    signal,
  });
}

const markerNames = (): Promise<string[]> => readdir(lockDir()).catch(() => []);

describe('after a renewal', () => {
  it.each(['kubelet', 'kube-controller-manager', 'kube-scheduler'] as const)('ends %s once', async (name) => {
    const one = await component(name);
    const reader = await processes.start(one);
    await renew(one);
    expect(await markerNames()).toEqual([`restart-${name}`]);
    expect(await restart([one])).toMatchObject([{ component: one }]);
    expect(await isGone(reader.pid ?? 0)).toBe(true);
    expect(reader.signalCode).toBe('SIGTERM');
    expect(await markerNames()).toEqual([]);
    const next = await processes.start(one);
    expect(await restart([one])).toEqual([]);
    expect(await isGone(next.pid ?? 0)).toBe(false);
  });

  it('leaves one alone that was started since', async () => {
    const one = await component('kube-scheduler');
    await renew(one);
    const reader = await processes.start(one);
    expect(await restart([one])).toHaveLength(1);
    expect(await isGone(reader.pid ?? 0)).toBe(false);
  });

  it('finds a static pod that still has the replaced file mounted, and no other one', async () => {
    const one = await component('kube-scheduler');
    const inPod = join(directory, 'in-pod.conf');
    await writeFile(inPod, '');
    const unshare = ['--mount', '--pid', '--fork', '--kill-child'];
    const pod = { ...one, file: inPod, unshare, before: `mount --bind ${one.file} ${inPod}` };
    const foreign = { ...one, unshare, before: `mount -t tmpfs tmpfs ${directory}` };
    const [ours, theirs] = [await processes.start(pod), await processes.start(foreign)];
    await renew(one);
    expect(await restart([one])).toMatchObject([{ component: one }]);
    await expect.poll(() => ours.exitCode ?? ours.signalCode, { timeout: 5000 }).not.toBeNull();
    expect(theirs.exitCode ?? theirs.signalCode).toBeNull();
  });

  it('leaves a kubelet alone that lives in a PID namespace of its own', async () => {
    const one = await component('kubelet');
    const theirs = await processes.start({ ...one, unshare: ['--pid', '--fork', '--kill-child'] });
    await renew(one);
    await restart([one]);
    expect(theirs.exitCode ?? theirs.signalCode).toBeNull();
  });

  it('takes what another user calls a kubelet for none, and ends the real one', async () => {
    const one = await component('kubelet');
    await chmod(directory, 0o755);
    const theirs = await processes.start({ ...one, as: 65534 });
    await renew(one);
    expect(await restart([one])).toEqual([expect.not.objectContaining({ failure: expect.anything() as unknown })]);
    expect(await isGone(theirs.pid ?? 0)).toBe(false);
    // Neither does it start static pods.
    const scheduler = await component('kube-scheduler');
    await processes.start(scheduler);
    await renew(scheduler);
    expect((await restart([one, scheduler]))[0]?.failure).toContain('while no kubelet runs');
  });

  it('ends all others, too, where one refuses to end', async () => {
    const one = await component('kube-scheduler');
    const stubborn = await processes.start({ ...one, ignoresTerm: true });
    const readers = await Promise.all([processes.start(one), processes.start(one)]);
    await renew(one);
    const clock: Clock = { ...systemClock, now: () => new Date(Date.now() * 1000), uptimeSeconds: () => undefined };
    const [outcome] = await restart([one], { clock });
    expect(outcome?.failure).toContain('has not ended 30 s after SIGTERM');
    expect(await isGone(stubborn.pid ?? 0)).toBe(false);
    for (const { pid } of readers) await expect.poll(() => isGone(pid ?? 0)).toBe(true);
    expect(await markerNames()).toEqual(['restart-kube-scheduler']);
  });

  it('leaves a component alone whose flag names another file', async () => {
    const one = await component('kube-controller-manager');
    const other = join(directory, 'other.conf');
    await writeFile(other, '');
    const theirs = await processes.start({ ...one, file: other });
    await renew(one);
    await restart([one]);
    expect(await isGone(theirs.pid ?? 0)).toBe(false);
  });

  it('ends the kubelet first, and the others when the API answers', async () => {
    const [kubelet, scheduler] = [await component('kubelet'), await component('kube-scheduler')];
    const [first, second] = [await processes.start(kubelet), await processes.start(scheduler)];
    await renew(scheduler);
    await renew(kubelet);
    let alive: readonly boolean[] = [];
    const apiAnswers = async (): Promise<void> => {
      alive = [!(await isGone(first.pid ?? 0)), !(await isGone(second.pid ?? 0))];
    };
    const again = new Promise((resolve) => void first.once('exit', () => resolve(processes.start(kubelet))));
    await restart([scheduler, kubelet], { apiAnswers });
    await again;
    expect(alive).toEqual([false, true]);
    expect(await isGone(second.pid ?? 0)).toBe(true);
  });

  it('ends no static pod while no kubelet runs, which would start it again; the marker stays', async () => {
    const [kubelet, scheduler] = [await component('kubelet'), await component('kube-scheduler')];
    const reader = await processes.start(scheduler);
    await renew(scheduler);
    const apiAnswers = (): Promise<never> => Promise.reject(new Error('nobody waits for the API then'));
    const [outcome] = await restart([kubelet, scheduler], { apiAnswers });
    expect(outcome?.failure).toBe('kube-scheduler is not restarted while no kubelet runs, which would start it again');
    expect(await isGone(reader.pid ?? 0)).toBe(false);
    expect(await markerNames()).toEqual(['restart-kube-scheduler']);

    await processes.start(kubelet);
    expect(await restart([kubelet, scheduler])).toMatchObject([{ component: scheduler }]);
    expect(await isGone(reader.pid ?? 0)).toBe(true);
  });
});

describe('a run that was cut short', () => {
  it('before it knew what it had written: the next one restarts whoever runs', async () => {
    const one = await component('kube-scheduler');
    await mkdir(lockDir());
    await writeFile(join(lockDir(), 'restart-kube-scheduler'), JSON.stringify({ boot, value: writing }));
    const reader = await processes.start(one);
    await restart([one]);
    expect(await isGone(reader.pid ?? 0)).toBe(true);
  });

  it.each([
    ['that nobody can read', '{"boo'],
    ['of an earlier version', '{"boot":"b","state":"written","running":[]}'],
  ])('with a marker %s: the same', async (_, content) => {
    const one = await component('kube-scheduler');
    await mkdir(lockDir());
    await writeFile(join(lockDir(), 'restart-kube-scheduler'), content);
    const reader = await processes.start(one);
    await restart([one]);
    expect(await isGone(reader.pid ?? 0)).toBe(true);
    expect(await markerNames()).toEqual([]);
  });

  it('before the last boot: nobody is left to restart', async () => {
    const one = await component('kube-scheduler');
    await mkdir(lockDir());
    const marker = { boot: 'another', value: writing };
    await writeFile(join(lockDir(), 'restart-kube-scheduler'), JSON.stringify(marker));
    const reader = await processes.start(one);
    expect(await restart([one])).toHaveLength(0);
    expect(await isGone(reader.pid ?? 0)).toBe(false);
  });
});

describe('the marker of an earlier run', () => {
  it.each(['conflict', 'fails'] as const)('stays after a write that %s', async (outcome) => {
    const one = await component('kube-scheduler');
    const reader = await processes.start(one);
    await renew(one);
    await renew(one, outcome);
    expect(await markerNames()).toEqual(['restart-kube-scheduler']);
    await restart([one]);
    expect(await isGone(reader.pid ?? 0)).toBe(true);
  });

  it('stays, when another run has left it while this one restarted', async () => {
    const [kubelet, scheduler] = [await component('kubelet'), await component('kube-scheduler')];
    await processes.start(kubelet);
    const reader = await processes.start(scheduler);
    await renew(scheduler);
    const apiAnswers = async (): Promise<void> => {
      await processes.start(scheduler);
      await renew(scheduler);
    };
    await restart([kubelet, scheduler], { apiAnswers });
    expect(await isGone(reader.pid ?? 0)).toBe(true);
    expect(await markerNames()).toEqual(['restart-kube-scheduler']);
  });
});

describe('nobody is restarted', () => {
  it.each(['conflict', 'fails'] as const)('for a write that %s', async (outcome) => {
    const one = await component('kube-scheduler');
    const reader = await processes.start(one);
    await renew(one, outcome);
    expect(await markerNames()).toEqual([]);
    expect(await restart([one])).toEqual([]);
    expect(await isGone(reader.pid ?? 0)).toBe(false);
  });

  it('before what it reads is repaired; the marker stays', async () => {
    const one = await component('kubelet');
    const reader = await processes.start(one);
    await renew(one);
    const [outcome] = await restart([one], { isReady: false });
    expect(outcome?.failure).toBe('kubelet is not restarted before kubelet.conf is repaired');
    expect(await isGone(reader.pid ?? 0)).toBe(false);
    expect(await markerNames()).toEqual(['restart-kubelet']);
  });
});

it('a marker of a write that begins while this run restarts is not one of a run that died', async () => {
  const [kubelet, scheduler] = [await component('kubelet'), await component('kube-scheduler')];
  await processes.start(kubelet);
  const reader = await processes.start(scheduler);
  await renew(kubelet);
  const isReady = (): boolean => {
    writeFileSync(join(lockDir(), 'restart-kube-scheduler'), JSON.stringify({ boot, value: writing })); // another run, at this moment
    return true;
  };
  const log = createLog({ write: (line) => lines.push(line) });
  const restarting = { components: [kubelet, scheduler], markers: markers(), isReady, log, signal };
  const outcomes = await restartMarked({
    ...restarting,
    apiAnswers: async () => {},
    etcdProblem: async () => undefined,
    quorumProblem: async () => undefined,
    clock: systemClock,
  });
  expect(outcomes.map((outcome) => outcome.component.name)).toEqual(['kubelet']);
  expect(await isGone(reader.pid ?? 0)).toBe(false);
  expect(await markers().look('kube-scheduler')).toEqual(writing);
});

it('a write that fails when the new file is in place counts as one', async () => {
  const one = await component('kube-scheduler');
  const reader = await processes.start(one);
  await renew(one, 'fails late');
  await restart([one]);
  expect(await isGone(reader.pid ?? 0)).toBe(true);
});

it('a marker that cannot be written is said, and this run still knows', async () => {
  const one = await component('kube-scheduler');
  await writeFile(lockDir(), 'a file where the directory should be');
  const known = new Markers({ state: state(), onFailed: ({ message }) => void lines.push(message) });
  const store = createMarkingStore(storeThat('written'), [one], known);
  const [location] = one.locations as [Location];
  await store.write(location, { entries: {}, annotations: {} }, { version: 'first' }, signal);
  expect(lines[0]).toContain('Cannot write note');
  expect(await known.look('kube-scheduler')).toMatchObject({ state: 'written' });
});

describe('a kubelet where systemd runs', () => {
  const user = '0::/user.slice/user-0.slice/session-3.scope\n';
  const unit = '0::/system.slice/kubelet.service\n';

  /** What `systemctl` was told, where it says that this process is the main one of every unit. */
  async function act(
    cgroup: string,
    mainPid: (pid: number) => number,
  ): Promise<{ done: string; told: string; gone: boolean }> {
    const child = await processes.start(await component('kubelet'));
    const pid = child.pid ?? 0;
    const [bin, told] = [join(directory, 'bin'), join(directory, 'told')];
    await mkdir(bin);
    const script = `#!/bin/sh\necho "$@" >> ${told}\ntest "$1" != show || echo ${mainPid(pid)}\n`;
    await writeFile(join(bin, 'systemctl'), script, { mode: 0o755 });
    vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
    const started = startOf(pid) ?? 0;
    const reader = {
      pid,
      started,
      argv: ['kubelet'],
      mountinfo: '',
      cgroup,
      isInOurPidNamespace: true,
      isPrivileged: true,
      environ: new Map<string, string>(),
    };
    runs.systemd = true;
    const done = await restartProcess({ name: 'kubelet', isService: false }, reader, {
      clock: systemClock,
      signal,
    }).catch(String);
    return { done, told: await readFile(told, 'utf8').catch(() => ''), gone: await isGone(pid) };
  }
  afterEach(() => {
    vi.unstubAllEnvs();
    runs.systemd = false;
  });

  it('is restarted with its unit, as its main process', async () => {
    const { done, told, gone } = await act(unit, (pid) => pid);
    expect({ done, gone }).toEqual({ done: 'systemctl restart kubelet.service', gone: false });
    expect(told).toBe('show --property=MainPID --value kubelet.service\nrestart kubelet.service\n');
  });

  it('is ended alone, where the unit has another main process', async () => {
    const { done, told, gone } = await act(unit, () => 1);
    expect({ done, gone }).toEqual({ done: expect.stringContaining('SIGTERM'), gone: true });
    expect(told).not.toContain('restart');
  });

  it('is left to whoever has started it in a session', async () => {
    const { done, told, gone } = await act(user, () => 1);
    expect({ told, gone }).toEqual({ told: '', gone: false });
    expect(done).toContain('was started by hand in a session of a user');
    expect(done).toContain('restart it by hand');
  });
});
