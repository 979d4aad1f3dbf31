// Lines that a program printed at another time, or on another machine, made comparable. Pure.
import { stripVTControlCharacters } from 'node:util';

const varying: readonly (readonly [RegExp, string])[] = [
  [/\w{3} \d\d, \d{4} \d\d:\d\d UTC/g, 'DATE'],
  [/; (a run is under way|no run since the boot|last run [^;.]*)/g, '; last run'],
  [/-[0-9a-f]{12}\b/g, '-HASH'],
  [/\d+(?:[smhdy]| s)\b/g, 'TIME'],
  [/\d+/g, 'N'],
  [/ {2,}/g, '  '],
];

/** Without colours, and with one text for each date, duration, number, and width of a table. */
export const comparable = (lines: readonly string[]): readonly string[] =>
  lines.map((line) =>
    varying.reduce((text, [pattern, by]) => text.replaceAll(pattern, by), stripVTControlCharacters(line)).trimEnd(),
  );
