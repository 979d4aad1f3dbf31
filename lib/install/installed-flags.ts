// Flags in the installed units of a machine: `init host` keeps those that are not given again, and `status` uses them.
// Changes by a new run are always reported. Pure.
import { dirname } from 'node:path';
import { flagRows, type FlagRow, type FlagsOf, isRepeatable, typedValue } from '../config/flags.ts';
import { defaultDirectory } from './layout.ts';

type Line = FlagsOf<'all' | 'modes'>;
type Value = ReturnType<typeof typedValue>;

/** Flag value that removes an installed flag. */
export const none = 'none';

const keptRows = flagRows.filter(({ units }) => units === 'kept');
const renewalFlags: ReadonlySet<string> = new Set(['--renew-before', '--window', '--warn-only']);
/** These flags depend on each other: all are kept, or none. */
const inventoryFlags: ReadonlySet<string> = new Set(['--config', '--preset', '--parameter', '--directory']);
const takenAway: ReadonlySet<string> = new Set(['--renew-before', '--window', '--metrics-file', '--on-renewed']);

/** Value of a flag on a command line; the last one unless the flag is repeatable. */
function saidIn(words: readonly string[], row: FlagRow): Value {
  const values = words.flatMap((word) => (word.startsWith(`${row.flag}=`) ? [word.slice(row.flag.length + 1)] : []));
  if (values.length === 0) return words.includes(row.flag) ? true : undefined;
  return isRepeatable(row) ? values : values.at(-1);
}

interface Told {
  /** Command line of the units; empty without units. */
  readonly words: readonly string[];
  /** Whether the configuration file, when newly named, sets this field. */
  readonly isInFile?: (field: string) => boolean;
}

/**
 * Given flags, completed by the flags of the units. `--renew-before=none` removes renewal before expiry together with
 * its other flags; a new threshold without `--warn-only` enables renewal. Another inventory has directories of its own.
 */
export function withInstalled<L extends Line>(line: L, { words, isInFile = () => false }: Told): L {
  const isOther = isOtherInventory(line, words);
  const isNewFile = keptRows.some((row) => row.flag === '--config' && typedValue(line, row) !== undefined && isOther);
  const keeps = (row: FlagRow): boolean => {
    if (inventoryFlags.has(row.flag)) return !isOther;
    if (renewalFlags.has(row.flag) && line.renewBefore === none) return false;
    if (row.flag === '--warn-only' && line.renewBefore !== undefined) return false;
    return row.field === undefined || !isNewFile || !isInFile(row.field);
  };
  const kept = keptRows.flatMap((row) => {
    const typed = typedValue(line, row);
    const value = typed ?? (keeps(row) ? saidIn(words, row) : undefined);
    return value === undefined || (takenAway.has(row.flag) && value === none) ? [] : [[row.key, value] as const];
  });
  const others = Object.entries(line).filter(([key]) => !keptRows.some((row) => row.key === key));
  return Object.fromEntries([...others, ...kept]) as L;
}

function isOtherInventory(line: Line, words: readonly string[]): boolean {
  const named = keptRows.filter(({ flag }) => flag === '--config' || flag === '--preset');
  return named.some((row) => {
    const typed = typedValue(line, row);
    return typed !== undefined && typed !== saidIn(words, row);
  });
}

/** Differences between the units' command lines before and now: one line for each. */
export function changesOf(before: readonly string[], now: readonly string[]): readonly string[] {
  if (before.length === 0) return [];
  const [was, is] = [renewalText(before), renewalText(now)];
  const others = keptRows.filter(({ flag }) => !renewalFlags.has(flag));
  const [programBefore = '', programNow = ''] = [before[0], now[0]];
  return [
    ...(was === is ? [] : [`${renewal}: was ${was}, now ${is}`]),
    ...others.flatMap((row) => changeOf(row, before, now)),
    ...(programBefore === programNow ? [] : [`Program: was ${programBefore}, now ${programNow}`]),
  ];
}

/** The same for people, who also learn what has stayed: whether anything is renewed before it expires. */
export function settingLines(before: readonly string[], now: readonly string[]): readonly string[] {
  const changes = changesOf(before, now);
  const isTold = changes.some((line) => line.startsWith(`${renewal}:`));
  return isTold ? changes : [`${renewal}: ${renewalText(now)}`, ...changes];
}

const renewal = 'Renewal before expiry';

function changeOf(row: FlagRow, before: readonly string[], now: readonly string[]): readonly string[] {
  const text = (words: readonly string[]): string => {
    const said = saidIn(words, row);
    return said === undefined ? 'not given' : [said].flat().join(', ');
  };
  const [was, is] = [text(before), text(now)];
  return was === is ? [] : [`${row.flag}: was ${was}, now ${is}`];
}

/** `30d in Sat/02:00-05:00`, `off`. */
function renewalText(words: readonly string[]): string {
  const [before, window, config] = ['--renew-before', '--window', '--config'].map((flag) =>
    keptRows.flatMap((row) => (row.flag === flag ? [saidIn(words, row)] : [])).find((said) => typeof said === 'string'),
  );
  if (before === undefined) return config === undefined ? 'off' : `as ${config} says`;
  const when = window === undefined ? '' : ` in ${window}`;
  return `${before}${when}${words.includes('--warn-only') ? ', only said (--warn-only)' : ''}`;
}

const tokenFlag = '--worker-token-file=';

/** The token that the units of a worker name; undefined: it is in its usual place. */
export const tokenFileIn = (words: readonly string[]): string | undefined =>
  words.find((word) => word.startsWith(tokenFlag))?.slice(tokenFlag.length);

/** The flag with which they do. */
export const tokenFlags = (file: string | undefined): readonly string[] =>
  file === undefined ? [] : [`${tokenFlag}${file}`];

/** Directory for all files of this program on a worker, by the token that its units name. */
export function workerDirectory(words: readonly string[]): string {
  const file = tokenFileIn(words);
  // The inverse of workerTokenFile.
  return file === undefined ? defaultDirectory : dirname(dirname(dirname(file)));
}
