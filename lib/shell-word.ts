// A word of a command that a person is told to type, as a POSIX shell takes it: what others chose to name so (a request, a
// node) must be one argument and nothing else.

/** As it is where nothing in it means anything to a shell, else in single quotes. */
export const shellWord = (text: string): string =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
