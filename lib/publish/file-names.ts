// Names that may become file names below a destination directory. Pure. They come from the API, so a user who can write
// an object would otherwise choose paths on this host. The hidden names `..*` are reserved for writer.ts.
import { bounds } from '../bounds.ts';

const longestNameBytes = 255; // NAME_MAX of every common Linux file system

/** Why `name` cannot be a file's name in a published directory; undefined when it can. */
export function nameProblem(name: string): string | undefined {
  if (name === '') return 'is empty';
  if (name === '.') return 'is the directory itself';
  if (name.startsWith('..')) return 'starts with ".."';
  if (name.includes('/') || name.includes('\\')) return 'holds a path separator';
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(name)) return 'holds a control character';
  if (Buffer.byteLength(name) > longestNameBytes) return `is longer than ${longestNameBytes} bytes`;
  return undefined;
}

export const mostNames = bounds.published.most.keys;

/** The first name that cannot be a file's name, as a sentence; undefined when all can. */
export function namesProblem(names: readonly string[]): string | undefined {
  for (const name of names) {
    const problem = nameProblem(name);
    if (problem !== undefined) return `the key ${JSON.stringify(name)} ${problem}; a bare file name is wanted`;
  }
  return undefined;
}
