// The plan of the house, executable: first that each rule sees what breaks it, then that nothing here does.
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  decidersNotSaidPure,
  fileNamesUsedTwice,
  homelessPackages,
  importCycles,
  importsOf,
  impureFiles,
  longFiles,
  namesExportedTwice,
  strayGlobals,
  withoutComments,
  wrongArrows,
  type Tree,
} from './support/project/architecture.ts';

const tree = (files: Record<string, string>): Tree => new Map(Object.entries(files));

const lines = (count: number): string => 'x\n'.repeat(count);

const root = fileURLToPath(new URL('..', import.meta.url));
const project: Tree = new Map(
  globSync('{cmd,lib,scripts,test}/**/*.ts', { cwd: root }).map((path) => [
    path,
    readFileSync(`${root}/${path}`, 'utf8'),
  ]),
);

describe('importsOf()', () => {
  it.each([
    ['a default import', `import a from './a.ts';`, 'lib/x/a.ts'],
    ['a type import', `import type { A } from '../y/a.ts';`, 'lib/y/a.ts'],
    ['an import over many lines', `import {\n  a, // first\n  b,\n} from "../a.ts";`, 'lib/a.ts'],
    ['an export of another file', `export { a } from './a.ts';`, 'lib/x/a.ts'],
    ['an export of everything', `export * from './a.ts';`, 'lib/x/a.ts'],
    ['an import for its effect', `import './a.ts';`, 'lib/x/a.ts'],
    ['a dynamic import', `const a = await import(\n  './a.ts'\n);`, 'lib/x/a.ts'],
    ['a type of a dynamic import', `type A = import('./a.ts').A;`, 'lib/x/a.ts'],
    ['a package', `import { a } from 'a/b.js';`, 'a'],
    ['a scoped package', `import { a } from '@a/b/c.js';`, '@a/b'],
    ['a builtin', `import { a } from 'node:fs/promises';`, 'node:fs/promises'],
  ])('sees %s', (_name, text, to) => {
    expect(importsOf('lib/x/x.ts', text).map((each) => each.to)).toEqual([to]);
  });

  it('sees none in comments, nor in what only looks like one', () => {
    const text = `// import a from './a.ts'\n/* import './b.ts' */\nexport const from = 'x';\nexport type T = 'y';`;
    expect(importsOf('lib/x/x.ts', text)).toEqual([]);
  });

  it('withoutComments() keeps strings and lines', () => {
    expect(withoutComments(`a('https://b'); // c\n/* d\n*/ e`)).toBe(`a('https://b');     \n    \n   e`);
  });
});

describe('wrongArrows()', () => {
  it.each([
    ['from one flow to another', 'lib/regen/x.ts', '../syncer/y.ts', 'lib/regen/x.ts -> lib/syncer/y.ts'],
    ['from status to a flow', 'lib/status/x.ts', '../regen/y.ts', 'lib/status/x.ts -> lib/regen/y.ts'],
    ['from install to adopt', 'lib/install/x.ts', '../adopt/y.ts', 'lib/install/x.ts -> lib/adopt/y.ts'],
    ['from adopt to a flow', 'lib/adopt/x.ts', '../regen/y.ts', 'lib/adopt/x.ts -> lib/regen/y.ts'],
    ['from plan up to a flow', 'lib/plan/x.ts', '../regen/y.ts', 'lib/plan/x.ts -> lib/regen/y.ts'],
    ['from pki up to inventory', 'lib/pki/x.ts', '../inventory/y.ts', 'lib/pki/x.ts -> lib/inventory/y.ts'],
    ['from the root up to a folder', 'lib/x.ts', './kube/y.ts', 'lib/x.ts -> lib/kube/y.ts'],
    ['from store up to the configuration', 'lib/store/x.ts', '../config/y.ts', 'lib/store/x.ts -> lib/config/y.ts'],
    ['from lib up to cmd', 'lib/regen/x.ts', '../../cmd/y.ts', 'lib/regen/x.ts -> cmd/y.ts'],
    ['from the product to the tests', 'lib/regen/x.ts', '../../test/y.ts', 'lib/regen/x.ts -> test/y.ts'],
    ['from a folder nobody knows', 'lib/new/x.ts', '../errors.ts', 'lib/new/x.ts -> lib/errors.ts'],
  ])('names an arrow %s', (_name, path, specifier, arrow) => {
    expect(wrongArrows(tree({ [path]: `import { y } from '${specifier}';` }))).toEqual([
      expect.stringMatching(new RegExp(`^${arrow.replaceAll('.', '\\.')}: `)),
    ]);
  });

  it.each([
    ['cmd/x.ts', '../lib/regen/y.ts'],
    ['lib/regen/x.ts', '../plan/y.ts'],
    ['lib/regen/x.ts', './y.ts'],
    ['lib/adopt/x.ts', '../install/y.ts'],
    ['lib/plan/x.ts', '../store/y.ts'],
    ['lib/store/x.ts', '../inventory/y.ts'],
    ['lib/store/x.ts', '../pki/y.ts'],
    ['lib/pki/x.ts', '../errors.ts'],
    ['lib/config/x.ts', '../inventory/y.ts'],
  ])('lets %s import %s', (path, specifier) => {
    expect(wrongArrows(tree({ [path]: `import { y } from '${specifier}';` }))).toEqual([]);
  });

  it('holds here', () => expect(wrongArrows(project)).toEqual([]));
});

