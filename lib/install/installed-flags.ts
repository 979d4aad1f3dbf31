// The flags that the units of a machine were told: `init host` keeps those that are not given again, and `status` goes by
// them. What a new run changes is told, never passed over. Pure.
import { flagRows, type FlagRow, type FlagsOf, isRepeatable, typedValue } from '../config/flags.ts';

type Line = FlagsOf<'all' | 'modes'>;
type Value = ReturnType<typeof typedValue>;

/** As the value of a flag: takes away what the units were told. */
export const none = 'none';

const keptRows = flagRows.filter(({ units }) => units === 'kept');
const renewalFlags: ReadonlySet<string> = new Set(['--renew-before', '--window', '--warn-only']);
/** Of these each says something about the others: they are kept together, or not. */
const inventoryFlags: ReadonlySet<string> = new Set(['--config', '--preset', '--parameter', '--directory']);
const takenAway: ReadonlySet<string> = new Set(['--renew-before', '--window']);

/** What the words of a command line say for a flag: of those that are said once, the last. */
function saidIn(words: readonly string[], row: FlagRow): Value {
  const values = words.flatMap((word) => (word.startsWith(`${row.flag}=`) ? [word.slice(row.flag.length + 1)] : []));
  if (values.length === 0) return words.includes(row.flag) ? true : undefined;
  return isRepeatable(row) ? values : values.at(-1);
}

interface Told {
  /** Of the units; empty where there are none. */
  readonly words: readonly string[];
  /** Whether the file that is named now, and was not before, says this field. */
  readonly isInFile?: (field: string) => boolean;
}

/**
 * What was typed, and what the units were told besides. `--renew-before=none` takes renewal before expiry away, with what
 * says how; a new threshold without `--warn-only` is to be renewed by. Another inventory has directories of its own.
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

/** The words of the units before and now, program first, held against each other: one line for each difference. */
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
