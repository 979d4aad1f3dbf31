// Run in PID and mount namespaces of its own, as root: a kubeadm of root, and setuid programs that a user has given that name.
// Prints which of them is found by who may not look into processes of others (SYS_PTRACE), as the units of a worker.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const look = `import(${JSON.stringify(join(import.meta.dirname, '../../lib/host/sole-writer.ts'))}).then((module) =>
  process.stdout.write(JSON.stringify(module.runningKubeadm() !== undefined)))`;
const withoutRight = ['--bounding-set=-sys_ptrace', '--inh-caps=-sys_ptrace', process.execPath, '-e', look];
const asUser = ['--reuid=65534', '--regid=65534', '--clear-groups'];

const directory = await mkdtemp(join(tmpdir(), 'setuid-kubeadm-'));
await chmod(directory, 0o755);
await mkdir(join(directory, 'linked'), { mode: 0o755 });
const [program, sleep, link] = ['waits', 'kubeadm', 'linked/kubeadm'].map((name) => join(directory, name)) as [
  string,
  string,
  string,
];
await copyFile('/bin/sleep', sleep);
await copyFile('/bin/sleep', program);
await chmod(program, 0o4755);
await symlink(program, link);

/** Whether it is found while this runs, once it is what it becomes. */
async function found(command: string, words: readonly string[], comm: string): Promise<boolean> {
  const child = spawn(command, words, { stdio: 'ignore' });
  try {
    while ((await readFile(`/proc/${child.pid}/comm`, 'utf8')) !== `${comm}\n`) await delay(20);
    return JSON.parse((await promisify(execFile)('setpriv', withoutRight)).stdout) as boolean;
  } finally {
    child.kill('SIGKILL');
    await once(child, 'close');
  }
}

const started = ['bash', '-c', `exec -a kubeadm ${program} 60`];
const result = {
  ofRoot: await found(sleep, ['60'], 'kubeadm'),
  startedAsKubeadm: await found('setpriv', [...asUser, ...started], 'waits'),
  linkedAsKubeadm: await found('setpriv', [...asUser, link, '60'], 'kubeadm'),
};
process.stdout.write(JSON.stringify(result));
await rm(directory, { recursive: true });
