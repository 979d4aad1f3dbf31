// What a fresh machine lacks: the PATH of these machines holds what a test puts there, and apt-get is a script that notes
// how it was called. What lies in /usr/sbin of this machine is there all the same, so no test asks for that.
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { page } from '../docs/markdown.ts';

const script = join(import.meta.dirname, '../../scripts/system-packages.sh');

let path: string;
beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), 'system-packages-'));
});
afterEach(() => rm(path, { recursive: true }));

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    execFile('/bin/sh', [script, ...args], { env: { PATH: path, ...env } }, (err, stdout, stderr) =>
      resolve({ code: err === null ? 0 : Number(err.code), stdout, stderr }),
    );
  });
}

async function put(command: string, text = ''): Promise<void> {
  await writeFile(join(path, command), `#!/bin/sh\n${text}\n`);
  await chmod(join(path, command), 0o755);
}

/** An apt-get that brings `commands`, for a user of this number. */
async function debian(commands: readonly string[], { uid = 0 } = {}): Promise<void> {
  for (const command of ['env', 'touch', 'chmod']) await symlink(`/usr/bin/${command}`, join(path, command));
  await put('id', `echo ${uid}`);
  const brought = commands.map((command) => `touch ${path}/${command}; chmod 755 ${path}/${command}`);
  await put('apt-get', [`echo "\${DEBIAN_FRONTEND:-} $*" >> ${path}/asked`, ...brought].join('\n'));
}

const asked = (): Promise<string> => readFile(join(path, 'asked'), 'utf8');
const demo = ['npm', 'openssl'];
const tests = [...demo, 'strace', 'systemd-analyze', 'unshare', 'strip', 'setfattr', 'setfacl'];
const commandsOf = (listed: string): readonly string[] => listed.split('\n').map((line) => line.split(' ', 1)[0] ?? '');

it('lists what is missing, for the demo less than for the tests, with its package and its purpose', async () => {
  const [forDemo, forTests] = [await run(['demo', '--list']), await run(['test', '--list'])];
  expect(commandsOf(forDemo.stdout)).toEqual(expect.arrayContaining(demo));
  expect(commandsOf(forDemo.stdout)).not.toContain('strace');
  expect(commandsOf(forTests.stdout)).toEqual(expect.arrayContaining(tests));
  expect(forTests.stdout).toMatch(/^setfacl acl gives files .*$/m);
  for (const one of tests) await put(one);
  expect(commandsOf((await run(['test', '--list'])).stdout)).not.toEqual(expect.arrayContaining(['strace']));
});

it('names all that is missing where there is no apt-get, and fails', async () => {
  const { code, stderr } = await run(['test']);
  expect(code).toBe(1);
  for (const command of tests) expect(stderr).toMatch(new RegExp(`^  ${command}: \\w`, 'm'));
  expect(stderr).toMatch(/^Cannot go on without these commands:[^]*Install them, and run the same command again\.$/m);
});

it('installs what is missing, by root without sudo', async () => {
  await put('go', 'echo go version go1.25.0 linux/amd64');
  await debian(demo);
  expect(await run(['demo'])).toEqual({ code: 0, stdout: '', stderr: 'installing npm openssl\n' });
  expect(await asked()).toBe(' update -qq\nnoninteractive install -y -qq --no-install-recommends npm openssl\n');
});

it('installs what is missing, by another user with sudo; without that it says what root has to do', async () => {
  await put('go', 'echo go version go1.25.0 linux/amd64');
  await debian(demo, { uid: 1000 });
  expect(await run(['demo'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Become root for: apt-get install npm openssl, and run'),
  });
  await put('sudo', `echo sudo >> ${path}/asked\n"$@"`);
  expect(await run(['demo'])).toMatchObject({ code: 0 });
  expect(await asked()).toMatch(/^sudo\n update [^]*sudo\nnoninteractive install .* npm openssl\n$/);
});

it('is silent and asks nothing when all is there', async () => {
  await put('go', 'echo go version go1.25.0 linux/amd64');
  await debian([]);
  for (const command of demo) await put(command);
  expect(await run(['demo'])).toEqual({ code: 0, stdout: '', stderr: '' });
  await expect(asked()).rejects.toThrow('ENOENT');
});

it('fetches Go where there is none, or an old one, and says so where that cannot be', async () => {
  for (const command of demo) await put(command);
  await debian([]);
  for (const command of ['rm', 'mkdir', 'uname']) await symlink(`/usr/bin/${command}`, join(path, command));
  await put('go', 'echo go version go1.19.8 linux/amd64');
  await put('curl', `echo "$*" >> ${path}/asked; exit 1`);
  const env = { HOME: path, GOROOT: path, GOPROXY: 'https://goproxy.example,direct' };
  const { code, stderr } = await run(['demo'], env);
  expect(code).toBe(1);
  expect(stderr).toContain('installing curl unzip ca-certificates\nfetching Go 1.25.0 (64 MB, once)\n');
  expect(stderr).toContain('go: builds the control plane, once (1.21 or newer)\n');
  expect(stderr).toContain('Go could not be fetched. Install it, and run the same command again.');
  expect(await asked()).toContain('https://goproxy.example/golang.org/toolchain/@v/v0.0.1-go1.25.0.linux-');
  expect(await run(['demo'], { ...env, KUBEBUILDER_ASSETS: '/assets' })).toMatchObject({ code: 0, stderr: '' });
});

it('is what the commands of the README and a build machine begin with', () => {
  const { scripts } = JSON.parse(page('package.json')) as { readonly scripts: Readonly<Record<string, string>> };
  expect(scripts['demo']).toMatch(/^scripts\/setup\.sh demo && /);
  expect(scripts['test']).toMatch(/^scripts\/setup\.sh test && /);
  expect(page('.ci/run')).toMatch(/^scripts\/setup\.sh test$/m);
});
