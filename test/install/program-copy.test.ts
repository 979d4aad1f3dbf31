// The copy of the program that units start, on a real disk: what lies where after each step, also after one that was killed.
import { execFile } from 'node:child_process';
import {
  appendFile,
  chmod,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  realpath,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import {
  copiedProgram,
  copyProgram,
  dropCopy,
  flipTo,
  isInUse,
  type ProgramCopy,
  type ProgramPlaces,
  removeProgram,
} from '../../lib/install/program-copy.ts';

let root: string;
let places: ProgramPlaces;
let source: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'copy-'));
  places = { home: join(root, 'opt/kube-cert-recovery'), commands: [join(root, 'local/bin'), join(root, 'usr/bin')] };
  for (const directory of [...places.commands, join(root, 'opt')]) await mkdir(directory, { recursive: true });
  source = await unpacked('unpacked', 'one');
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** An archive as somebody else has unpacked it. */
async function unpacked(directory: string, told: string): Promise<string> {
  const folder = join(root, directory);
  await mkdir(join(folder, 'app/presets'), { recursive: true });
  await writeFile(
    join(folder, 'kube-cert-recovery'),
    `#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/app/main.mjs"\n`,
  );
  await writeFile(join(folder, 'app/main.mjs'), told);
  await writeFile(join(folder, 'app/presets/kubeadm.yaml'), 'preset');
  await writeFile(join(folder, 'node'), 'node');
  await writeFile(join(folder, 'LICENSE'), 'licence');
  await writeFile(join(folder, 'of-somebody-else'), '');
  await promisify(execFile)('chmod', ['-R', 'a+rwX', folder]);
  if (process.geteuid?.() === 0) await promisify(execFile)('chown', ['-R', '1000:1000', folder]);
  await chmod(join(folder, 'kube-cert-recovery'), 0o777);
  return join(folder, 'kube-cert-recovery');
}

const bin = (): string => join(places.home, 'bin');
const versions = async (): Promise<readonly string[]> =>
  (await readdir(bin())).filter((name) => name !== 'kube-cert-recovery').toSorted();
const told = async (path = copiedProgram(places)): Promise<string> => (await promisify(execFile)(path)).stdout;

async function install(from: string): Promise<ProgramCopy> {
  const copy = await copyProgram(from, places);
  await flipTo(copy, places);
  return copy;
}

it('copies the program and nothing beside it, closed to others, and is used through a link', async () => {
  const { launcher, inUse } = await install(source);
  expect(inUse).toBeUndefined();
  expect(await realpath(copiedProgram(places))).toBe(await realpath(launcher));
  expect(await readlink(join(root, 'local/bin/kube-cert-recovery'))).toBe(copiedProgram(places));
  expect(await told(join(root, 'local/bin/kube-cert-recovery'))).toBe('one');
  const files = await readdir(dirname(launcher), { recursive: true });
  expect(files.toSorted()).toEqual(
    [
      'LICENSE',
      'app',
      'app/main.mjs',
      'app/presets',
      'app/presets/kubeadm.yaml',
      'kube-cert-recovery',
      'node',
    ].toSorted(),
  );
  for (const name of ['.', ...files]) {
    const { mode, uid, gid } = await stat(join(dirname(launcher), name));
    expect([name, uid, gid]).toEqual([name, process.geteuid?.(), process.getegid?.()]);
    const isOpen = ['.', 'app', 'app/presets', 'kube-cert-recovery', 'node'].includes(name);
    expect([name, (mode & 0o7777).toString(8)]).toEqual([name, isOpen ? '755' : '644']);
  }
});

it('copies nothing a second time, also from the copy itself', async () => {
  const { launcher } = await install(source);
  const { ino } = await stat(launcher);
  for (const from of [source, copiedProgram(places), launcher]) {
    expect(await install(from)).toEqual({ launcher, inUse: launcher, isWritten: false });
    expect((await stat(launcher)).ino).toBe(ino);
  }
  expect(await versions()).toHaveLength(1);
});

