import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runningKubeadm } from '../../lib/host/sole-writer.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

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
  readonly executable?: string;
  /** Seconds since its start. */
  readonly age?: number;
  /** What its threads wait for, as /proc/<pid>/task/<tid>/syscall says it. */
  readonly waits?: readonly string[];
  /** Its real and its effective user. Default: ours. */
  readonly users?: readonly [number, number];
  /** It ends while it is looked at: what is asked last is not answered any more (proc_ns_readlink: EACCES). */
  readonly ends?: boolean;
  /** What is mounted where it runs, as [device, path in its file system, where]. Default: it cannot be read. */
  readonly mounts?: readonly Mount[];
}

type Mount = readonly [device: string, root: string, point: string];

const mountinfo = (mounts: readonly Mount[]): string =>
  mounts.map(([device, root, point]) => `1 1 ${device} ${root} ${point} rw - ext4 /dev/x rw\n`).join('');

const me = process.getuid?.() ?? 0;
const uptime = 100_000;
/** Of read(2), by architecture. */
const readCall = { x64: 0, arm64: 63 }[process.arch as string] ?? 0;

/** A proc file system with these processes; our own is in the namespace `pid:[1]`. */
async function processes(...rows: readonly Row[]): Promise<string> {
  await mkdir(join(directory, 'self', 'ns'), { recursive: true });
  await symlink('pid:[1]', join(directory, 'self', 'ns', 'pid'));
  await writeFile(join(directory, 'self', 'mountinfo'), mountinfo([['8:1', '/', '/']]));
  await writeFile(join(directory, 'uptime'), `${uptime}.00 1.00\n`);
  for (const { pid, comm = 'sh', cmdline = '', namespace = 'pid:[1]', ...row } of rows) {
    await mkdir(join(directory, pid, 'ns'), { recursive: true });
    await writeFile(join(directory, pid, 'comm'), `${comm}\n`);
    await writeFile(join(directory, pid, 'cmdline'), cmdline);
    const [real, effective] = row.users ?? [me, me];
    await writeFile(join(directory, pid, 'status'), `Name:\t${comm}\nUid:\t${real}\t${effective}\t0\t0\n`);
    if (row.ends === true) {
      for (const link of ['ns/pid', 'exe']) await writeFile(join(directory, pid, link), '');
      continue;
    }
    if (namespace !== '') await symlink(namespace, join(directory, pid, 'ns', 'pid'));
    await symlink(row.executable ?? '/usr/bin/kubeadm', join(directory, pid, 'exe'));
    const fields = ['S', ...Array.from({ length: 18 }, () => 0), (uptime - (row.age ?? 1)) * 100];
    await writeFile(join(directory, pid, 'stat'), `${pid} (a) b) ${fields.join(' ')} 0 0\n`);
    for (const [at, syscall] of (row.waits ?? ['202 0x1 0x80 0x0']).entries()) {
      await mkdir(join(directory, pid, 'task', String(at)), { recursive: true });
      await writeFile(join(directory, pid, 'task', String(at), 'syscall'), `${syscall}\n`);
    }
    if (row.mounts !== undefined) await writeFile(join(directory, pid, 'mountinfo'), mountinfo(row.mounts));
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
  { name: 'not when it ends while it is looked at', row: { pid: '77', comm: 'kubeadm', ends: true }, found: false },
  { name: 'not when it has ended', row: { pid: '77', comm: 'kubeadm', namespace: '' }, found: false },
  {
    name: 'under the name of its version, also when it was replaced',
    row: { pid: '77', cmdline: 'kubeadm\0init\0', executable: '/opt/bin/kubeadm-v1.35.4 (deleted)' },
    found: true,
  },
  {
    name: 'not another program of that name',
    row: { pid: '77', comm: 'kubeadm', executable: '/usr/bin/bash' },
    found: false,
  },
  {
    name: 'when it reads a file of its own',
    row: { pid: '77', comm: 'kubeadm', waits: ['202 0x1 0x80', `${readCall} 0x3 0xc000`] },
    found: true,
  },
  {
    name: 'not when one of its threads waits for an answer of a person',
    row: { pid: '77', comm: 'kubeadm', waits: ['202 0x1 0x80', `${readCall} 0x0 0xc000 0x1000 0x0`] },
    found: false,
  },
  { name: 'that has run for half an hour', row: { pid: '77', comm: 'kubeadm', age: 1800 }, found: true },
  { name: 'not when it was forgotten hours ago', row: { pid: '77', comm: 'kubeadm', age: 7200 }, found: false },
  { name: 'not what is no process', row: { pid: 'irq', comm: 'kubeadm' }, found: false },
])('finds kubeadm $name', async ({ row, found }) => {
  expect(runningKubeadm([], await processes({ pid: '5' }, row))).toBe(found ? 77 : undefined);
});

