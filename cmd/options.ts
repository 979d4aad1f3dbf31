// The flags of the table as commander takes them, with the spellings that static pods use already.
import { Option } from 'commander';
import type { Command } from 'commander';
import { flagRows, isRepeatable } from '../lib/config/flags.ts';
import type { FlagOwner } from '../lib/config/flags.ts';

/** Every value of a flag that may be given several times. */
const each = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];

function longFlags(command: Command): string[] {
  return [...command.options.flatMap(({ long }) => long ?? []), ...command.commands.flatMap(longFlags)];
}

/**
 * Go programs also take `-v=2` and `--v=2`, and static pods are full of them; commander would read the value "=2".
 * An unknown flag loses its value, so that its name alone is compared with the known ones for a suggestion.
 * Arguments behind `--` stay as they are.
 */
export function plainArguments(argv: readonly string[], root: Command): string[] {
  const known = new Set([...longFlags(root), '--help', '--version']);
  const end = argv.indexOf('--');
  return argv.map((argument, at) => {
    if (end !== -1 && at > end) return argument;
    const plain = argument
      .replace(/^-([nvo])=/, '-$1')
      .replace(/^--v(?==|$)/, '--log-level')
      .replace(/^--logging-format(?==|$)/, '--log-format');
    const flag = /^(--[^=]+)=/s.exec(plain)?.[1];
    return flag === undefined || known.has(flag) ? plain : flag;
  });
}

/** The flags of the table that these have. */
export function addFlags(command: Command, ...owners: readonly FlagOwner[]): Command {
  for (const row of flagRows.filter(({ owner }) => owners.includes(owner))) {
    const option = new Option(row.usage, row.help);
    command.addOption(isRepeatable(row) ? option.argParser(each) : option);
  }
  return command;
}
