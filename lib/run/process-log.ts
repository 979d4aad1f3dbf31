// The log of a process, on its standard error.
import { writesToJournal } from '../host/systemd.ts';
import { createLog, type Log, type LogFormat, type LogLevel } from '../log.ts';

export interface LogPlace {
  /** Standard error. */
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean };
  readonly env?: Readonly<Record<string, string | undefined>>;
}

interface LogSettings {
  readonly level: LogLevel;
  readonly format?: LogFormat | undefined;
}

/** Default format: text for people, with priorities where the journal reads it, and on a terminal; else JSON. */
export function processLog({ stderr, env = {} }: LogPlace, { level, format }: LogSettings): Log {
  const usual = writesToJournal(env) ? 'journal' : stderr.isTTY === true ? 'text' : 'json';
  return createLog({ level, format: format ?? usual, write: (line) => void stderr.write(line) });
}
