// Flags of `status` alone: those with a form of their own are parsed here, and all are handed on as a whole to what reads
// and to what prints.
import { flagRows, type FlagsOf, typedValue } from '../lib/config/flags.ts';
import { parseDuration } from '../lib/duration.ts';
import { type Problem, valueText } from '../lib/problems.ts';
import type { StatusFormat } from '../lib/status/structured.ts';
import { outputFormat } from './read-config.ts';

export type StatusRequest = ReturnType<typeof statusFlags>['options'];

/** The part that selects facts, for callers that print nothing, too. */
export type SightRequest = Omit<StatusRequest, 'output' | 'at'> & Partial<Pick<StatusRequest, 'at'>>;

const formats = ['table', 'json', 'yaml'] as const satisfies readonly StatusFormat[];

/** An RFC 3339 date or time; a date alone is its first second, UTC. */
function dateOf(text: string): Date | undefined {
  const [, day] = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? [];
  const [date, midnight] = [new Date(text), new Date(`${day}T00:00:00Z`)];
  if (Number.isNaN(date.getTime()) || Number.isNaN(midnight.getTime())) return undefined;
  // Date parses 30 February as 2 March: the resulting day must be the given one.
  return midnight.toISOString().slice(0, 10) === day ? date : undefined;
}

function ownFlags(line: FlagsOf<'status'>): FlagsOf<'status'> {
  const own = flagRows
    .filter(({ owner }) => owner === 'status')
    .map((row) => [row.key, typedValue(line, row)] as const);
  return Object.fromEntries(own.filter(([, value]) => value !== undefined));
}

export function statusFlags(line: FlagsOf<'status'>) {
  const { output: wanted, at, wait, watch, ...others } = ownFlags(line);
  const problems: Problem[] = [];
  const isAgain = wait !== undefined || watch === true;
  const refuse = (path: string, message: string): void => void problems.push({ path, kind: 'conflict', message });
  if (others.fleet === true && at !== undefined)
    refuse('--at', 'must be left out with --fleet, which nodes report for today');
  if (isAgain && (at !== undefined || others.fleet === true))
    refuse(
      wait === undefined ? '--watch' : '--wait',
      'must be left out with --at and --fleet: it looks at this machine now',
    );
  const output = outputFormat(formats, wanted, problems);
  const again = { waitMs: durationOfFlag('--wait', wait, problems), isWatched: watch };
  return { options: { ...others, output, at: dateOfFlag(at, problems) }, again, problems };
}

/** Milliseconds; undefined where the flag is absent or wrong. */
export function durationOfFlag(path: string, text: string | undefined, problems: Problem[]): number | undefined {
  const ms = text === undefined ? undefined : parseDuration(text);
  if (text !== undefined && ms === undefined) {
    problems.push({ path, kind: 'invalid', message: `must be a duration such as 30s or 2m, got ${valueText(text)}` });
  }
  return ms;
}

/** Value of --at; undefined where it is absent or wrong. */
export function dateOfFlag(at: string | undefined, problems: Problem[]): Date | undefined {
  const date = at === undefined ? undefined : dateOf(at);
  if (at !== undefined && date === undefined) {
    const message = `must be a date such as 2027-05-31 or 2027-05-31T08:00:00Z, got ${valueText(at)}`;
    problems.push({ path: '--at', kind: 'invalid', message });
  }
  return date;
}
