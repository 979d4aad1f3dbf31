// Whether what `init host` has written would run: its files are there, systemd starts the timer at boot, and the program
// that they name is there. Asks nobody, so it says nothing about a unit that was masked or fails.
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { defaultUnitDirectory, timerName, unitPaths } from './host.ts';

/** What is missing, as the beginnings of sentences; none where the units are armed. Never throws. */
export function missingUnits(directory: string = defaultUnitDirectory): readonly string[] {
  const absent = unitPaths(directory).find((path) => !existsSync(path));
  if (absent !== undefined) return [`"${absent}" is absent`];
  const link = join(directory, 'timers.target.wants', timerName);
  const program = programIn(readText(unitPaths(directory).find((path) => basename(path).endsWith('.conf')) ?? ''));
  return [
    ...(existsSync(link) ? [] : [`the timer "${timerName}" is not enabled ("${link}" is absent)`]),
    ...(program === undefined || isExecutable(program)
      ? []
      : [`"${program}", which the units start, is not there or cannot be executed`]),
  ];
}

/** The absolute path behind `timeout` and its arguments, with systemd's quotes and doubled characters taken back. */
function programIn(dropIn: string): string | undefined {
  const [, quoted, plain] = /^ExecStartPre=-\S+ \S+ \d+s (?:"((?:[^"\\]|\\.)*)"|(\S+))/m.exec(dropIn) ?? [];
  const word = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain;
  return word?.replaceAll('%%', '%').replaceAll('$$', '$');
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Whether there is a file that this process may execute. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