it('copies the program of an image, whose root directory has other files, and a link for Node', async () => {
  const image = dirname(await unpacked('image', 'one'));
  await mkdir(join(image, 'usr/bin'), { recursive: true });
  await cp(join(image, 'node'), join(image, 'usr/bin/node'));
  await rm(join(image, 'node'));
  await symlink('usr/bin/node', join(image, 'node'));
  await symlink('/nowhere', join(image, 'of-the-image')); // what no copy may have
  const { launcher } = await copyProgram(join(image, 'kube-cert-recovery'), places);
  expect((await lstat(join(dirname(launcher), 'node'))).isFile()).toBe(true);
  expect(await told(launcher)).toBe('one');
  // Units of the machine then use it where it lies.
  expect(await install(launcher)).toMatchObject({ launcher, inUse: undefined, isWritten: false });
  expect(await isInUse(launcher, places)).toBe(true);
});

it('keeps the version in use until another one is, and then beside it', async () => {
  const first = await install(source);
  const next = await copyProgram(await unpacked('next', 'two'), places);
  expect(await told()).toBe('one');
  await flipTo(next, places);
  expect(await told()).toBe('two');
  expect(await told(first.launcher)).toBe('one');
  expect(await install(first.launcher)).toMatchObject({ launcher: first.launcher, inUse: next.launcher });
  expect(await told()).toBe('one');
});

it('has one version or the other for every run, also while it is flipped', async () => {
  const launchers = [(await install(source)).launcher, (await install(await unpacked('next', 'two'))).launcher];
  const over = new AbortController();
  const runs: Promise<string[]> = (async () => {
    const seen: string[] = [];
    while (!over.signal.aborted) seen.push(await told());
    return seen;
  })();
  for (let turn = 0; turn < 50; turn += 1) await install(launchers[turn % 2] ?? '');
  over.abort();
  expect([...new Set(await runs)].toSorted()).toEqual(['one', 'two']);
});

it('keeps the three newest versions, and however old the one in use and the former', async () => {
  const launchers: string[] = [];
  for (let at = 0; at < 5; at += 1) {
    const { launcher } = await install(await unpacked(`v${at}`, `version ${at}`));
    launchers.push(launcher);
    const made = new Date(Date.UTC(2026, 0, at + 1));
    await utimes(dirname(launcher), made, made);
  }
  const named = (...which: readonly number[]): readonly string[] =>
    which.map((at) => basename(dirname(launchers[at] ?? ''))).toSorted();
  expect(await versions()).toEqual(named(2, 3, 4));
  await install(join(root, 'v0/kube-cert-recovery')); // made again, so the newest
  const old = new Date(0);
  for (const at of [0, 4]) await utimes(dirname(launchers[at] ?? ''), old, old);
  for (const at of [5, 6, 7]) {
    const { launcher } = await copyProgram(await unpacked(`v${at}`, `version ${at}`), places);
    launchers[at] = launcher;
  }
  await install(launchers[4] ?? '');
  expect(await versions()).toEqual(named(0, 4, 5, 6, 7));
  await install(launchers[4] ?? '');
  expect(await versions()).toEqual(named(4, 5, 6, 7));
});

it('replaces a copy that was damaged or opened, and what a killed run has left', async () => {
  const { launcher } = await install(source);
  const main = join(dirname(launcher), 'app/main.mjs');
  const harm: readonly (() => Promise<void>)[] = [
    () => writeFile(main, 'other'),
    () => chmod(main, 0o666),
    () => rm(main),
    () => writeFile(join(dirname(main), 'more.mjs'), ''),
    () => cp(dirname(launcher), join(bin(), '.kube-cert-recovery.kube-cert-recovery-0'), { recursive: true }),
  ];
  for (const change of harm) {
    await change();
    await install(source);
    expect(await told()).toBe('one');
    expect((await stat(main)).mode & 0o777).toBe(0o644);
    expect(await readdir(bin())).toHaveLength(2);
    expect(await readdir(dirname(main))).toHaveLength(2);
  }
});

