// The commands of README that bring the program to a node run as they are written, and again. ssh is a script that runs its
// command here, in a directory of its own.
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocks, page, root as project, section } from '../docs/markdown.ts';

const run = promisify(execFile);
const [install = ''] = blocks(section(page('README.md'), 'Get it onto a node')).map(({ text }) => text);
/** The program is built already. */
const copy = install.split('\n').slice(2).join('\n');

let node: string;
beforeAll(async () => {
  node = await mkdtemp(join(tmpdir(), 'install-'));
  for (const directory of ['path', 'root']) await mkdir(join(node, directory));
  const ssh = `#!/bin/sh\n[ "$1" = root@NODE ] || exit 9\nshift\ncd ${node}/root; exec sh -ec "$*"\n`;
  await writeFile(join(node, 'path/ssh'), ssh);
  await chmod(join(node, 'path/ssh'), 0o755);
});
afterAll(() => rm(node, { recursive: true, force: true, maxRetries: 5 }));

async function shell(command: string): Promise<string> {
  const env = { ...process.env, PATH: `${join(node, 'path')}:${process.env['PATH'] ?? ''}` };
  return (await run('sh', ['-ec', command], { cwd: project, env })).stdout;
}

it('brings the program to a node, and again where a former one is', async () => {
  expect(install).toMatch(/^git clone … kube-cert-recovery && cd kube-cert-recovery\nnpm run build\n/);
  for (const former of ['', 'former.mjs']) {
    if (former !== '') await writeFile(join(node, 'root/kube-cert-recovery/app', former), '');
    expect(await shell(copy)).toMatch(/^\d+\.\d+\.\d+ \(commit \S+, built \S+Z\)\n$/);
    expect(await readdir(join(node, 'root/kube-cert-recovery'))).toContain('node');
    expect(await readdir(join(node, 'root/kube-cert-recovery/app'))).not.toContain('former.mjs');
  }
});

it('says what is absent of a folder that is not complete, without a stack', async () => {
  const folder = join(node, 'root/kube-cert-recovery');
  const gone = (await readdir(join(folder, 'app'))).find((name) => /^program-.*\.cjs$/.test(name)) ?? '';
  await rm(join(folder, 'app', gone));
  await expect(run(join(folder, 'kube-cert-recovery'), ['--version'])).rejects.toMatchObject({
    code: 1,
    stderr: `Cannot run kube-cert-recovery: "${join(folder, 'app', gone)}" is absent; its folder must be complete. Copy it whole (README, "Get it onto a node").\n`,
  });
});