describe('homelessPackages()', () => {
  it('names a package outside its home, and one without a home', () => {
    const found = homelessPackages(
      tree({
        'lib/regen/x.ts': `import type { KubeConfig } from '@kubernetes/client-node';\nimport 'left-pad';`,
        'lib/syncer/x.ts': `await import('chokidar');`,
        'lib/kube/x.ts': `import { request } from 'undici';`,
      }),
    );
    expect(found).toEqual([
      expect.stringMatching(/^lib\/regen\/x\.ts -> @kubernetes\/client-node: the package has another home/),
      'lib/regen/x.ts -> left-pad: a package without a home',
      expect.stringMatching(/^lib\/syncer\/x\.ts -> chokidar: /),
    ]);
  });

  it('holds here', () => expect(homelessPackages(project)).toEqual([]));
});

describe('strayGlobals()', () => {
  it.each([
    ['Date.now()', 'Date.now'],
    ['new Date()', 'new Date()'],
    ['new Date( )', 'new Date()'],
    ['new Date;', 'new Date()'],
    ['setTimeout(f, 1)', 'setTimeout'],
    ['setInterval(f, 1)', 'setInterval'],
    [`import { sleep } from 'node:timers/promises'`, 'node:timers'],
    ['process.exit(1)', 'process.exit'],
    ['process.env.HOME', 'process.env'],
    ['process.argv[2]', 'process.argv'],
  ])('names %s', (text, what) => {
    expect(strayGlobals(tree({ 'lib/plan/x.ts': `\n${text}` }))).toEqual([`lib/plan/x.ts:2: ${what}`]);
  });

  it('lets each be at home, and sees no other use', () => {
    const files = {
      'lib/clock.ts': 'new Date(); setTimeout(f, 1)',
      'cmd/main.ts': 'process.exit(process.argv.length); process.env.HOME',
      'lib/plan/x.ts': 'new Date(now); socket.setTimeout(1); // Date.now()',
      'test/x.ts': 'Date.now()',
    };
    expect(strayGlobals(tree(files))).toEqual([]);
    expect(strayGlobals(tree({ 'cmd/main.ts': 'Date.now()' }))).toHaveLength(1);
  });

  it('holds here', () => expect(strayGlobals(project)).toEqual([]));
});

describe('impureFiles()', () => {
  it.each([
    ['node:fs/promises', '// Decides. Pure.\n'],
    ['zod', '// Decides.\n// Pure: same facts, same answer.\n'],
    ['undici', '// Decides; pure functions below. Pure; time is an argument.\n//\n// And more.\n'],
  ])('names a file that says Pure when it imports %s', (specifier, head) => {
    const found = impureFiles(tree({ 'lib/x/x.ts': `${head}import { x } from '${specifier}';` }));
    expect(found).toEqual([`lib/x/x.ts -> ${specifier}: a pure file only computes`]);
  });

  it('lets them compute, and the others read', () => {
    const files = {
      'lib/x/x.ts': `// Pure.\nimport { createHash } from 'node:crypto';\nimport { x } from '../store/store.ts';`,
      'lib/x/y.ts': `// Reads.\nimport { readFile } from 'node:fs/promises';\n// What follows is Pure.\n`,
    };
    expect(impureFiles(tree(files))).toEqual([]);
  });

  it('holds here', () => expect(impureFiles(project)).toEqual([]));
});

