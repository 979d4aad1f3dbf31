// The house rules that a machine can check, as functions from a tree of sources to a list of problems. Sources are read
// as text: comments are blanked, imports found by pattern, which is enough for code that a formatter has seen.
import { basename, dirname, normalize } from 'node:path/posix';

/** Path from the project's root to text. */
export type Tree = ReadonlyMap<string, string>;

interface Import {
  readonly from: string;
  /** A path of the tree, a package's name or `node:...`. */
  readonly to: string;
  readonly kind: 'file' | 'package' | 'builtin';
}

/** Lowest first. A file imports its own folder and layers below its own; a layer named here is a folder or files. */
const layers: readonly (readonly RegExp[])[] = [
  [/^lib\/[^/]+\.ts$/],
  [/^lib\/kube\//, /^lib\/kubeconfig\//, /^lib\/pki\//, /^lib\/disk\//, /^lib\/host\//],
  [/^lib\/inventory\//, /^lib\/store\//, /^lib\/publish\//],
  [/^lib\/plan\//, /^lib\/proof\//, /^lib\/trust\//, /^lib\/issue\//, /^lib\/webhooks\//, /^lib\/restart\//],
  // What a user may configure is said in terms of the inventory and the plan.
  [/^lib\/config\//],
  // Where new content comes from: made here, or obtained elsewhere.
  [/^lib\/origin\//],
  [
    /^lib\/regen\//,
    /^lib\/syncer\//,
    /^lib\/fileobserver\//,
    /^lib\/approver\//,
    /^lib\/status\//,
    /^lib\/install\//,
    /^lib\/adopt\//,
  ],
  // A run is made of their steps.
  [/^lib\/run\//],
  [/^cmd\//],
];
/** In this layer the folders know nothing of each other; in those below, only not in both directions. */
const flows = layers.length - 3;
/** But an adoption is an installation, and more. */
const isAdoption = ({ from, to }: Import): boolean => from.startsWith('lib/adopt/') && to.startsWith('lib/install/');

/** Where a package may be imported. */
const homes: Readonly<Record<string, RegExp>> = {
  '@kubernetes/client-node': /^lib\/kube\//,
  undici: /^lib\/kube\//,
  '@peculiar/x509': /^lib\/pki\//,
  'reflect-metadata': /^lib\/pki\//,
  chokidar: /^lib\/fileobserver\//,
  pino: /^lib\/log\.ts$/,
  yaml: /^lib\/yaml\.ts$/,
  zod: /^lib\/(config|inventory)\//,
  'prom-client': /^lib\/metrics\.ts$/,
  commander: /^cmd\//,
};

/** Things that belong to one place, so that tests can replace them and nothing hides an input. */
const confined: readonly { readonly what: string; readonly pattern: RegExp; readonly home: RegExp }[] = [
  { what: 'Date.now', pattern: /\bDate\.now\b/, home: /^lib\/clock\.ts$/ },
  { what: 'new Date()', pattern: /\bnew Date(?!\w)(?!\s*\(\s*[^\s)])/, home: /^lib\/clock\.ts$/ },
  // The process's own last resort, when a clean stop takes too long, is no part of any loop.
  { what: 'setTimeout', pattern: /(?<![.\w])setTimeout\b/, home: /^(lib\/clock|cmd\/main)\.ts$/ },
  { what: 'setInterval', pattern: /(?<![.\w])setInterval\b/, home: /^lib\/clock\.ts$/ },
  { what: 'node:timers', pattern: /['"]node:timers(\/promises)?['"]/, home: /^lib\/clock\.ts$/ },
  { what: 'process.exit', pattern: /\bprocess\.exit\b/, home: /^cmd\// },
  // chokidar reads two variables of its own; its home takes them away while it starts.
  { what: 'process.env', pattern: /\bprocess\.env\b/, home: /^(cmd\/|lib\/fileobserver\/hints\.ts$)/ },
  { what: 'process.argv', pattern: /\bprocess\.argv\b/, home: /^cmd\// },
];

/** Of a file that only computes: the comment at its head says "Pure." (or "Pure: the time is an argument."). */
const saysPure = /^(?:\/\/.*\n)*?\/\/.*\bPure[.:;]/;
/** Files that decide: same facts, same answer. */
const deciding =
  /^lib\/(?:plan\/(?!gather|signer-copies|faults).*|.*\/(?:decide|guard|project|resolve|judge[^/]*))\.ts$/;
/** Builtins that only compute. */
const computing = new Set(['node:crypto', 'node:net', 'node:path', 'node:path/posix', 'node:util']);

const sourceLines = 300;
const testLines = 500;

const stringOrComment = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\*[^]*?\*\/|\/\/[^\n]*/g;

/** The text without its comments; strings stay. */
export function withoutComments(text: string): string {
  return text.replaceAll(stringOrComment, (found) => (found.startsWith('/') ? found.replaceAll(/[^\n]/g, ' ') : found));
}

/** `import x from 'y'`, `export ... from 'y'`, `import 'y'`, `import('y')`, `import x = require('y')`. */
const importForms = [
  /\b(?:import|export)\b[^'"`;()=]*?\bfrom\s*['"]([^'"]+)['"]/g,
  /\bimport\s*['"]([^'"]+)['"]/g,
  /\b(?:import|require)\s*\(\s*['"`]([^'"`]+)['"`]/g,
];

const packageName = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

export function importsOf(path: string, text: string): Import[] {
  const code = withoutComments(text);
  return importForms
    .flatMap((form) => [...code.matchAll(form)].map((match) => match[1] ?? ''))
    .map((specifier) => {
      if (specifier.startsWith('.')) {
        return { from: path, to: normalize(`${dirname(path)}/${specifier}`), kind: 'file' };
      }
      if (specifier.startsWith('node:')) return { from: path, to: specifier, kind: 'builtin' };
      return { from: path, to: packageName(specifier), kind: 'package' };
    });
}

const isProduct = (path: string): boolean => /^(cmd|lib)\/.*\.ts$/.test(path) && !path.endsWith('.d.ts');
const layerOf = (path: string): number => layers.findIndex((layer) => layer.some((pattern) => pattern.test(path)));
const arrow = ({ from, to }: Pick<Import, 'from' | 'to'>): string => `${from} -> ${to}`;

function productImports(tree: Tree): Import[] {
  return [...tree].filter(([path]) => isProduct(path)).flatMap(([path, text]) => importsOf(path, text));
}

/** Imports that go up, sideways between flows, or out of the product. */
export function wrongArrows(tree: Tree): string[] {
  return productImports(tree).flatMap((each) => {
    if (each.kind !== 'file' || dirname(each.from) === dirname(each.to)) return [];
    const [from, to] = [layerOf(each.from), layerOf(each.to)];
    if (from === -1) return [`${arrow(each)}: ${dirname(each.from)} has no layer, give it one`];
    if (to === -1) return [`${arrow(each)}: ${dirname(each.to)} has no layer, or is no part of the product`];
    if (to > from) return [`${arrow(each)}: goes up`];
    if (to === from && from === flows && !isAdoption(each)) return [`${arrow(each)}: flows do not know each other`];
    return [];
  });
}

/** Packages imported outside their home, or without having one. */
export function homelessPackages(tree: Tree): string[] {
  return productImports(tree).flatMap((each) => {
    if (each.kind === 'builtin' || each.kind === 'file') return [];
    const home = homes[each.to];
    if (home === undefined) return [`${arrow(each)}: a package without a home`];
    return home.test(each.from) ? [] : [`${arrow(each)}: the package has another home (${home.source})`];
  });
}

/** Uses of time, environment and process outside the one place for each. */
export function strayGlobals(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) => {
    if (!isProduct(path)) return [];
    const lines = withoutComments(text).split('\n');
    return confined
      .filter(({ home }) => !home.test(path))
      .flatMap(({ what, pattern }) =>
        lines.flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${what}`] : [])),
      );
  });
}

/** Pure files that import a package, or a builtin that does more than compute. */
export function impureFiles(tree: Tree): string[] {
  return productImports(tree)
    .filter(({ from, to, kind }) => saysPure.test(tree.get(from) ?? '') && kind !== 'file' && !computing.has(to))
    .map((each) => `${arrow(each)}: a pure file only computes`);
}

/** Deciding files whose head comment does not say that they are pure. */
export function decidersNotSaidPure(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) => (deciding.test(path) && !saysPure.test(text) ? [path] : []));
}

export function longFiles(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) => {
    const lines = text.replace(/\n$/, '').split('\n').length;
    const limit = path.startsWith('test/') ? testLines : sourceLines;
    return lines > limit ? [`${path}: ${lines} lines, at most ${limit}`] : [];
  });
}

/** Circles of imports, between files and between folders, each named once by its arrows. */
export function importCycles(tree: Tree): string[] {
  const files = productImports(tree).filter(({ kind, to }) => kind === 'file' && tree.has(to));
  const folders = files
    .map(({ from, to }) => ({ from: dirname(from), to: dirname(to) }))
    .filter(({ from, to }) => from !== to);
  return [...cycles(files), ...cycles(folders)];
}

function cycles(arrows: readonly { readonly from: string; readonly to: string }[]): string[] {
  const next = new Map<string, Set<string>>();
  for (const { from, to } of arrows) next.set(from, (next.get(from) ?? new Set()).add(to));
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (node: string, path: readonly string[]): void => {
    const at = path.indexOf(node);
    if (at !== -1) found.push([...path.slice(at), node].join(' -> '));
    if (at !== -1 || done.has(node)) return;
    for (const each of next.get(node) ?? []) visit(each, [...path, node]);
    done.add(node);
  };
  for (const node of next.keys()) visit(node, []);
  return found;
}

/** Names that two files of the product export: a reader has to look at the import to know which one is meant. */
export function namesExportedTwice(tree: Tree): string[] {
  const exporters = new Map<string, string[]>();
  for (const [path, text] of tree) {
    if (!/^(lib|cmd)\//.test(path)) continue;
    const code = withoutComments(text);
    const declared = [...code.matchAll(exportedName)].map(([, name = '']) => name);
    const listed = [...code.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names = '']) =>
      names.split(',').map((one) =>
        one
          .trim()
          .replace(/^type /, '')
          .replace(/^.* as /, ''),
      ),
    );
    for (const name of new Set([...declared, ...listed].filter((one) => one !== ''))) {
      exporters.set(name, [...(exporters.get(name) ?? []), path]);
    }
  }
  return [...exporters].flatMap(([name, paths]) => (paths.length > 1 ? [`${name}: ${paths.join(', ')}`] : []));
}

/** What a command and the room that does its work share, and what every room may have: the same thing each time. */
const sharedFileNames = new Set([
  'host.ts',
  'init.ts',
  'load.ts',
  'restore.ts',
  'run.ts',
  'schema.ts',
  'status.ts',
  'uninstall.ts',
]);

/** File names that stand in two folders of the product without meaning the same thing in each. */
export function fileNamesUsedTwice(tree: Tree): string[] {
  const folders = new Map<string, string[]>();
  for (const path of tree.keys()) {
    if (!isProduct(path)) continue;
    const name = basename(path);
    folders.set(name, [...(folders.get(name) ?? []), dirname(path)]);
  }
  return [...folders].flatMap(([name, of]) =>
    of.length > 1 && !sharedFileNames.has(name) ? [`${name}: ${of.join(', ')}`] : [],
  );
}

const exportedName = /^export (?:async )?(?:abstract )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm;
