import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { refuseBesideKubeadm, runningKubeadm } from '../../lib/store/other-writer.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'other-writer-'));
});

afterEach(() => rm(directory, { recursive: true, force: true }));

interface Row {
  readonly pid: string;
  readonly comm?: string;
  readonly cmdline?: string;
  readonly namespace?: string;
}

/** A proc file system with these processes; our own is in the namespace `pid:[1]`. */
async function processes(...rows: readonly Row[]): Promise<string> {
  await mkdir(join(directory, 'self', 'ns'), { recursive: true });
  await symlink('pid:[1]', join(directory, 'self', 'ns', 'pid'));
  for (const { pid, comm = 'sh', cmdline = '', namespace = 'pid:[1]' } of rows) {
    await mkdir(join(directory, pid, 'ns'), { recursive: true });
    await writeFile(join(directory, pid, 'comm'), `${comm}\n`);
    await writeFile(join(directory, pid, 'cmdline'), cmdline);
    if (namespace !== '') await symlink(namespace, join(directory, pid, 'ns', 'pid'));
  }
  return directory;
}

it.each<{ name: string; row: Row; found: boolean }>([
  { name: 'by its program', row: { pid: '77', comm: 'kubeadm' }, found: true },
  { name: 'by what it was started as', row: { pid: '77', cmdline: '/usr/bin/kubeadm\0init\0' }, found: true },
  {
    name: 'by what it was started as, whatever stands behind a flag',
    row: { pid: '77', comm: 'kubeadm', cmdline: 'kubeadm\0--kubeconfig\0version\0reset\0' },
    found: true,
  },
  {
    name: 'when it renews certificates',
    row: { pid: '77', comm: 'kubeadm', cmdline: 'kubeadm\0certs\0renew\0all\0' },
    found: true,
  },
  {
    name: 'not when it pulls images',
    row: { pid: '77', comm: 'kubeadm', cmdline: '/usr/bin/kubeadm\0config\0images\0pull\0' },
    found: false,
  },
  {
    name: 'not when it shows certificates',
    row: { pid: '77', comm: 'kubeadm', cmdline: 'kubeadm\0certs\0check-expiration\0' },
    found: false,
  },
  { name: 'not when it is only an argument', row: { pid: '77', cmdline: 'vi\0kubeadm\0' }, found: false },
  { name: 'not another program', row: { pid: '77', comm: 'kubeadm-helper' }, found: false },
  { name: 'not in another PID namespace', row: { pid: '77', comm: 'kubeadm', namespace: 'pid:[2]' }, found: false },
  { name: 'not when it has ended', row: { pid: '77', comm: 'kubeadm', namespace: '' }, found: false },
  { name: 'not what is no process', row: { pid: 'irq', comm: 'kubeadm' }, found: false },
])('finds kubeadm $name', async ({ row, found }) => {
  expect(runningKubeadm(await processes({ pid: '5' }, row))).toBe(found ? 77 : undefined);
});

it('knows nothing without a proc file system', () => {
  expect(runningKubeadm(join(directory, 'none'))).toBeUndefined();
});

it('refuses while a real process named kubeadm runs, and no longer', async () => {
  const program = join(directory, 'kubeadm');
  await copyFile('/bin/sleep', program);
  await chmod(program, 0o755);
  const running = spawn(program, ['60'], { stdio: 'ignore' });
  await once(running, 'spawn');
  try {
    expect(() => refuseBesideKubeadm()).toThrow(
      expect.objectContaining({
        code: 'AlreadyRunning',
        message: expect.stringMatching(/^Cannot write files of this host: process "\d+" \(kubeadm\) runs/) as string,
      }) as Error,
    );
  } finally {
    running.kill('SIGKILL');
    await once(running, 'close');
  }
  expect(runningKubeadm()).not.toBe(running.pid);
});
