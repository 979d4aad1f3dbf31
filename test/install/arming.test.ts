// Each thing that arms a machine, taken away in turn.
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { armingOf } from '../../lib/install/arming.ts';
import { type HostUnits, renderHost, serviceName, timerName } from '../../lib/install/host.ts';
import { lookAtUnits } from '../../lib/install/unit-facts.ts';
import { renderWorker, type WorkerUnits } from '../../lib/install/worker-units.ts';

type UnitProperties = Readonly<Record<string, string>>;

const before = ['kubelet.service'];
const { signal } = new AbortController();

let root: string;
let executable: string;
let directory: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'armed-'));
  directory = join(root, 'units');
  executable = join(root, 'opt 100% $x/kube-cert-recovery');
  await mkdir(dirname(executable));
  await writeFile(executable, '#!/bin/sh\nexit 0\n', { mode: 0o755 });
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** What systemd shows of armed units; `changes` by unit. */
const shown = (changes: Readonly<Record<string, UnitProperties>> = {}): ReadonlyMap<string, string> => {
  const units: readonly (readonly [string, UnitProperties])[] = [
    [timerName, { LoadState: 'loaded', UnitFileState: 'enabled', ActiveState: 'active', ...changes[timerName] }],
    [
      serviceName,
      {
        LoadState: 'loaded',
        ActiveState: 'inactive',
        NeedDaemonReload: 'no',
        Result: 'success',
        ExecMainStatus: '0',
        ExecMainExitTimestamp: 'Sat 2026-11-28 10:20:01 UTC',
        ExecStart: `{ path=${executable} ; argv[]=${executable} --mode=regen }`,
        ...changes[serviceName],
      },
    ],
    [
      'kubelet.service',
      { LoadState: 'loaded', ExecStartPre: `{ argv[]=timeout ${executable} --once }`, ...changes['kubelet.service'] },
    ],
  ];
  const lines = (unit: UnitProperties): string[] => Object.entries(unit).map(([name, value]) => `${name}=${value}\n`);
  return new Map(units.map(([name, unit]) => [name, lines(unit).join('')]));
};

const units = (change: Partial<HostUnits> = {}): HostUnits => ({
  executable,
  flags: [],
  writable: ['/etc/kubernetes'],
  manifests: [],
  unitDirectory: directory,
  ...change,
});

async function install(files: readonly { path: string; content: string }[]): Promise<void> {
  for (const { path, content } of files) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
}

const fine = { hasRights: true, hasClock: true };

async function look(
  loaded: ReadonlyMap<string, string> | string = shown(),
  { wanted = units(), isWorker = false }: { wanted?: HostUnits; isWorker?: boolean } = {},
  around = fine,
) {
  const facts = await lookAtUnits({
    isWorker,
    before,
    rendered: async () => (isWorker ? renderWorker(wanted) : renderHost(wanted)),
    signal,
    directory,
  });
  return armingOf({ ...facts, loaded, ...around }, 'Run: init host');
}