const container: Mount = ['0:52', '/', '/'];

it.each<{ name: string; mounts: readonly Mount[]; directories?: readonly string[]; found: boolean }>([
  { name: 'where it has the files of this machine', mounts: [['8:1', '/', '/']], found: true },
  { name: 'not in a container, whose files are its own', mounts: [container], found: false },
  {
    name: 'in a container that has /etc/kubernetes of this machine',
    mounts: [container, ['8:1', '/etc/kubernetes', '/etc/kubernetes']],
    found: true,
  },
  {
    name: 'in a container that has the certificates of this machine',
    mounts: [container, ['8:1', '/etc/kubernetes/pki', '/etc/kubernetes/pki']],
    found: true,
  },
  {
    name: 'where it has what is not in the usual place here',
    mounts: [container, ['8:1', '/srv/pki', '/srv/pki']],
    directories: ['/srv/pki'],
    found: true,
  },
  {
    name: 'where the files of its usual place are in another place here',
    mounts: [container, ['8:1', '/machine/kubernetes', '/etc/kubernetes']],
    directories: ['/machine/kubernetes'],
    found: true,
  },
  { name: 'whose root is no mount', mounts: [['8:1', '/tmp', '/tmp']], found: true },
])('finds kubeadm $name', async ({ mounts, directories = [], found }) => {
  const procDir = await processes({ pid: '77', comm: 'kubeadm', mounts });
  expect(runningKubeadm(directories, procDir)).toBe(found ? 77 : undefined);
});

it.each<[string, readonly [number, number], boolean]>([
  ['of root', [0, 0], true],
  ['of another user', [65534, 65534], false],
  ['that another user has started as a setuid program', [65534, 0], false],
  ['of root that acts as another user', [0, 65534], false],
])('finds kubeadm %s: %s', async (_, users, found) => {
  expect(runningKubeadm([], await processes({ pid: '77', comm: 'kubeadm', users }))).toBe(found ? 77 : undefined);
});

it('knows nothing without a proc file system', () => {
  expect(runningKubeadm([], join(directory, 'none'))).toBeUndefined();
});

it('is kept away by a real process of that name, not at a prompt, nor with an /etc of its own, nor after its end', async () => {
  const child = join(import.meta.dirname, 'named-kubeadm.ts');
  const apart = [...asRoot, '--mount', ...unseen, process.execPath, child];
  const { stdout } = await promisify(execFile)('unshare', apart);
  expect(JSON.parse(stdout)).toEqual({
    running: expect.stringMatching(/Cannot write files of this host: process "\d+" \(kubeadm\) runs/) as string,
    atPrompt: false,
    withOtherFiles: false,
    afterwards: false,
  });
});

// Takes root; where that cannot be had it is skipped, except where CI=true.
it.skipIf(me !== 0 && process.env['CI'] !== 'true')(
  'without the right to look at processes of others, it is kept away by those of root, and by no setuid program of a user',
  async () => {
    const child = join(import.meta.dirname, 'setuid-kubeadm.ts');
    const apart = ['--mount', ...unseen, process.execPath, child];
    const { stdout } = await promisify(execFile)('unshare', apart);
    expect(JSON.parse(stdout)).toEqual({ ofRoot: true, startedAsKubeadm: false, linkedAsKubeadm: false });
  },
);
