// The commands of the README that bring the program to a node, upgrade it and go back, run as they are written while the
// program is started again and again: no start fails. ssh is a script that runs its command here, and the directories
// are others.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocks, page, root as project, section } from '../docs/markdown.ts';

const run = promisify(execFile);
const [install, back] = blocks(section(page('README.md'), 'Get it onto a node')).map(({ text }) => text);
/** The program is built already. */
const copy = (install ?? '').split('\n').slice(2).join('\n');

let node: string;
let link: string;
beforeAll(async () => {
  node = await mkdtemp(join(tmpdir(), 'install-'));
  link = join(node, 'bin/kube-cert-recovery');
  for (const directory of ['opt', 'bin', 'path', 'etc']) await mkdir(join(node, directory));
  await writeFile(join(node, 'path/ssh'), '#!/bin/sh\n[ "$1" = root@NODE ] || exit 9\nshift\nexec sh -ec "$*"\n');
  await chmod(join(node, 'path/ssh'), 0o755);
});
afterAll(() => rm(node, { recursive: true, force: true, maxRetries: 5 }));

async function shell(command: string): Promise<void> {
  const here = command.replaceAll('/opt', join(node, 'opt')).replaceAll('/usr/local/bin', join(node, 'bin'));
  const env = { ...process.env, PATH: `${join(node, 'path')}:${process.env['PATH'] ?? ''}` };
  await run('sh', ['-ec', here], { cwd: project, env });
}

const folders = async (): Promise<readonly string[]> =>
  (await readdir(join(node, 'opt'))).filter((name) => name !== 'kube-cert-recovery').toSorted();
const current = (): Promise<string> => readlink(join(node, 'opt/kube-cert-recovery'));

/** Starts the program for as long as `work` lasts. Returns how often, and what the starts said that failed. */
async function startedDuring(work: () => Promise<void>): Promise<{ starts: number; failures: readonly string[] }> {
  const failures: string[] = [];
  let starts = 0;
  const over = new AbortController();
  const loop = (async () => {
    for (; !over.signal.aborted; starts += 1)
      await run(link, ['--version']).catch(({ stderr }: { readonly stderr: string }) => failures.push(stderr));
  })();
  try {
    await work();
  } finally {
    over.abort();
    await loop;
  }
  return { starts, failures };
}

it('installs, and again with nothing in the way', async () => {
  expect(install).toMatch(/^git clone … kube-cert-recovery && cd kube-cert-recovery\nnpm run build\n/);
  await shell(copy);
  const [first = ''] = await folders();
  expect(await current()).toBe(first);
  expect((await run(link, ['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+ \(commit \S+, built \S+Z\)\n$/);
  expect(existsSync(join(node, 'opt', first, 'node'))).toBe(true);
});

it('upgrades and goes back while the program is started again and again', async () => {
  const [first = ''] = await folders();
  const { starts, failures } = await startedDuring(async () => {
    for (let count = 2; count <= 4; count += 1) {
      await shell(copy);
      const names = await folders();
      expect(names).toHaveLength(count); // a folder of its own for each, and nothing left beside them
      expect(await current()).toBe(names.at(-1));
      await shell((back ?? '').replace('OLD', first));
      expect(await current()).toBe(first);
    }
  });
  expect(failures).toEqual([]);
  expect(starts).toBeGreaterThan(3);
});

it('has init host write the path of the link into units, which the next version then has', async () => {
  const machine = join(node, 'etc');
  const container = { name: 'kube-apiserver', command: ['kube-apiserver', '--etcd-servers=https://127.0.0.1:2379'] };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'kube-apiserver' },
    spec: { containers: [container] },
  };
  await mkdir(join(machine, 'manifests'));
  await writeFile(join(machine, 'manifests/kube-apiserver.yaml'), JSON.stringify(pod));
  const { stdout } = await run(link, ['init', 'host', '--dry-run', `--directory=kubernetesDir=${machine}`]);
  expect(stdout).toContain(`${join(node, 'opt/kube-cert-recovery/kube-cert-recovery')} --mode=regen --once`);
  expect(stdout).not.toContain(await current());
});

it('says what is absent of a folder that is not complete, without a stack', async () => {
  const [first = ''] = await folders();
  const app = join(node, 'opt', first, 'app');
  const gone = (await readdir(app)).find((name) => name.startsWith('program-') && name.endsWith('.cjs')) ?? '';
  await rm(join(app, gone));
  const failed = run(join(node, 'opt', first, 'kube-cert-recovery'), ['--version']);
  await expect(failed).rejects.toMatchObject({
    code: 1,
    stderr: `Cannot run kube-cert-recovery: "${join(app, gone)}" is absent; its folder must be complete. Copy it whole, beside the present one, and flip the link (README, "Get it onto a node").\n`,
  });
});
