// Flags of `init host`, given now and installed before: for the units, the program that they start, and the directories
// that their runs write to.
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type FlagRow, flagRows, type FlagsOf, isRepeatable, typedValue } from '../lib/config/flags.ts';
import type { ToolConfig } from '../lib/config/load.ts';
import { saidByFile } from '../lib/config/sources.ts';
import { withInstalled } from '../lib/install/installed-flags.ts';
import { isExecutable } from '../lib/install/program-check.ts';
import { copiedProgram, type ProgramPlaces } from '../lib/install/program-copy.ts';
import type { UnitProgram } from '../lib/install/program-install.ts';
import { isCode } from '../lib/errors.ts';
import type { Problem } from '../lib/problems.ts';
import { defaultBackupDir, defaultLockDir } from '../lib/well-known.ts';
import { absoluteConfig, type CommandLine, configInput, type InstallLine, orKubeadm } from './read-config.ts';
import type { Io } from './io.ts';

type HostPlace = Pick<Io, 'cwd' | 'env'>;

export type HostLine = InstallLine & FlagsOf<'init host'>;

/** Flags given now, completed by the flags of the installed units (`words`). `places`: where the program is copied. */
export function hostFlags(
  { executable, workerTokenFile: _of, ...typed }: HostLine,
  { cwd, env }: HostPlace,
  words: readonly string[] = [],
  places?: ProgramPlaces,
) {
  const isInFile = (field: string): boolean => saidByFile(configInput(typed, { cwd, env }), field) !== undefined;
  const line = withInstalled(absoluteConfig(typed, cwd), { words, isInFile });
  const refused = flagRows.filter((row) => row.units === 'refused' && typedValue(line, row) !== undefined);
  const message = 'must be left out: the units of this host do not use it';
  const problems = refused.map(({ flag }): Problem => ({ path: flag, kind: 'conflict', message }));
  const typedPath = executable === undefined ? undefined : resolve(cwd, executable);
  const program: UnitProgram =
    typedPath === undefined && places !== undefined
      ? { executable: copiedProgram(places), copied: { source: ownLauncher, places } }
      : { executable: typedPath ?? ownLauncher, copied: undefined };
  const started = typedPath ?? ownLauncher;
  if (!isExecutable(started)) {
    const wanted = `must name the program that the units start; "${started}" is no file that can be executed`;
    problems.push({ path: '--executable', kind: 'invalid', message: wanted });
  }
  return { flags: orKubeadm(line), program, problems };
}

/** The command line of units without their configuration file, where that is gone: a report, and a removal, need none. */
export const withoutGoneFile = (words: readonly string[]): readonly string[] =>
  words.filter((word) => !word.startsWith(configFlag) || existsSync(word.slice(configFlag.length)));

const configFlag = '--config=';

/** File of metrics that units with this command line write, by their flag or the file that they name as it is now. */
export function metricsFileOf(words: readonly string[], place: HostPlace): string | undefined {
  const { metricsFile, config } = withInstalled<CommandLine>({}, { words });
  if (metricsFile !== undefined || config === undefined) return metricsFile;
  try {
    const said = saidByFile(configInput({ config }, place), 'regen.metricsFile');
    return typeof said === 'string' ? said : undefined;
  } catch (err) {
    if (!isCode(err, 'ConfigInvalid')) throw err;
    return undefined; // that file is gone
  }
}

/** Launcher of this program: dist/kube-cert-recovery starts the modules in dist/app. */
export const ownLauncher = fileURLToPath(new URL('../kube-cert-recovery', import.meta.url));

/** Flags that select the same inventory for the units, whatever directory they start in. */
export function unitFlags(flags: CommandLine, cwd: string): readonly string[] {
  const absolute = ({ as }: FlagRow, text: string): string => {
    if (as === 'path') return resolve(cwd, text);
    if (as !== 'pathsByName') return text;
    const [name, path] = [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)];
    return `${name}=${resolve(cwd, path)}`;
  };
  const kept = flagRows.filter(({ units }) => units === 'kept');
  return [...kept.filter((row) => !isRepeatable(row)), ...kept.filter(isRepeatable)].flatMap((row) =>
    [typedValue(flags, row) ?? []]
      .flat()
      .map((text) => (text === true ? row.flag : `${row.flag}=${absolute(row, String(text))}`)),
  );
}

/**
 * Parents of unusual directories: the units make only our usual ones. The parent must be writable, so that the
 * directory can be made; below /run that is /run itself, because the parent may be gone after a reboot. Also that of
 * the file of metrics.
 */
export function ownParents({
  backupDir,
  lockDir,
  metricsFile,
}: Pick<ToolConfig, 'backupDir' | 'lockDir' | 'metricsFile'>): string[] {
  const unusual = [backupDir, lockDir].filter((path) => !usual.includes(path));
  const parents = unusual.map((path) => (path.startsWith('/run/') ? '/run' : dirname(path)));
  return [...parents, ...[metricsFile ?? []].flat().map((path) => dirname(path))];
}

/** Path with its links resolved as far as it exists: the absent rest is made where its directory leads. */
export function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realOf(parent), basename(path));
  }
}

/** RuntimeDirectory and StateDirectory of the service. */
const usual: readonly string[] = [defaultBackupDir, defaultLockDir];
