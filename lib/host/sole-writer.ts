// The right to write files of this host: no other process of ours writes them, and no kubeadm, which takes no lock. A
// kubeadm counts only if it shares our PID namespace, sees these files (in a container it has files of its own), can
// write them and is about to: no user of this machine may block its recovery, and neither may a kubeadm prompt without
// an answer.
import { readlinkSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Clock } from '../clock.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { retry } from '../retry.ts';
import { acquireLock, type Lock } from './lock.ts';
import { isSamePlace, type MountedPlace, placeOf } from './mounts.ts';
import { argvOf, isPrivileged, processIds, procText, programOf, startOf, ticksPerSecond } from './proc.ts';

/** Well within the time that the kubelet's drop-in allows for a whole pass. */
const patienceMs = 20_000;
const askAgainMs = 200;

interface HostLocking {
  readonly lockDir: string;
  /** Directories of the files to be written. */
  readonly directories: readonly string[];
  /** Whether to wait for another process of ours. */
  readonly once: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Check for other writers. Default: kubeadm. */
  readonly refuseBesideOthers?: (directories: readonly string[]) => void;
}

/**
 * A single pass waits a little for another process of ours: the run before the start of the kubelet and the run of the
 * timer may meet, and each does all the work. No pass waits for kubeadm: it starts the kubelet itself, and then waits
 * for that. Throws AlreadyRunning, WriteFailed.
 */
export async function lockHost(locking: HostLocking): Promise<Lock> {
  const { lockDir, directories, once, clock, signal, refuseBesideOthers = refuseBesideKubeadm } = locking;
  const refuse = (): void => refuseBesideOthers(directories);
  const isPassing = (err: unknown): boolean => {
    refuse();
    return isCode(err, 'AlreadyRunning');
  };
  refuse();
  const patience = { forMs: once ? patienceMs : 0, everyMs: askAgainMs, clock, signal };
  const lock = await retry(() => acquireLock({ directory: lockDir, clock }), isPassing, patience);
  return unlessRefused(lock, refuse);
}

/** Checked again: kubeadm may have been started during the wait. */
async function unlessRefused(lock: Lock, refuse: () => void): Promise<Lock> {
  try {
    refuse();
    return lock;
  } catch (err) {
    await lock.release();
    throw err;
  }
}

const program = 'kubeadm';
/** Subcommands that write none of our files: `config images pull` may wait for a registry for ever. */
const readOnlySubcommands: ReadonlySet<string> = new Set(['completion', 'config', 'help', 'token', 'version']);

/**
 * The slowest other subcommand, an upgrade, waits five minutes for each of four pods. A process that runs for longer
 * was forgotten.
 */
const longestSeconds = 3600;
/** System call number of read(2). */
const readCalls: Readonly<Record<string, string>> = {
  x64: '0',
  arm64: '63',
  riscv64: '63',
  loong64: '63',
  ppc64: '3',
  s390x: '3',
};

/** Throws AlreadyRunning while a kubeadm process runs that may write, in its own directories or in these. */
export function refuseBesideKubeadm(directories: readonly string[] = [], procDir = '/proc'): void {
  const pid = runningKubeadm(directories, procDir);
  if (pid === undefined) return;
  throw new RecoveryError(
    'AlreadyRunning',
    `Cannot write files of this host: process "${pid}" (${program}) runs and may write them too; let it end first`,
    { details: { pid } },
  );
}

/**
 * PID of a running kubeadm that may write, in its own directories or in these. `procDir` is a mounted proc file system;
 * without one, nothing is known.
 */
export function runningKubeadm(directories: readonly string[] = [], procDir = '/proc'): number | undefined {
  const namespace = linkOf(join(procDir, 'self/ns/pid'));
  const paths = [...new Set([...kubeadmDirectories, ...directories])];
  return pidsIn(procDir).find((pid) => {
    if (!isKubeadm(pid, procDir) || !mayWrite(pid, procDir) || isForgotten(pid, procDir)) return false;
    const theirs = linkOf(join(procDir, String(pid), 'ns/pid'));
    if (theirs === 'gone') return false; // it has exited, or is a zombie
    if (theirs !== 'unreadable' && namespace !== 'unreadable' && theirs !== namespace) return false;
    // A process that exits during these reads closes its links, as if it hid them.
    return hasSameFiles(pid, paths, procDir) && startOf(pid, procDir) !== undefined;
  });
}

