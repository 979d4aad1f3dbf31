// Builds what is run and shipped: dist/app (the program, bundled, with the presets beside it), the launcher
// dist/kube-cert-recovery, and dist/node, so that the folder runs on a machine without npm and Node. Comments and blanks
// go, because Node keeps the text in memory; names and short lines stay, because Node prints the line of an uncaught
// error.
import { chmod, copyFile, cp, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { checkedPreset, presetNames } from '../lib/inventory/preset.ts';
import { stampOf } from './build-stamp.ts';
import { thirdPartyNotices } from './notices.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const app = `${root}dist/app`;

/**
 * A small heap for a program that waits for months: the default young generation alone takes another 16 MB of RSS, pages
 * that are kept half empty another 8 MB.
 */
const nodeFlags = ['--max-old-space-size=64', '--max-semi-space-size=1', '--optimize-for-size'] as const;

/** Finds itself through symbolic links, and the Node that the project brings before one on the PATH. */
async function launcher(): Promise<string> {
  const text = await readFile(`${root}scripts/launcher.sh`, 'utf8');
  return text.replace('NODE_FLAGS', nodeFlags.join(' '));
}

/**
 * What is loaded stays in memory for months. Of undici we use two functions, and its index loads everything, caches and
 * mocks included. An `import` of node:http makes Node read each of its exports, and so load an undici of its own.
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
      'node:http': `module.exports = process.getBuiltinModule('node:http');`,
    };
    bundle.onResolve({ filter: /^(undici|node:http)$/ }, ({ path }) => ({ path, namespace: 'lean' }));
    bundle.onLoad({ filter: /.*/, namespace: 'lean' }, ({ path }) => ({
      contents: parts[path as keyof typeof parts],
      resolveDir: root,
    }));
  },
};

const stamp = stampOf(root, process.env, new Date());
await rm(app, { recursive: true, force: true });
await mkdir(app, { recursive: true });
const { metafile } = await build({
  entryPoints: [`${root}cmd/main.ts`],
  outdir: app,
  outExtension: { '.js': '.mjs' },
  // Chunks lie beside main.mjs: lib/inventory/preset.ts looks for presets beside whichever file it ends up in.
  chunkNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  mainFields: ['module', 'main'],
  target: 'node24',
  minifyWhitespace: true,
  lineLimit: 120,
  plugins: [lean],
  metafile: true,
  legalComments: 'none', // they are in THIRD-PARTY-NOTICES, whole
  logLevel: 'warning',
  // undici and pino are CommonJS and call require, which a module does not have.
  banner: { js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);" },
  define: {
    VERSION: JSON.stringify(stamp.version),
    COMMIT: JSON.stringify(stamp.commit),
    BUILT_AT: JSON.stringify(stamp.builtAt),
  },
});
await cp(`${root}lib/inventory/presets`, `${app}/presets`, {
  recursive: true,
  filter: (from) => !/\.(?!yaml$)\w+$/.test(from),
});
for (const name of presetNames()) await writeFile(`${app}/presets/${name}.json`, JSON.stringify(checkedPreset(name)));
const bundled = Object.keys(metafile.inputs).map((path) => resolve(path));
await writeFile(`${app}/THIRD-PARTY-NOTICES`, await thirdPartyNotices(bundled));
await writeFile(`${root}dist/kube-cert-recovery`, await launcher());
await chmod(`${root}dist/kube-cert-recovery`, 0o755);
await copyFile(`${root}LICENSE`, `${root}dist/LICENSE`);
const node = `${root}dist/node`;
await rm(node, { force: true });
// A link takes no second 120 MB; on another file system than node_modules there is none.
await link(process.execPath, node).catch(() => copyFile(process.execPath, node));
