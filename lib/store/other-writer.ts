// Whether kubeadm is at work on this host: it takes no lock, so nobody else may write the same files meanwhile. Only
// processes of our own PID namespace count: kubeadm in a container has files of its own.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { RecoveryError } from '../errors.ts';

const program = 'kubeadm';
/** Subcommands that write none of the files that we do: `config images pull` may wait for a registry for ever. */
const readers: ReadonlySet<string> = new Set(['completion', 'config', 'help', 'token', 'version']);

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
    if (!isKubeadm(join(procDir, pid))) return false;
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