/** Directories in which kubeadm writes the same files, unless its configuration says otherwise. */
const kubeadmDirectories = ['/etc/kubernetes', '/etc/kubernetes/pki'] as const;

/**
 * Whether any of these paths is the same directory for both processes, by the mounts of each: a container and a mount
 * namespace with an /etc of its own have other files. Mounts can be read where links below /proc/<pid> are closed. A
 * process whose mounts are hidden, or whose root is no mount (chroot), may see ours.
 */
function hasSameFiles(pid: number, paths: readonly string[], procDir: string): boolean {
  const theirs = placesIn(procText(join(procDir, String(pid), 'mountinfo')), paths);
  const ours = placesIn(procText(join(procDir, 'self/mountinfo')), paths.flatMap(withRealPath));
  if (theirs === undefined || ours === undefined) return true;
  return theirs.some((place) => ours.some((own) => isSamePlace(place, own)));
}

/** Undefined where the place of one path is unknown. */
function placesIn(mountinfo = '', paths: readonly string[]): readonly MountedPlace[] | undefined {
  const places = paths.flatMap((path) => placeOf(mountinfo, path) ?? []);
  return places.length < paths.length ? undefined : places;
}

/** A path as written and with its symbolic links followed. */
function withRealPath(path: string): readonly string[] {
  try {
    return [...new Set([path, realpathSync(path)])];
  } catch {
    return [path];
  }
}

/** Whether it is kubeadm, by argv[0] or by the name of its program. */
function isKubeadm(pid: number, procDir: string): boolean {
  const argv = argvOf(pid, procDir);
  if (programOf(argv) !== program) return commOf(pid, procDir) === program;
  const [, first = '', second] = argv; // behind a flag a word may be its value
  return !readOnlySubcommands.has(first) && !(first === 'certs' && second === 'check-expiration');
}

/**
 * Files of this host belong to root, or to the user who runs us. Where the link of its program is closed to us
 * (SYS_PTRACE), the kernel's name of the program must do: argv[0] is chosen by any user.
 */
function mayWrite(pid: number, procDir: string): boolean {
  if (!isPrivileged(pid, procDir)) return false;
  const executable = linkOf(join(procDir, String(pid), 'exe'));
  // The link of a replaced file still has its name, with " (deleted)"; a file with the version in its name is kubeadm,
  // too.
  const name = executable === 'unreadable' ? commOf(pid, procDir) : basename(executable);
  return name.startsWith(program);
}

const commOf = (pid: number, procDir: string): string => procText(join(procDir, String(pid), 'comm'))?.trimEnd() ?? '';

/**
 * Whether it waits at a prompt (`kubeadm reset`, `kubeadm upgrade apply`), before it has changed anything; or hangs.
 */
function isForgotten(pid: number, procDir: string): boolean {
  const uptime = Number.parseFloat(procText(join(procDir, 'uptime')) ?? '');
  if (uptime - (startOf(pid, procDir) ?? NaN) / ticksPerSecond > longestSeconds) return true;
  const waits = `${readCalls[process.arch] ?? 'unknown'} 0x0 `; // read(0, ...): of its standard input
  const threads = join(procDir, String(pid), 'task');
  return pidsIn(threads).some((thread) => procText(join(threads, String(thread), 'syscall'))?.startsWith(waits));
}

/** Links of a process of root that cannot be read may be the same as ours: then we do not write. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch (err) {
    return ['ENOENT', 'ESRCH'].includes((err as NodeJS.ErrnoException).code ?? '') ? 'gone' : 'unreadable';
  }
}

/** Empty where the directory cannot be read. Threads are listed like processes. */
function pidsIn(directory: string): readonly number[] {
  try {
    return processIds(directory);
  } catch {
    return [];
  }
}
