// Installs the units of lib/install/host.ts on a machine where systemd runs, and removes them. Running it again repairs
// drift. Without systemd nothing is written: another init system has to run the plain command. First it examines the
// program that the units start.
import { execFile, type ExecFileException } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { readdir, realpath, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Disk, realDisk } from '../disk/disk.ts';
import { replaceFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { openPlaces } from '../host/closed-path.ts';
import { runSystemctl, systemdRuns } from '../host/systemd.ts';
import { usualServices } from '../well-known.ts';
import { isThere, removeFile } from './existing-files.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from './layout.ts';
import { workerMode, workerUnitPaths } from './worker-units.ts';
import {
  adoptedName,
  defaultUnitDirectory,
  dropInOf,
  serviceName,
  timerName,
  type UnitFile,
  unitPaths,
} from './host.ts';

/** Runs `systemctl` with these arguments. Throws WriteFailed when it fails. */
type Systemctl = (...args: readonly string[]) => Promise<void>;

export interface HostMachine {
  /** Undefined where systemd does not run. */
  readonly systemctl: Systemctl | undefined;
  readonly disk?: Disk;
  /** Directory of the units. Default: the administrator's, /etc/systemd/system. */
  readonly unitDirectory?: string | undefined;
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
  return { systemctl };
}

interface HostOutcome {
  readonly written: readonly string[];
  readonly unchanged: readonly string[];
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
  const unchanged: string[] = [];
  for (const { path, content } of files) {
    const outcome = await replaceFile({ path, content, mode: 0o644, what: 'unit' }, disk);
    (outcome === 'written' ? written : unchanged).push(path);
  }
  // Also when no file has changed: a run that was killed after its last write has not reloaded systemd.
  await systemctl('daemon-reload');
  await systemctl('enable', '--now', timerName);
  const absent: string[] = [];
  for (const unit of before) await systemctl('cat', unit).catch(() => absent.push(unit));
  return { written, unchanged, absent };
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

// Whether the units of `init host` would run: their files exist, systemd starts the timer at boot, and the program that
// they name exists. No service is queried, so a unit that is masked or fails goes unnoticed.

/** Missing parts, as the beginnings of sentences; empty where the units are armed. Never throws. */
export function missingUnits(
  directory: string = defaultUnitDirectory,
  before: readonly string[] = usualServices,
): readonly string[] {
  return missingOf(unitPaths(directory, before), directory, before);
}

/** Missing parts on a worker, including the token that its units authenticate with. */
export function missingWorkerUnits(directory: string = defaultUnitDirectory): readonly string[] {
  const missing = missingOf(workerUnitPaths(directory), directory, usualServices);
  const words = installedCommand(directory);
  if (missing.length === 0 && words[1] !== workerMode)
    return [`"${join(directory, serviceName)}" is not that of a worker`];
  const flag = '--worker-token-file=';
  const token =
    words.find((word) => word.startsWith(flag))?.slice(flag.length) ?? workerTokenFile(hostLayout(defaultDirectory));
  const hasToken = readText(token).trim() !== '';
  return [...missing, ...(hasToken || missing.length > 0 ? [] : [`the token "${token}" is absent or empty`])];
}

function missingOf(paths: readonly string[], directory: string, before: readonly string[]): readonly string[] {
  const absent = paths.find((path) => !existsSync(path));
  if (absent !== undefined) return [`"${absent}" is absent`];
  const link = join(directory, 'timers.target.wants', timerName);
  const program = programIn(readText(join(directory, dropInOf(before[0] ?? 'kubelet.service'))));
  return [
    ...(existsSync(link) ? [] : [`the timer "${timerName}" is not enabled ("${link}" is absent)`]),
    ...(program === undefined || isExecutable(program)
      ? []
      : [`"${program}", which the units start, is not there or cannot be executed`]),
  ];
}

/** Words of a command line, with systemd's quotes and doubled characters removed. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain = '']) =>
    (quoted?.replaceAll(/\\(.)/g, '$1') ?? plain).replaceAll('%%', '%').replaceAll('$$', '$'),
  );

/** Program after `timeout` and its own arguments. */
const programIn = (dropIn: string): string | undefined =>
  wordsOf(/^ExecStartPre=-\S+ \S+ \d+s (.*)$/m.exec(dropIn)?.[1] ?? '')[0];

/** Command of this host's timer: program and arguments; empty without a timer. */
export const installedCommand = (directory: string = defaultUnitDirectory): readonly string[] =>
  commandOf(join(directory, serviceName));

/** `--out` of the unit that repairs an adopted machine; undefined: no unit, or the default directory. */
export const installedAdoption = (directory: string = defaultUnitDirectory): string | undefined =>
  commandOf(join(directory, adoptedName))
    .find((word) => word.startsWith('--out='))
    ?.slice('--out='.length);

const commandOf = (unit: string): readonly string[] => wordsOf(/^ExecStart=(.*)$/m.exec(readText(unit))?.[1] ?? '');

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Whether the file exists and this process may execute it. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

// Checks of the program before units of root start it: a user who may write it, or a directory on its path, would be
// root from then on, once a minute; and a program that does not run goes unnoticed, because the drop-in of the kubelet
// may fail.

export interface Examined {
  /** Sentences about `path`, each beginning with a requirement. With any of them nothing is installed. */
  readonly problems: readonly string[];
  /** Warnings for the administrator, each a whole sentence. */
  readonly warnings: readonly string[];
}

const runMs = 30_000;
/** Filesystem types (statfs(2)) whose files are gone after a reboot. */
const volatileTypes: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/** `path`: absolute. Never rejects. */
export async function examineProgram(path: string, signal: AbortSignal): Promise<Examined> {
  const file = await realpath(path).catch(() => path);
  const writable = openPlaces(path);
  if (writable.length > 0) {
    const message = `must be a program that root alone may write; ${writable.join(', ')}: give it to root and close it (chown root, chmod go-w), or install the program elsewhere, for example below /opt`;
    return { problems: [message], warnings: await volatileWarning(file) };
  }
  const failure = await firstRun(path, signal);
  const problems = failure === undefined ? [] : [`must be a program that runs; "${path} --version" ${failure}`];
  return { problems, warnings: [...(await partsWarning(file)), ...(await volatileWarning(file))] };
}

/** Problem of the `timeout` program with which the drop-in of the kubelet starts ours. */
export function timeoutProblem(timeout = '/usr/bin/timeout'): string | undefined {
  return isExecutable(timeout)
    ? undefined
    : `needs "${timeout}" (coreutils), which keeps a hanging run from the kubelet; install it`;
}

/** Failure of the first run, as the rest of a sentence. */
function firstRun(path: string, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(path, ['--version'], { timeout: runMs, signal }, (err, _told, said) => {
      if (err === null) return resolve(undefined);
      const how = systemCode(err) ?? (err.signal ? `by ${err.signal}` : `with ${String(err.code)}`);
      const [line = ''] = said.trim().split('\n');
      resolve(`ended ${how}${line === '' ? '' : `: ${line.slice(0, 200)}`}`);
    });
  });
}

/** The launcher starts Node and the modules next to it (scripts/build.ts). */
async function partsWarning(file: string): Promise<string[]> {
  const app = join(dirname(file), 'app');
  const modules = (await readdir(app).catch(() => [])).map((name) => join(app, name));
  const nodes = [join(dirname(file), 'node'), join(dirname(file), '../node_modules/.bin/node')];
  const writable = openPlaces(...modules, ...nodes);
  if (writable.length === 0) return [];
  const all = writable.length === 1 ? '' : ` (and ${writable.length - 1} more)`;
  return [
    `Root runs what others may write: ${writable[0] ?? ''}${all}; give it to root and close it (chown root, chmod go-w).`,
  ];
}

async function volatileWarning(file: string): Promise<string[]> {
  const type = await statfs(file).then(
    (found) => found.type,
    () => undefined,
  );
  if (type === undefined || !volatileTypes.has(type)) return [];
  return [`"${file}" lies in memory (tmpfs) and is gone after a boot: install the program on a disk of this machine.`];
}
