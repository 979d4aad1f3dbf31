// Installs the units of lib/install/host.ts on a machine where systemd runs, and removes them. Running it again repairs
// drift. Without systemd nothing is written: another init system has to run the plain command.
import type { ExecFileException } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Disk, realDisk } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { runSystemctl, systemdRuns } from '../host/systemd.ts';
import { usualServices } from '../well-known.ts';
import { isThere, removeFile } from './existing-files.ts';
import { type ProgramPlaces, programPlaces } from './program-copy.ts';
import { adoptedName, defaultUnitDirectory, dropInOf, serviceName, timerName, type UnitFile } from './host.ts';

/** Runs `systemctl` with these arguments. Throws WriteFailed when it fails. */
export type Systemctl = (...args: readonly string[]) => Promise<void>;

export interface HostMachine {
  /** Undefined where systemd does not run. */
  readonly systemctl: Systemctl | undefined;
  readonly disk?: Disk;
  /** Directory of the units. Default: the administrator's, /etc/systemd/system. */
  readonly unitDirectory?: string | undefined;
  /** Places of the copies of the program; undefined: units start it where it lies. */
  readonly places?: ProgramPlaces;
}

const systemctlMs = 90_000;

export function thisMachine(signal: AbortSignal): HostMachine {
  if (!systemdRuns()) return { systemctl: undefined };
  const systemctl: Systemctl = async (...args) => {
    await runSystemctl(args, { timeoutMs: systemctlMs, signal }).catch((err: unknown) => {
      const cause = err as ExecFileException & { readonly stderr: string };
      const state = cause.stderr.trim() || (systemCode(cause) ?? `exit ${String(cause.code)}`);
      const message = `Cannot run command "systemctl ${args.join(' ')}": ${state}; run it as root, then the same command again`;
      throw new RecoveryError('WriteFailed', message, { cause });
    });
  };
  return { systemctl, places: programPlaces };
}

interface HostOutcome {
  readonly written: readonly string[];
  /** Services that do not exist yet; the drop-in takes effect when they do. */
  readonly absent: readonly string[];
}

/** Undefined where systemd does not run; then nothing was written. Throws WriteFailed. */
export async function applyHost(
  files: readonly UnitFile[],
  { systemctl, disk = realDisk }: HostMachine,
  before: readonly string[] = usualServices,
): Promise<HostOutcome | undefined> {
  if (systemctl === undefined) return undefined;
  const written: string[] = [];
  for (const { path, content } of files) {
    const outcome = await replaceFile({ path, content, mode: 0o644, what: 'unit' }, disk);
    if (outcome === 'written') written.push(path);
  }
  // Also when no file has changed: a run that was killed after its last write has not reloaded systemd.
  await systemctl('daemon-reload');
  await systemctl('enable', '--now', timerName);
  const absent: string[] = [];
  for (const unit of before) await systemctl('cat', unit).catch(() => absent.push(unit));
  return { written, absent };
}

/** The usual services, and all with a drop-in of ours, whatever inventory has named them. */
export async function repairedServices(directory: string = defaultUnitDirectory): Promise<readonly string[]> {
  const names = await readdir(directory).catch(() => []);
  const services = names.flatMap((name) => (name.endsWith('.service.d') ? [name.slice(0, -'.d'.length)] : []));
  const repaired = services.filter((unit) => existsSync(join(directory, dropInOf(unit))));
  return [...new Set([...usualServices, ...repaired])];
}

/** Removed (with dryRun: to be removed) files; empty when none exist. Backups stay. Throws WriteFailed, ReadFailed. */
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
  // The timer last: while its file exists, the run after an interrupted one knows that it must stop the timer.
  for (const path of there.toSorted(
    (one, other) => Number(one.endsWith(timerName)) - Number(other.endsWith(timerName)),
  )) {
    await removeFile(path, 'unit', disk);
  }
  await systemctl?.('daemon-reload');
  return there;
}

/** Words of a command line, with systemd's quotes and doubled characters removed. */
export const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain = '']) =>
    (quoted?.replaceAll(/\\(.)/g, '$1') ?? plain).replaceAll('%%', '%').replaceAll('$$', '$'),
  );

/** Command of this host's timer: program and arguments; empty without a timer. */
export const installedCommand = (directory: string = defaultUnitDirectory): readonly string[] =>
  commandOf(join(directory, serviceName));

/** `--out` of the unit that repairs an adopted machine; undefined: no unit, or the default directory. */
export const installedAdoption = (directory: string = defaultUnitDirectory): string | undefined =>
  commandOf(join(directory, adoptedName))
    .find((word) => word.startsWith('--out='))
    ?.slice('--out='.length);

const commandOf = (unit: string): readonly string[] => wordsOf(/^ExecStart=(.*)$/m.exec(readText(unit))?.[1] ?? '');

/** Empty where it cannot be read. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