it('keeps a damaged copy until its replacement is there, also when that fails', async () => {
  const { launcher } = await install(source);
  const folder = dirname(launcher);
  await writeFile(join(folder, 'app/main.mjs'), 'other');
  const plain = realDisk.rename;
  let isFull = true;
  const rename = vi.spyOn(realDisk, 'rename').mockImplementation((from, to) => {
    const fails = isFull && to === folder;
    isFull &&= !fails;
    return fails ? Promise.reject(new Error('ENOSPC')) : plain(from, to);
  });
  await expect(copyProgram(source, places)).rejects.toThrow('Cannot copy the program');
  expect(await told()).toBe('other');
  expect(await readdir(bin())).toHaveLength(2);
  const removed = vi.spyOn(realDisk, 'rm');
  await install(source);
  expect(removed.mock.calls.map(([path]) => path)).not.toContain(folder);
  expect(await told()).toBe('one');
  expect(await readdir(bin())).toHaveLength(2);
  for (const spy of [rename, removed]) spy.mockRestore();
});

it('copies nothing of a program that cannot be read whole', async () => {
  const { launcher } = await install(source);
  const next = await unpacked('next', 'two');
  await rm(join(dirname(next), 'app/main.mjs'));
  await symlink('/nowhere', join(dirname(next), 'app/main.mjs'));
  await expect(copyProgram(next, places)).rejects.toThrow('Cannot copy the program: "');
  expect(await readdir(bin())).toHaveLength(2);
  expect(await versions()).toEqual([basename(dirname(launcher))]);
});

it('copies nothing that has no end', async () => {
  const next = await unpacked('next', 'two');
  await promisify(execFile)('mkfifo', [join(dirname(next), 'app/pipe')]);
  await expect(copyProgram(next, places)).rejects.toThrow('is no regular file');
});

it('knows a version in use that somebody has changed, and makes it again', async () => {
  const { launcher } = await install(source);
  expect(await isInUse(source, places)).toBe(true);
  await appendFile(join(dirname(launcher), 'app/main.mjs'), '// x');
  expect(await isInUse(source, places)).toBe(false);
  expect(await install(source)).toMatchObject({ launcher, inUse: await realpath(launcher), isWritten: true });
  expect(await isInUse(source, places)).toBe(true);
});

it('drops a copy that cannot be used, and never the one in use', async () => {
  const { launcher } = await install(source);
  await dropCopy(await copyProgram(await unpacked('next', 'two'), places));
  await dropCopy(await copyProgram(source, places));
  expect(await versions()).toEqual([basename(dirname(launcher))]);
  expect(await told()).toBe('one');
});

it('leaves a command of the same name alone, such as that of a package', async () => {
  const own = join(root, 'usr/bin/kube-cert-recovery');
  await symlink(source, own);
  await install(source);
  expect(await readdir(join(root, 'local/bin'))).toEqual([]);
  await removeProgram(false, places);
  expect(await readlink(own)).toBe(source);
});

it('does not write through the link of an installation by hand', async () => {
  await mkdir(join(root, 'opt/by-hand'));
  await symlink('by-hand', places.home);
  await expect(copyProgram(source, places)).rejects.toThrow(`"${places.home}" is a link; remove it`);
  expect(await readdir(join(root, 'opt/by-hand'))).toEqual([]);
});

it('removes all of it, and says before what', async () => {
  await install(source);
  await install(await unpacked('next', 'two'));
  const listed = await removeProgram(true, places);
  expect(listed).toHaveLength(4);
  expect(await told()).toBe('two');
  expect(await removeProgram(false, places)).toEqual(listed);
  expect(await readdir(join(root, 'opt'))).toEqual([]);
  expect(await readdir(join(root, 'local/bin'))).toEqual([]);
  expect(await removeProgram(false, places)).toEqual([]);
});

it('removes nothing, and looks nowhere, where no copy is made', async () => {
  const looks = [vi.spyOn(realDisk, 'readlink'), vi.spyOn(realDisk, 'readdir')];
  expect(await removeProgram(true, undefined)).toEqual([]);
  for (const spy of looks) {
    expect(spy).not.toHaveBeenCalled();
    spy.mockRestore();
  }
});

it('leaves what others have put beside it', async () => {
  await install(source);
  await writeFile(join(places.home, 'of-others'), '');
  await removeProgram(false, places);
  expect(await readdir(places.home)).toEqual(['of-others']);
});
