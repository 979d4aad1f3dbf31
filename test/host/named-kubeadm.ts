// Run in PID and mount namespaces of its own, where no other test meets what it starts: programs named kubeadm, one after
// the other. Prints what is found beside each, and after the last.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { refuseBesideKubeadm, runningKubeadm } from '../../lib/host/sole-writer.ts';

const directory = await mkdtemp(join(tmpdir(), 'named-kubeadm-'));

/** A copy of this program under the name of kubeadm. */
async function named(program: string): Promise<string> {
  const path = join(directory, program, 'kubeadm');
  await mkdir(join(directory, program));
  await copyFile(`/bin/${program}`, path);
  await chmod(path, 0o755);
  return path;
}

async function beside<T>(child: ChildProcess, look: () => T | Promise<T>): Promise<T> {
  while ((await readFile(`/proc/${child.pid}/comm`, 'utf8')) !== 'kubeadm\n') await delay(20);
  try {
    return await look();
  } finally {
    child.kill('SIGKILL');
    await once(child, 'close');
  }
}

function refusal(): string {
  try {
    refuseBesideKubeadm();
    return 'none';
  } catch (err) {
    return String(err);
  }
}

async function untilNotFound(): Promise<boolean> {
  while (runningKubeadm() !== undefined) await delay(20);
  return true;
}

const [cat, sleep] = [await named('cat'), await named('sleep')];
const hidden = `mount -t tmpfs tmpfs /etc && mkdir /etc/kubernetes && exec "${sleep}" 60`;
const found = {
  running: await beside(spawn(sleep, ['60'], { stdio: 'ignore' }), refusal),
  atPrompt: !(await beside(spawn(cat, ['-'], { stdio: ['pipe', 'ignore', 'inherit'] }), untilNotFound)),
  withOtherFiles: await beside(
    spawn('unshare', ['--mount', 'sh', '-c', hidden], { stdio: 'ignore' }),
    () => runningKubeadm() !== undefined,
  ),
  afterwards: runningKubeadm() !== undefined,
};
process.stdout.write(JSON.stringify(found));
await rm(directory, { recursive: true });
