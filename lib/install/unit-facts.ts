// Facts about the units of `init host` on this machine, for arming.ts: their files, the program that they start, and
// what systemd has loaded. Changes nothing.
import { existsSync } from 'node:fs';
import { errorText } from '../errors.ts';
import { shownOf, systemdRuns } from '../host/systemd.ts';
import { type ArmingFacts, hasEffectOf } from './arming.ts';
import { installedCommand, readText, wordsOf } from './host-apply.ts';
import { defaultUnitDirectory, serviceName, timerName, unitPaths, type UnitFile } from './host.ts';
import { tokenFileIn } from './installed-flags.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from './layout.ts';
import { firstRun } from './program-check.ts';
import { workerUnitPaths } from './worker-units.ts';

interface Looking {
  readonly isWorker: boolean;
  readonly before: readonly string[];
  /** Files that `init host` would write now, with the flags of the units. */
  readonly rendered: (words: readonly string[]) => Promise<readonly UnitFile[]>;
  readonly signal: AbortSignal;
  readonly directory?: string | undefined;
  /** Asks systemd. */
  readonly show?: typeof askSystemd | undefined;
  /** Runs the program; a run of the units need not. */
  readonly tryProgram?: typeof firstRun;
}

/** Never rejects. */
export async function lookAtUnits(looking: Looking): Promise<Omit<ArmingFacts, 'hasRights' | 'hasClock'>> {
  const { isWorker, before, rendered, signal, directory = defaultUnitDirectory } = looking;
  const { tryProgram = firstRun, show = askSystemd } = looking;
  const words = installedCommand(directory);
  const [path = ''] = words;
  const paths = isWorker ? workerUnitPaths(directory) : unitPaths(directory, before);
  let flagProblem: string | undefined;
  const wanted = await rendered(words).catch((err: unknown) => {
    flagProblem = errorText(err);
    return [];
  });
  const stateOf = (one: string): ArmingFacts['files'][number]['state'] => {
    if (!existsSync(one)) return 'absent';
    const content = wanted.find((file) => file.path === one)?.content;
    return content === undefined || hasEffectOf(readText(one), content, wordsOf) ? 'same' : 'different';
  };
  const failure = path === '' ? undefined : await tryProgram(path, signal);
  return {
    files: paths.map((one) => ({ path: one, state: stateOf(one) })),
    flagProblem,
    program: { path, ...(failure !== undefined && { failure: `does not run: "--version" ${failure}` }) },
    loaded: await show([timerName, serviceName, ...before], signal),
    before,
    ...(isWorker && { tokenGone: tokenGone(words) }),
  };
}

const asked =
  'LoadState ActiveState UnitFileState NeedDaemonReload ExecStart ExecStartPre Result ExecMainStatus ExecMainExitTimestamp';

async function askSystemd(units: readonly string[], signal: AbortSignal): Promise<ArmingFacts['loaded']> {
  if (!systemdRuns()) return 'systemd does not run here, and starts nothing';
  return (await shownOf(units, asked.split(' '), signal)) ?? 'systemd does not answer';
}

/** Path of the token, unless something is in it. */
function tokenGone(words: readonly string[]): string | undefined {
  const path = tokenFileIn(words) ?? workerTokenFile(hostLayout(defaultDirectory));
  return readText(path).trim() === '' ? path : undefined;
}
