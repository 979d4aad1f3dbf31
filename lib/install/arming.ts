// Whether the units of `init host` would repair this machine, and why. Pure: the facts are those of unit-facts.ts.
import { propertyIn } from '../host/systemd.ts';
import { dropInOf, serviceName, timerName } from './host.ts';

export interface ArmingFacts {
  /** Files of the units; `different`: `init host` would write another content now. */
  readonly files: readonly { readonly path: string; readonly state: 'same' | 'different' | 'absent' }[];
  /** Why the flags of the units cannot be used. */
  readonly flagProblem?: string | undefined;
  /** The program that the units start. `failure`: why it does not run, as the rest of a sentence. */
  readonly program?: { readonly path: string; readonly failure?: string | undefined } | undefined;
  /** Output of `systemctl show` by unit; a string: why there is none. */
  readonly loaded: ReadonlyMap<string, string> | string;
  /** Services whose start waits for a repair. */
  readonly before: readonly string[];
  /** Path of the token of a worker, where it is absent or empty. */
  readonly tokenGone?: string | undefined;
  /** False where rights of this host in the API are known to be missing: no repair needs them. */
  readonly hasRights: boolean;
  /** Whether the clock is confirmed: a renewal before expiry alone needs that. */
  readonly hasClock: boolean;
}

/** Two parts of the units, of which each repairs certificates by itself. */
type Part = 'start' | 'timer';
type Obstacle = readonly [reason: string, ...stopped: readonly Part[]];

/**
 * The verdict on this machine. `isInstalled`: the files of `init host` are there and loaded. `reasons`: obstacles to being
 * armed, else the facts that it rests on. `stillRepairs`: the only part without an obstacle. `remedy`: the command that arms
 * it; where only the last run has failed, the command that shows why.
 */
export function armingOf(facts: ArmingFacts, command: string) {
  const missing = missingIn(facts);
  const obstacles = [...missing, ...runFailure(facts)];
  if (obstacles.length === 0) return { isArmed: true, isInstalled: true, reasons: restsOn(facts), remedy: '' };
  const stillRepairs = (['start', 'timer'] as const).find((part) =>
    obstacles.every(([, ...stopped]) => !stopped.includes(part)),
  );
  const remedy = missing.length === 0 ? `Run: journalctl --unit=${serviceName}` : command;
  return {
    isArmed: false,
    isInstalled: missing.length === 0,
    reasons: reasonsOf(facts, obstacles),
    stillRepairs,
    remedy,
  };
}

/** Where files are absent, the rest follows from that. */
function reasonsOf({ files }: ArmingFacts, obstacles: readonly Obstacle[]): readonly string[] {
  const [absent, ...others] = files.filter(({ state }) => state === 'absent').map(({ path }) => path);
  if (absent === undefined) return obstacles.map(([reason]) => reason);
  return [`"${absent}"${others.length > 0 ? ` and ${others.length} more` : ''} absent`];
}

function missingIn(facts: ArmingFacts): readonly Obstacle[] {
  const { files, flagProblem, program, loaded, before, tokenGone } = facts;
  const both = (reason: string | undefined): readonly Obstacle[] =>
    reason === undefined ? [] : [[reason, 'start', 'timer']];
  const isDropIn = (path: string): boolean => before.some((unit) => path.endsWith(`/${dropInOf(unit)}`));
  const failure = program?.failure;
  return [
    ...files.flatMap(({ path, state }): readonly Obstacle[] =>
      state === 'same' ? [] : [[`"${path}" is not as init host writes it`, isDropIn(path) ? 'start' : 'timer']],
    ),
    ...both(flagProblem && `the flags of the units cannot be used: ${flagProblem}`),
    ...both(failure && `"${program?.path}", which the units start, ${failure}`),
    ...(typeof loaded === 'string' ? both(loaded) : missingInSystemd(loaded, before, program?.path)),
    ...both(tokenGone && `the token "${tokenGone}" is absent or empty`),
  ];
}