describe('decidersNotSaidPure()', () => {
  it.each(['lib/plan/plan.ts', 'lib/syncer/project.ts', 'lib/regen/judge-lease.ts', 'lib/restart/decide.ts'])(
    'names %s without the word',
    (path) => {
      expect(decidersNotSaidPure(tree({ [path]: '// Decides.\nexport const x = 1; // Pure.\n' }))).toEqual([path]);
      expect(decidersNotSaidPure(tree({ [path]: '// Decides. Pure.\n' }))).toEqual([]);
    },
  );

  it('holds here', () => expect(decidersNotSaidPure(project)).toEqual([]));
});

describe('longFiles()', () => {
  it('names a source of more than 300 lines and a test of more than 500', () => {
    const files = { 'lib/a.ts': lines(300), 'lib/b.ts': lines(301), 'test/a.ts': lines(500), 'test/b.ts': lines(501) };
    expect(longFiles(tree(files))).toEqual(['lib/b.ts: 301 lines, at most 300', 'test/b.ts: 501 lines, at most 500']);
  });

  it('holds here', () => expect(longFiles(project)).toEqual([]));
});

describe('namesExportedTwice()', () => {
  it('names what two files export, declared or passed on', () => {
    const files = {
      'lib/a.ts': 'export interface One {}\nexport const two = 1;\nconst three = 1;',
      'lib/b.ts': `export type { One } from './a.ts';\nexport async function two() {}`,
      'test/c.ts': 'export const two = 2;\nexport const three = 3;',
    };
    expect(namesExportedTwice(tree(files))).toEqual(['One: lib/a.ts, lib/b.ts', 'two: lib/a.ts, lib/b.ts']);
  });

  it('holds here', () => expect(namesExportedTwice(project)).toEqual([]));
});

describe('fileNamesUsedTwice()', () => {
  it('names a file name that stands in two folders, unless it means the same in each', () => {
    const files = { 'lib/kube/api.ts': '', 'lib/store/api.ts': '', 'lib/regen/run.ts': '', 'lib/syncer/run.ts': '' };
    expect(fileNamesUsedTwice(tree(files))).toEqual(['api.ts: lib/kube, lib/store']);
  });

  it('holds here', () => expect(fileNamesUsedTwice(project)).toEqual([]));
});

describe('importCycles()', () => {
  it('names a circle of files', () => {
    const files = {
      'lib/plan/a.ts': `import './b.ts'`,
      'lib/plan/b.ts': `import './c.ts'`,
      'lib/plan/c.ts': `import './a.ts'`,
      'lib/plan/d.ts': `import './a.ts'`,
    };
    expect(importCycles(tree(files))).toEqual(['lib/plan/a.ts -> lib/plan/b.ts -> lib/plan/c.ts -> lib/plan/a.ts']);
  });

  it('names a circle of folders, though no file is in one', () => {
    const files = {
      'lib/store/a.ts': `import '../publish/a.ts'`,
      'lib/store/b.ts': '',
      'lib/publish/a.ts': '',
      'lib/publish/b.ts': `import '../store/b.ts'`,
    };
    expect(importCycles(tree(files))).toEqual(['lib/store -> lib/publish -> lib/store']);
  });

  it('holds here', () => expect(importCycles(project)).toEqual([]));
});

it('looks at the whole product', () => {
  const folders = new Set([...project.keys()].map((path) => path.split('/').slice(0, 2).join('/')));
  for (const folder of ['lib/pki', 'lib/plan', 'lib/regen', 'lib/clock.ts', 'test/support'])
    expect(folders).toContain(folder);
});
