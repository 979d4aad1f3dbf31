// The command that a person is told to type next, as it must be typed: with what was given to this one, and quoted for a
// shell. Pure. One home, so that no message names a command that lacks a flag.

/** `true`: a flag without a value. Of a list each value has the flag of its own. */
export type Given = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

const programName = 'kube-cert-recovery';

/** `flags` by their names on the command line: `{ '--out': '/etc/x' }`; what is undefined or false is left out. */
export function nextCommand(words: string, flags: Given = {}): string {
  const typed = Object.entries(flags).flatMap(([flag, given]) => {
    if (given === undefined || given === false) return [];
    return given === true ? [flag] : [given].flat().map((value) => `${flag}=${value}`);
  });
  return [programName, ...words.split(' ').filter((word) => word !== ''), ...typed].map(shellWord).join(' ');
}

/** Of sh(1): what is not plain stands in single quotes. */
export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
