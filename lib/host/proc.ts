// Facts from the kernel about processes and this machine (proc(5)). Reads are synchronous: /proc is memory, and each of
// them is shorter than a round through the thread pool. A process that exits during a read is left out, a process that
// hides its mounts counts as none of ours.
import { closeSync, openSync, readdirSync, readFileSync, readSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { bounds } from '../bounds.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { placeOf, type MountedPlace } from './mounts.ts';

/** A process, distinguished from a later one with the same PID by its start (clock ticks since boot). */
export interface ProcessId {
  readonly pid: number;
  readonly started: number;
}

export interface ProcessFacts extends ProcessId {
  readonly argv: readonly string[];
  /** Environment at its start; empty where unreadable. */
  readonly environ: ReadonlyMap<string, string>;
  /** Text of its mountinfo and cgroup files; empty where they cannot be read. */
  readonly mountinfo: string;
  readonly cgroup: string;
  readonly isInOurPidNamespace: boolean;
  /** Whether it runs as root, or as our user, and is no setuid program that another user has started. */
  readonly isPrivileged: boolean;
}

/** USER_HZ, by which /proc counts on every architecture that Kubernetes supports (proc_pid_stat(5), starttime). */
export const ticksPerSecond = 100;

/** Text of a file; undefined where unreadable. */
export function procText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

const mostWords = bounds.process.most.bytes;

/** The first words of such a list; one empty word where unreadable. */
function procWords(path: string): readonly string[] {
  try {
    const file = openSync(path, 'r');
    try {
      const bytes = Buffer.allocUnsafe(mostWords); // of which the bytes read alone are used
      let size = 0;
      // A read of /proc returns no more than a page or so.
      for (let read = -1; read !== 0; size += read) read = readSync(file, bytes, size, mostWords - size, null);
      return bytes.toString('utf8', 0, size).replace(/\0$/, '').split('\0');
    } finally {
      closeSync(file);
    }
  } catch {
    return [''];
  }
}

/** PIDs of all visible processes. Throws ReadFailed. */
export function processIds(procDir = '/proc'): readonly number[] {
  try {
    return readdirSync(procDir).flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  } catch (cause) {
    const message = `Cannot read directory "${procDir}": ${systemCode(cause) ?? 'unknown'}`;
    throw new RecoveryError('ReadFailed', message, { cause });
  }
}

/** The command line; one empty word where there is none. */
export function argvOf(pid: number, procDir = '/proc'): readonly string[] {
  return procWords(`${procDir}/${pid}/cmdline`);
}

/** Environment at its start; without a name of its own where unreadable. */
export function environOf(pid: number): ReadonlyMap<string, string> {
  return new Map(
    procWords(`/proc/${pid}/environ`).map((line) => [line.replace(/=.*$/s, ''), line.replace(/^[^=]*=/, '')]),
  );
}

/** Name of the program, by argv[0]. */
export const programOf = (argv: readonly string[]): string => basename(argv[0] ?? '');

/** Start in clock ticks since boot; undefined when there is no such process, or it is a zombie. */
export function startOf(pid: number, procDir = '/proc'): number | undefined {
  // The name of the program, in parentheses, may contain any character.
  const fields = (procText(`${procDir}/${pid}/stat`) ?? '').replace(/^[^]*\)\s*/, '').split(' ');
  const [state, started] = [fields[0] ?? '', Number(fields[19])];
  return state === '' || 'ZX'.includes(state) || Number.isNaN(started) ? undefined : started;
}

export const isRunning = ({ pid, started }: ProcessId): boolean => startOf(pid) === started;

/**
 * Whether it runs as root, or as our user, by its real and its effective user (proc_pid_status(5), Uid): a setuid
 * program belongs to the user who started it.
 */
export function isPrivileged(pid: number, procDir = '/proc'): boolean {
  const [, ...users] = /^Uid:\s+(\d+)\s+(\d+)\s/m.exec(procText(`${procDir}/${pid}/status`) ?? '') ?? [];
  return users.length === 2 && users.every((uid) => uid === '0' || uid === String(process.getuid?.()));
}

/**
 * Number of nested PID namespaces of a process, from ours inwards (proc_pid_status(5), NSpid). Processes in /proc live
 * in our namespace or below it, so a process of our depth shares our namespace. Links below /proc/<pid>/ns show the
 * same, but are closed to a process without capabilities (ptrace(2)).
 */
function namespaceDepth(pid: number | 'self'): number | undefined {
  const [, numbers] = /^NSpid:\s*(.+)$/m.exec(procText(`/proc/${pid}/status`) ?? '') ?? [];
  return numbers?.split(/\s+/).length;
}

/** Processes of these programs, by argv[0], of any user. Throws ReadFailed. */
export function readProcesses(programs: readonly string[]): readonly ProcessFacts[] {
  const depth = namespaceDepth('self');
  return processIds().flatMap((pid): readonly ProcessFacts[] => {
    const argv = argvOf(pid);
    if (!programs.includes(programOf(argv))) return [];
    const [mountinfo = '', cgroup = ''] = ['mountinfo', 'cgroup'].map((name) => procText(`/proc/${pid}/${name}`));
    const owned = {
      isInOurPidNamespace: depth !== undefined && namespaceDepth(pid) === depth,
      isPrivileged: isPrivileged(pid),
    };
    const started = startOf(pid);
    if (started === undefined) return [];
    return [{ pid, started, argv, environ: environOf(pid), mountinfo, cgroup, ...owned }];
  });
}

/** Places of a path of ours, as written and with its symbolic links followed. */
export function ourPlaces(path: string): readonly MountedPlace[] {
  try {
    const mountinfo = readFileSync('/proc/self/mountinfo', 'utf8');
    return [...new Set([path, realpathSync(path)])].flatMap((one) => placeOf(mountinfo, one) ?? []);
  } catch {
    return []; // no such file, or /proc hidden: then no process is known to be ours
  }
}

/** Identifies the time between two boots; empty where unknown. */
export const bootId = (): string => (procText('/proc/sys/kernel/random/boot_id') ?? '').trim();

/** Boot time of this machine (btime of /proc/stat), milliseconds since the epoch; undefined where unknown. */
export function kernelBootTimeMs(): number | undefined {
  const seconds = /^btime (\d+)$/m.exec(procText('/proc/stat') ?? '')?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}
