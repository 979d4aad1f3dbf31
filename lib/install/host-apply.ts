// Puts the units of lib/install/host.ts on a machine where systemd runs, and takes them away again. Running it again
// repairs what has drifted. Without systemd nothing is written: another init system has to be told the plain command.
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { attempt, type Disk, realDisk } from '../disk/disk.ts';
import { replaceFile, syncDirectory } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { isThere } from './existing-files.ts';
import { defaultUnitDirectory, timerName, type UnitFile, unitPaths } from './host.ts';

/** Runs `systemctl` with these arguments. Throws WriteFailed when it fails. */
export type Systemctl = (...args: readonly string[]) => Promise<void>;

export interface HostMachine {
  /** Undefined where systemd does not run. */
  readonly systemctl: Systemctl | undefined;
  readonly disk?: Disk;
}

/** This machine. systemd is PID 1 exactly where this directory exists (sd_booted(3)). */
export function thisMachine(signal: AbortSignal): HostMachine {
  if (!existsSync('/run/systemd/system')) return { systemctl: undefined };
  const systemctl: Systemctl = (...args) =>
    new Promise((resolve, reject) => {
      execFile('systemctl', args, { timeout: 90_000, signal }, (err, _out, told) => {
        if (err === null) resolve();
        else reject(failed(args, told.trim() || (systemCode(err) ?? `exit ${String(err.code)}`), err));
      });
    });
  return { systemctl };
}

function failed(args: readonly string[], state: string, cause: unknown): RecoveryError {
  const message = `Cannot run command "systemctl ${args.join(' ')}": ${state}; run it as root, then the same command again`;
  return new RecoveryError('WriteFailed', message, { cause });
}

export interface HostOutcome {
  readonly written: readonly string[];
  readonly unchanged: readonly string[];
  /** Whether there is a unit of the kubelet for the drop-in to take part in. */
  readonly hasKubelet: boolean;
}

/** Undefined where systemd does not run; then nothing was written. Throws WriteFailed. */
export async function applyHost(
  files: readonly UnitFile[],
  { systemctl, disk = realDisk }: HostMachine,
): Promise<HostOutcome | undefined> {
  if (systemctl === undefined) return undefined;
  const written: string[] = [];
  const unchanged: string[] = [];
  for (const { path, content } of files) {
    const outcome = await replaceFile({ path, content, mode: 0o644, what: 'unit' }, disk);
    (outcome === 'written' ? written : unchanged).push(path);
  }
  // Also when no file has changed: a run that died after its last write has not told systemd.
  await systemctl('daemon-reload');
  await systemctl('enable', '--now', timerName);
  const hasKubelet = await systemctl('cat', 'kubelet.service').then(
    () => true,
    () => false,
  );
  return { written, unchanged, hasKubelet };
}

/** What was removed (with dryRun: would be), none when nothing was there. Backups stay. Throws WriteFailed, ReadFailed. */
export async function removeHost(
  paths: readonly string[],
  { systemctl, disk = realDisk, dryRun }: HostMachine & { readonly dryRun: boolean },
): Promise<readonly string[]> {
  const there: string[] = [];
  for (const path of paths) {
    if (await isThere(path, `unit "${path}"`, disk)) there.push(path);
  }
  if (dryRun || there.length === 0) return there;
  if (there.some((path) => path.endsWith(timerName))) await systemctl?.('disable', '--now', timerName);
  // The timer last: while its file is there, a run that was interrupted knows what to stop.
  for (const path of there.toSorted(
    (one, other) => Number(one.endsWith(timerName)) - Number(other.endsWith(timerName)),
  )) {
    const directory = dirname(path);
    await attempt({ code: 'WriteFailed', action: 'remove', what: `unit "${path}"`, directory }, async () => {
      await disk.rm(path, { force: true });
      await syncDirectory(disk, directory);
    });
  }
  await systemctl?.('daemon-reload');
  return there;
}

// Whether what `init host` has written would run: its files are there, systemd starts the timer at boot, and the program
// that they name is there. Asks nobody, so it says nothing about a unit that was masked or fails.

/** What is missing, as the beginnings of sentences; none where the units are armed. Never throws. */
export function missingUnits(directory: string = defaultUnitDirectory): readonly string[] {
  const absent = unitPaths(directory).find((path) => !existsSync(path));
  if (absent !== undefined) return [`"${absent}" is absent`];
  const link = join(directory, 'timers.target.wants', timerName);
  const program = programIn(readText(unitPaths(directory).find((path) => basename(path).endsWith('.conf')) ?? ''));
  return [
    ...(existsSync(link) ? [] : [`the timer "${timerName}" is not enabled ("${link}" is absent)`]),
    ...(program === undefined || isExecutable(program)
      ? []
      : [`"${program}", which the units start, is not there or cannot be executed`]),
  ];
}

/** The absolute path behind `timeout` and its arguments, with systemd's quotes and doubled characters taken back. */
function programIn(dropIn: string): string | undefined {
  const [, quoted, plain] = /^ExecStartPre=-\S+ \S+ \d+s (?:"((?:[^"\\]|\\.)*)"|(\S+))/m.exec(dropIn) ?? [];
  const word = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain;
  return word?.replaceAll('%%', '%').replaceAll('$$', '$');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Whether there is a file that this process may execute. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
