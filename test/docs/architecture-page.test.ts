// The walks of ARCHITECTURE.md: every function that they name is in the file that they name.
import { describe, expect, it } from 'vitest';
import { page } from './markdown.ts';

interface Stop {
  readonly name: string;
  readonly path: string;
}

/** Lines of the form `name()   path.ts   what it does`. */
function stopsOf(text: string): Stop[] {
  return [...text.matchAll(/^(\w+)\(\) +((?:cmd|lib)\/\S+\.ts) +\S/gm)].map(([, name = '', path = '']) => ({
    name,
    path,
  }));
}

/** Whether the source declares a function or method of that name. */
const declares = (source: string, name: string): boolean =>
  new RegExp(`^(?:export )?(?:async )?function\\*? ${name}\\b|^  (?:async )?${name}\\(.*\\{$`, 'm').test(source);

describe('ARCHITECTURE.md', () => {
  const walks = page('ARCHITECTURE.md').split(/^\*\*/m).slice(1);

  it('has five walks', () => {
    expect(walks.map((walk) => stopsOf(walk).length > 5)).toEqual([true, true, true, true, true]);
  });

  it.each(walks.flatMap(stopsOf))('$name() is in $path', ({ name, path }) => {
    expect(declares(page(path), name)).toBe(true);
  });

  it('a function that is not there is seen', () => {
    expect(declares('export function look(): void {}', 'looks')).toBe(false);
    expect(declares('  look(): void {\n  }', 'look')).toBe(true);
  });
});
