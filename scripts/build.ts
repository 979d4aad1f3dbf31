// Builds what is run: dist/app (the program, with its presets and the code that V8 makes of it), the launcher
// dist/kube-cert-recovery, and dist/node, so that the folder runs on a machine without npm and Node.
import { execFile } from 'node:child_process';
import { chmod, copyFile, link, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stampOf } from './build-stamp.ts';
import { thirdPartyNotices } from './notices.ts';
import { launcher, nodeFlags, writeProgram } from './program.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));
const app = `${root}dist/app`;

const { text, bundled } = await writeProgram(app, stampOf(root, process.env, new Date()));
for (const which of ['once', 'waiting'])
  await run(process.execPath, [...nodeFlags, `${root}scripts/compile.ts`, text, which]);
await writeFile(`${app}/THIRD-PARTY-NOTICES`, await thirdPartyNotices(bundled));
await writeFile(`${root}dist/kube-cert-recovery`, await launcher());
await chmod(`${root}dist/kube-cert-recovery`, 0o755);
await copyFile(`${root}LICENSE`, `${root}dist/LICENSE`);
const node = `${root}dist/node`;
await rm(node, { force: true });
// A link takes no second 120 MB; on another file system than node_modules there is none.
await link(process.execPath, node).catch(() => copyFile(process.execPath, node));
