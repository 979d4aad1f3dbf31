// The program, bundled, with the presets beside it: of dist and of the packages. Comments and blanks go, because Node keeps
// the text in memory; names and short lines stay, because Node prints the line of an uncaught error. The same sources and
// stamp give the same bytes.
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type BuildOptions, type Plugin } from 'esbuild';
import { checkedPreset, presetNames } from '../lib/inventory/preset.ts';
import type { Stamp } from './build-stamp.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** A small heap: the default young generation alone takes another 16 MB of RSS. See also lib/engine.ts. */
export const nodeFlags = ['--max-old-space-size=64', '--max-semi-space-size=1'] as const;

/** Finds itself through symbolic links, and the Node that the project brings before one on the PATH. */
export async function launcher(): Promise<string> {
  const text = await readFile(`${root}scripts/launcher.sh`, 'utf8');
  return text.replace('NODE_FLAGS', nodeFlags.join(' '));
}

/**
 * What is loaded stays in memory for months. Of undici we use two functions, and its index loads everything, caches and
 * mocks included. commander starts no program for us, and pino writes in no thread and needs not know who calls it.
 */
const lean: Plugin = {
  name: 'lean',
  setup(bundle) {
    const parts = {
      undici: `
        const { prototype } = require('undici/lib/dispatcher/dispatcher.js');
        prototype.request = require('undici/lib/api/api-request.js'); // as its index does
        exports.Client = require('undici/lib/dispatcher/client.js');
        exports.buildConnector = require('undici/lib/core/connect.js');`,
      worker_threads: `exports.isMainThread = true;`,
      'thread-stream': '',
      'node:child_process': '',
      './lib/caller': 'module.exports = () => [];',
    };
    bundle.onResolve(
      { filter: /^(undici|worker_threads|thread-stream|node:child_process|\.\/lib\/caller)$/ },
      ({ path, importer }) => {
        const isOfOurs = !importer.includes('/node_modules/');
        return path !== 'undici' && isOfOurs ? undefined : { path, namespace: 'lean' };
      },
    );
    bundle.onLoad({ filter: /.*/, namespace: 'lean' }, ({ path }) => ({
      contents: parts[path as keyof typeof parts],
      resolveDir: root,
    }));
  },
};

/** main.ts starts the text of all modules, not the modules. */
const built: Plugin = {
  name: 'built',
  setup(bundle) {
    bundle.onResolve({ filter: /^\.\/cli\.ts$/ }, () => ({ path: `${root}scripts/built-program.ts` }));
  },
};

interface Built {
  /** Path of the one text of all modules. */
  readonly text: string;
  /** Absolute paths of the files that are in it. */
  readonly bundled: readonly string[];
}

/** Empties the directory `app` and writes the program there. */
export async function writeProgram(app: string, stamp: Stamp): Promise<Built> {
  await rm(app, { recursive: true, force: true });
  await mkdir(app, { recursive: true });
  const shared = {
    absWorkingDir: root,
    outdir: app,
    bundle: true,
    platform: 'node',
    mainFields: ['module', 'main'],
    target: 'node24',
    minifyWhitespace: true,
    lineLimit: 120,
    metafile: true,
    legalComments: 'none', // they are in THIRD-PARTY-NOTICES, whole
    logLevel: 'warning',
  } as const satisfies BuildOptions;
  const program = await build({
    ...shared,
    entryPoints: [`${root}cmd/cli.ts`],
    entryNames: 'program-[hash]',
    outExtension: { '.js': '.cjs' },
    format: 'cjs',
    supported: { 'dynamic-import': false }, // there is one text only
    plugins: [lean],
    banner: { js: '(function(require,module,moduleUrl){"use strict";' },
    footer: { js: '})' },
    define: {
      'import.meta.url': 'moduleUrl',
      VERSION: JSON.stringify(stamp.version),
      COMMIT: JSON.stringify(stamp.commit),
      BUILT_AT: JSON.stringify(stamp.builtAt),
    },
  });
  const [text = ''] = Object.keys(program.metafile.outputs);
  await build({
    ...shared,
    entryPoints: [`${root}cmd/main.ts`],
    outExtension: { '.js': '.mjs' },
    format: 'esm',
    plugins: [built],
    define: { PROGRAM: JSON.stringify(basename(text)) },
  });
  await cp(`${root}lib/inventory/presets`, `${app}/presets`, {
    recursive: true,
    filter: (from) => !/\.(?!yaml$)\w+$/.test(from),
  });
  for (const name of presetNames()) await writeFile(`${app}/presets/${name}.json`, JSON.stringify(checkedPreset(name)));
  return {
    text: resolve(root, text),
    bundled: Object.keys(program.metafile.inputs).map((path) => resolve(root, path)),
  };
}