function missingInSystemd(
  loaded: ReadonlyMap<string, string>,
  before: readonly string[],
  program = '',
): readonly Obstacle[] {
  const of = (unit: string, name: string): string => propertyIn(loaded.get(unit) ?? '', name);
  const state = of(serviceName, 'LoadState');
  const stale = [timerName, serviceName].filter((unit) => of(unit, 'NeedDaemonReload') === 'yes');
  // A service that is not installed is started by nothing.
  const runs = (unit: string, at: 'ExecStart' | 'ExecStartPre'): boolean =>
    loaded
      .get(unit)
      ?.split('\n')
      .some((line) => line.startsWith(`${at}=`) && line.includes(program)) === true;
  const passed = before.filter((unit) => of(unit, 'LoadState') !== 'not-found' && !runs(unit, 'ExecStartPre'));
  const isOther = state === 'loaded' && !runs(serviceName, 'ExecStart');
  const ofTimer = [
    ...(of(timerName, 'UnitFileState') === 'enabled' ? [] : [`${timerName} is not enabled`]),
    ...(of(timerName, 'ActiveState') === 'active' ? [] : [`${timerName} is not active`]),
    ...(state === 'loaded' ? [] : [`${serviceName} is ${state}`]),
    ...stale.map((unit) => `systemd has not loaded ${unit} as it is on disk`),
    ...(isOther ? [`a drop-in of ${serviceName} replaces what it runs`] : []),
  ];
  return [
    ...ofTimer.map((reason): Obstacle => [reason, 'timer']),
    ...passed.map((unit): Obstacle => [`the start of ${unit} does not run it`, 'start']),
  ];
}

/** Exit code of a run that has done all that it could: but what the administrator alone can bring. */
const byHandCode = '5';

/** Whether that is the `Result` and the `ExecMainStatus` of a run that has done so. */
const hasDone = (result: string, code: string): boolean =>
  result === 'success' || (result === 'exit-code' && code === byHandCode);

const inRun = ({ loaded }: ArmingFacts, name: string): string =>
  propertyIn(typeof loaded === 'string' ? '' : (loaded.get(serviceName) ?? ''), name);

/** Why it failed is not known, so neither part is sure. */
function runFailure(facts: ArmingFacts): readonly Obstacle[] {
  const [result = '', code = ''] = ['Result', 'ExecMainStatus'].map((name) => inRun(facts, name));
  return result === '' || hasDone(result, code) ? [] : [[`the last run failed (${result} ${code})`, 'start', 'timer']];
}

function restsOn(facts: ArmingFacts): readonly string[] {
  const ended = inRun(facts, 'ExecMainExitTimestamp');
  const none = inRun(facts, 'ActiveState') === 'activating' ? 'a run is under way' : 'no run since the boot';
  return [
    'service, timer and drop-in are loaded',
    ended === '' ? none : `last run ${ended}`,
    ...(facts.hasClock
      ? []
      : [
          'no time service confirms the clock (timedatectl), so a renewal waits until a tenth of its threshold is left',
        ]),
    ...(facts.hasRights ? [] : ['rights in the API are missing (see the notes)']),
  ];
}

/** Pure. Whether a unit file does what another one does: comments do not count, nor do further writable directories. */
export function hasEffectOf(content: string, wanted: string, wordsOf: (line: string) => readonly string[]): boolean {
  const [lines, wantedLines] = [effective(content), effective(wanted)];
  const covers = (line: string, other = ''): boolean => {
    const [paths, others] = [line, other].map((one) => wordsOf(one.replace(/^ReadWritePaths=/, '')));
    if (line === other || !line.startsWith('ReadWritePaths=')) return line === other;
    return paths?.every((path) => others?.some((above) => `${path}/`.startsWith(`${above}/`))) === true;
  };
  return lines.length === wantedLines.length && wantedLines.every((line, at) => covers(line, lines[at]));
}

const effective = (content: string): string[] =>
  content.split('\n').filter((line) => line.trim() !== '' && !/^\s*[#;]/.test(line));