describe('a machine with the units of init host', () => {
  beforeEach(() => install(renderHost(units())));
  it('is armed where others run something before the kubelet, too', async () => {
    const own = `ExecStartPre={ argv[]=timeout ${executable} --once }`;
    const both = shown({ 'kubelet.service': { ExecStartPre: `/bin/true\n${own}` } });
    expect(await look(both)).toMatchObject({ isArmed: true });
  });
  const drop = (): string => join(directory, 'kubelet.service.d/20-kube-cert-recovery.conf');

  it('is armed, and says on what that rests', async () => {
    const rests = ['service, timer and drop-in are loaded', 'last run Sat 2026-11-28 10:20:01 UTC'];
    expect(await look()).toEqual({ isArmed: true, isInstalled: true, reasons: rests, remedy: '' });
    const narrower = units({ writable: ['/etc/kubernetes/pki'] });
    expect(await look(shown(), { wanted: narrower })).toMatchObject({ isArmed: true });
    const fresh = shown({ [serviceName]: { ExecMainExitTimestamp: '' } });
    expect((await look(fresh)).reasons).toContain('no run since the boot');
    const running = shown({ [serviceName]: { ExecMainExitTimestamp: '', ActiveState: 'activating' } });
    expect((await look(running)).reasons).toContain('a run is under way');
    expect(await look(shown(), {}, { hasRights: false, hasClock: false })).toMatchObject({
      isArmed: true,
      reasons: [
        ...rests,
        'no time service confirms the clock (timedatectl), so a renewal waits until a tenth of its threshold is left',
        'rights in the API are missing (see the notes)',
      ],
    });
  });

  it('is armed after comments have changed, and after a run that left only what is to be done by hand', async () => {
    await writeFile(drop(), `# ours\n${await readFile(drop(), 'utf8')}`);
    const run = { [serviceName]: { Result: 'exit-code', ExecMainStatus: '5' } };
    expect(await look(shown(run))).toMatchObject({ isArmed: true });
  });

  it.each<readonly [string, string, Readonly<Record<string, UnitProperties>>, 'start' | 'timer' | undefined]>([
    ['the timer disabled', `${timerName} is not enabled`, { [timerName]: { UnitFileState: 'disabled' } }, 'start'],
    ['the timer stopped', `${timerName} is not active`, { [timerName]: { ActiveState: 'inactive' } }, 'start'],
    ['the service masked', `${serviceName} is masked`, { [serviceName]: { LoadState: 'masked' } }, 'start'],
    [
      'files that systemd has not read',
      `systemd has not loaded ${serviceName} as it is on disk`,
      { [serviceName]: { NeedDaemonReload: 'yes' } },
      'start',
    ],
    [
      'another drop-in that empties ExecStartPre',
      'the start of kubelet.service does not run it',
      { 'kubelet.service': { ExecStartPre: '' } },
      'timer',
    ],
    [
      'a drop-in that replaces the program of the service',
      `a drop-in of ${serviceName} replaces what it runs`,
      { [serviceName]: { ExecStart: '{ path=/bin/true ; argv[]=/bin/true }' } },
      'start',
    ],
  ])('is not, with %s', async (_, reason, change, stillRepairs) => {
    expect(await look(shown(change))).toEqual({
      isArmed: false,
      isInstalled: false,
      reasons: [reason],
      stillRepairs,
      remedy: 'Run: init host',
    });
  });

  it('is repaired by nothing, with an obstacle for each of its parts', async () => {
    const [stopped, emptied] = [{ ActiveState: 'inactive' }, { ExecStartPre: '' }];
    expect(await look(shown({ [timerName]: stopped, 'kubelet.service': emptied }))).toMatchObject({
      stillRepairs: undefined,
      reasons: [`${timerName} is not active`, 'the start of kubelet.service does not run it'],
    });
    await rm(drop());
    expect((await look(shown({ [timerName]: stopped }))).stillRepairs).toBeUndefined();
  });

  it('is armed by its timer while there is no kubelet', async () => {
    const none = { 'kubelet.service': { LoadState: 'not-found', ExecStartPre: '' } };
    expect(await look(shown(none))).toMatchObject({ isArmed: true });
  });

  it('is not, where the last run failed, and says where that is seen', async () => {
    const failed = shown({ [serviceName]: { Result: 'exit-code', ExecMainStatus: '1' } });
    expect(await look(failed)).toEqual({
      isArmed: false,
      isInstalled: true,
      reasons: ['the last run failed (exit-code 1)'],
      remedy: `Run: journalctl --unit=${serviceName}`,
    });
    // Something before the program has failed, so that it has not run.
    const kept = shown({ [serviceName]: { Result: 'exit-code', ExecMainStatus: '0' } });
    expect((await look(kept)).reasons).toEqual(['the last run failed (exit-code 0)']);
  });

  it('is not, without a file', async () => {
    await rm(drop());
    expect(await look()).toMatchObject({ isArmed: false, reasons: [`"${drop()}" absent`], stillRepairs: 'timer' });
  });

  it('is not, with units that init host would write in another way', async () => {
    const service = join(directory, serviceName);
    const reasons = [`"${service}" is not as init host writes it`];
    const wider = units({ writable: ['/etc/kubernetes', '/srv/pki'] });
    expect(await look(shown(), { wanted: wider })).toMatchObject({ isArmed: false, reasons, stillRepairs: 'start' });
    await writeFile(service, (await readFile(service, 'utf8')).replace(' --restart', ''));
    expect(await look()).toMatchObject({ isArmed: false, reasons });
  });

  it('is not, without its program, or with one that does not run', async () => {
    await writeFile(executable, '#!/bin/sh\necho broken >&2\nexit 1\n');
    const named = `"${executable}", which the units start, does not run: "--version" ended`;
    expect((await look()).reasons).toEqual([`${named} with 1: broken`]);
    await chmod(executable, 0o644);
    expect((await look()).reasons).toEqual([`${named} EACCES`]);
    await rm(executable);
    expect(await look()).toMatchObject({ reasons: [`${named} ENOENT`], stillRepairs: undefined });
  });

  it('is not, where its flags cannot be used, or systemd does not run', async () => {
    const facts = await lookAtUnits({
      isWorker: false,
      before,
      rendered: () => Promise.reject(new Error('no file')),
      signal,
      directory,
    });
    expect(armingOf({ ...facts, loaded: 'systemd does not answer', ...fine }, '').reasons).toEqual([
      'the flags of the units cannot be used: no file',
      'systemd does not answer',
    ]);
  });
});

it('a machine without units names the first', async () => {
  expect((await look()).reasons).toEqual([`"${join(directory, serviceName)}" and 3 more absent`]);
});

describe('a worker', () => {
  const worker = (token: string): WorkerUnits => ({ ...units(), flags: [`--worker-token-file=${token}`] });

  it('is armed once the token is there, and not by the units of a control plane', async () => {
    const token = join(root, 'token');
    const wanted = { ...units(), ...worker(token) };
    await install(renderWorker(wanted));
    expect((await look(shown(), { wanted, isWorker: true })).reasons).toEqual([
      `the token "${token}" is absent or empty`,
    ]);
    await writeFile(token, 'x');
    expect(await look(shown(), { wanted, isWorker: true })).toMatchObject({ isArmed: true });
    await install(renderHost(units({ flags: wanted.flags })));
    expect((await look(shown(), { wanted, isWorker: true })).isArmed).toBe(false);
  });
});
