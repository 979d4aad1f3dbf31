// The next command for the administrator, as it must be typed: with the flags given to this one, and quoted for a
// shell. Pure. One home, so that no message names a command that lacks a flag.

/** `true`: a flag without a value. Each value of a list has a flag of its own. */
export type Given = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

const programName = 'kube-cert-recovery';

/** `flags` by their names on the command line: `{ '--out': '/etc/x' }`; undefined and false are left out. */
export function nextCommand(words: string, flags: Given = {}): string {
  const typed = Object.entries(flags).flatMap(([flag, given]) => {
    if (given === undefined || given === false) return [];
    return given === true ? [flag] : [given].flat().map((value) => `${flag}=${value}`);
  });
  return [programName, ...words.split(' ').filter((word) => word !== ''), ...typed].map(shellWord).join(' ');
}

/** A word for sh(1): in single quotes unless plain. */
export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

/** What helps where no certificate can be requested. `node`: its name, where known. */
export const byHandAdvice = (node = 'NODE'): string =>
  `run "${nextCommand(`worker ${node}`)}" on a control-plane node and bring its file here, or join this machine again`;
