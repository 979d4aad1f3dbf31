// Reads /proc. A process that ends while it is looked at is left out, one that hides its mounts counts as none of ours.
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { readFileSync, realpathSync } from 'node:fs';
import { RecoveryError, systemCode } from '../errors.ts';
import { componentNames } from './component.ts';
import { componentOf, type ProcessFacts } from './judge.ts';
import { placeOf, type Place } from './mounts.ts';

const text = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');

/** The processes of all components that a renewal may concern, whoever's they are. Throws ReadFailed. */
export async function readProcesses(): Promise<readonly ProcessFacts[]> {
  const names = await readdir('/proc').catch((cause: unknown): never => {
    throw new RecoveryError('ReadFailed', `Cannot read directory "/proc": ${systemCode(cause) ?? 'unknown'}`, {
      cause,
    });
  });
  const own = await readlink('/proc/self/ns/pid').catch(() => undefined);
  const found = await Promise.all(
    names.filter((name) => /^\d+$/.test(name)).map((name) => readProcess(Number(name), own)),
  );
  return found.flatMap((one) => one ?? []);
}

async function readProcess(pid: number, own: string | undefined): Promise<ProcessFacts | undefined> {
  const directory = `/proc/${pid}`;
  const argv = (await text(`${directory}/cmdline`)).replace(/\0$/, '').split('\0');
  if (!(componentNames as readonly string[]).includes(componentOf(argv))) return undefined;
  const [started, mountinfo, cgroup, namespace, owner] = await Promise.all([
    startOf(pid),
    text(`${directory}/mountinfo`),
    text(`${directory}/cgroup`),
    readlink(`${directory}/ns/pid`).catch(() => undefined),
    stat(directory).then(
      ({ uid }) => uid,
      () => undefined,
    ),
  ]);
  if (started === undefined) return undefined;
  const isPrivileged = owner === 0 || owner === process.getuid?.();
  return { pid, started, argv, mountinfo, cgroup, besideUs: own !== undefined && namespace === own, isPrivileged };
}

/** Clock ticks since boot; undefined when there is no such process, or when it has ended and waits for its parent. */
export async function startOf(pid: number): Promise<number | undefined> {
  // The name of the program, in parentheses, may hold anything.
  const fields = (await text(`/proc/${pid}/stat`)).replace(/^[^]*\)\s*/, '').split(' ');
  const [state, started] = [fields[0] ?? '', Number(fields[19])];
  return state === '' || 'ZX'.includes(state) || Number.isNaN(started) ? undefined : started;
}

/** Where a path of ours lies, as it is written and as it is with its symbolic links followed. */
export function ourPlaces(path: string): readonly Place[] {
  try {
    const mountinfo = readFileSync('/proc/self/mountinfo', 'utf8');
    return [...new Set([path, realpathSync(path)])].flatMap((one) => placeOf(mountinfo, one) ?? []);
  } catch {
    return []; // no such file, or /proc hidden: then nothing is known to be ours
  }
}

/** Names this time between two boots; empty where unknown. */
export async function bootId(): Promise<string> {
  return (await text('/proc/sys/kernel/random/boot_id')).trim();
}
