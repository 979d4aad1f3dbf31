// Whether kubeadm is at work on this host: it takes no lock, so nobody else may write the same files meanwhile. Only
// processes of our own PID namespace count: kubeadm in a container has files of its own. And only those that can write
// them, and are about to: no user of this machine may stop its recovery, and neither may a question that nobody answers.
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { RecoveryError } from '../errors.ts';

const program = 'kubeadm';
/** Subcommands that write none of the files that we do: `config images pull` may wait for a registry for ever. */
const readers: ReadonlySet<string> = new Set(['completion', 'config', 'help', 'token', 'version']);

/** The slowest of them, an upgrade, waits five minutes for each of four pods. What runs for longer was forgotten. */
const longestSeconds = 3600;
/** USER_HZ, the same on every architecture (proc_pid_stat(5)). */
const ticksPerSecond = 100;
/** The number of read(2). */
const readCalls: Readonly<Record<string, string>> = {
  x64: '0',
  arm64: '63',
  riscv64: '63',
  loong64: '63',
  ppc64: '3',
  s390x: '3',
};

/** Throws AlreadyRunning while a kubeadm process runs that may write. */
export function refuseBesideKubeadm(procDir = '/proc'): void {
  const pid = runningKubeadm(procDir);
  if (pid === undefined) return;
  throw new RecoveryError(
    'AlreadyRunning',
    `Cannot write files of this host: process "${pid}" (${program}) runs and may write them too; let it end first`,
    { details: { pid } },
  );
}

/**
 * The process id of a running kubeadm that may write. `procDir` is a mounted proc file system; where there is none,
 * nothing is known.
 */
export function runningKubeadm(procDir = '/proc'): number | undefined {
  const namespace = linkOf(join(procDir, 'self/ns/pid'));
  const pids = namesIn(procDir).filter((name) => /^\d+$/.test(name));
  // Synchronous: some hundred reads of memory, each shorter than a round through the thread pool.
  const found = pids.find((pid) => {
    const directory = join(procDir, pid);
    if (!isKubeadm(directory) || !mayWrite(directory) || isForgotten(directory, procDir)) return false;
    const theirs = linkOf(join(procDir, pid, 'ns/pid'));
    if (theirs === 'gone') return false; // it has ended, or is a zombie
    return theirs === 'unreadable' || namespace === 'unreadable' || theirs === namespace;
  });
  return found === undefined ? undefined : Number(found);
}

/** By the name of its program, or by what it was started as. */
function isKubeadm(directory: string): boolean {
  const comm = textOf(join(directory, 'comm'))?.trimEnd();
  const [started = '', ...words] = (textOf(join(directory, 'cmdline')) ?? '').split('\0');
  if (basename(started) !== program) return comm === program;
  const [first = '', second] = words; // behind a flag a word may be its value
  return !readers.has(first) && !(first === 'certs' && second === 'check-expiration');
}

/** Files of this host are root's, or belong to whoever runs us. The owner of the directory is who the process acts as. */
function mayWrite(directory: string): boolean {
  try {
    const { uid } = statSync(directory);
    if (uid !== 0 && uid !== process.getuid?.()) return false;
  } catch {
    return false; // it has ended since
  }
  const executable = linkOf(join(directory, 'exe'));
  // A file that was replaced is still said, with " (deleted)"; one that is named by its version is kubeadm, too.
  return executable === 'unreadable' || basename(executable).startsWith(program);
}

/** It waits for an answer (`kubeadm reset`, `kubeadm upgrade apply`), before it has changed anything; or it hangs. */
function isForgotten(directory: string, procDir: string): boolean {
  const [uptime = 'NaN'] = (textOf(join(procDir, 'uptime')) ?? '').split(' ');
  const fields = (textOf(join(directory, 'stat')) ?? '').replace(/^[^]*\)\s*/, '').split(' ');
  if (Number(uptime) - Number(fields[19]) / ticksPerSecond > longestSeconds) return true;
  const waits = `${readCalls[process.arch] ?? 'unknown'} 0x0 `; // read(0, ...): of its standard input
  const threads = join(directory, 'task');
  return namesIn(threads).some((thread) => textOf(join(threads, thread, 'syscall'))?.startsWith(waits) === true);
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // it has ended since
  }
}

/** What cannot be looked at may be ours: then we stay away. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch (err) {
    return ['ENOENT', 'ESRCH'].includes((err as NodeJS.ErrnoException).code ?? '') ? 'gone' : 'unreadable';
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
