// The commands of the README that build the program and bring it to a node, on a Debian with the npm and the Node of Debian,
// git, and nothing else that they do not bring: no rsync, no curl, no compiler. The node is the same system, ssh a script that
// runs its command there.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocks, page, root as project, section } from '../docs/markdown.ts';
import { createProgress } from '../support/cluster/progress.ts';
import { asRoot } from '../support/node/as-root.ts';
import { debianRoot, inRoot } from '../support/node/debian-root.ts';

const run = promisify(execFile);
const [install = ''] = blocks(section(page('README.md'), 'Get it onto a node')).map(({ text }) => text);
const wanted = { what: 'a Debian with npm', packages: [], more: ['npm', 'git', 'ca-certificates'] };

let scratch: string | undefined;
let root: string;
beforeAll(async () => {
  const archive = await debianRoot(wanted, createProgress());
  scratch = await mkdtemp(join(tmpdir(), 'debian-'));
  root = join(scratch, 'root');
  await mkdir(root);
  await run(...asRoot('tar', ['-C', root, '-xf', archive]));
  const files = join(scratch, 'files');
  await mkdir(join(files, 'usr/local/bin'), { recursive: true });
  const ssh = '#!/bin/sh\n[ "$1" = root@NODE ] || exit 9\nshift\ncd /node; exec sh -ec "$*"\n';
  await writeFile(join(files, 'usr/local/bin/ssh'), ssh, { mode: 0o755 });
  // How this machine reaches the registry is its own affair.
  await mkdir(join(files, 'etc'));
  for (const name of ['resolv.conf', 'hosts'])
    await writeFile(join(files, 'etc', name), await readFile(`/etc/${name}`, 'utf8'));
  const authorities = process.env['NODE_EXTRA_CA_CERTS'];
  if (authorities !== undefined) await cp(authorities, join(files, 'etc/authorities.pem'), { dereference: true });
  const left = ['.git', 'node_modules', 'dist'].map((name) => join(project, name));
  await cp(project, join(files, 'source'), { recursive: true, filter: (from) => !left.includes(from) });
  await run(...asRoot('cp', ['-r', '--no-preserve=ownership', `${files}/.`, root]));
});
afterAll(async () => {
  if (scratch !== undefined) await run(...asRoot('rm', ['-rf', '--one-file-system', scratch]));
});

function shell(script: string): Promise<string> {
  const own = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && /^(npm_config_registry|(https?|no)_proxy)$/i.test(entry[0]),
  );
  const authorities =
    process.env['NODE_EXTRA_CA_CERTS'] === undefined ? {} : { NODE_EXTRA_CA_CERTS: '/etc/authorities.pem' };
  return inRoot(root, ['sh', '-ec', script], { HOME: '/root', ...Object.fromEntries(own), ...authorities });
}

it('has nothing but what Debian has', async () => {
  expect(await shell('npm --version; node --version')).toMatch(/^9\.2\.0\nv18\./);
  expect(await shell('command -v rsync curl wget gcc go docker || echo none')).toBe('none\n');
});

it('builds the program and brings it to a node, again with the former one in the way', async () => {
  const commit = 'git add -A && git -c user.name=test -c user.email=test@example.com commit -qm test';
  await shell(`cd /source && git init -q && ${commit}`);
  expect(install).toMatch(/^git clone … /);
  // The node's files are not those of the clone, whose directory has the same name.
  await shell(`mkdir /node; cd /root; ${install.replace('git clone …', 'git clone -q /source')}`);
  const copy = install.split('\n').slice(2).join('\n');
  const told = await shell(`cd /root/kube-cert-recovery; ${copy}`);
  expect(told).toMatch(/^\d+\.\d+\.\d+ \(commit [0-9a-f]{12}, built \S+Z\)\n$/);
});
