// Flags in the installed units of a machine: `init host` keeps those that are not given again, and `status` uses them.
// Changes by a new run are always reported. Pure.
import { flagRows, type FlagRow, type FlagsOf, isRepeatable, typedValue } from '../config/flags.ts';

type Line = FlagsOf<'all' | 'modes'>;
type Value = ReturnType<typeof typedValue>;

/** Flag value that removes an installed flag. */
export const none = 'none';

const keptRows = flagRows.filter(({ units }) => units === 'kept');
const renewalFlags: ReadonlySet<string> = new Set(['--renew-before', '--window', '--warn-only']);
/** These flags depend on each other: all are kept, or none. */
const inventoryFlags: ReadonlySet<string> = new Set(['--config', '--preset', '--parameter', '--directory']);
const takenAway: ReadonlySet<string> = new Set(['--renew-before', '--window']);

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

/** Differences between the units' command lines before and now, program first: one line for each. */
export function changesOf(before: readonly string[], now: readonly string[]): readonly string[] {
  const [was, is] = [renewalText(before), renewalText(now)];
  const isNew = before.length === 0;
  const renewal = isNew || was === is ? is : `was ${was}, now ${is}`;
  const others = keptRows.filter(({ flag }) => !renewalFlags.has(flag));
  const [programBefore = '', programNow = ''] = [before[0], now[0]];
  return [
    `Renewal before expiry: ${renewal}`,
    ...(isNew ? [] : others.flatMap((row) => changeOf(row, before, now))),
    ...(isNew || programBefore === programNow ? [] : [`Program: was ${programBefore}, now ${programNow}`]),
  ];
}

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
