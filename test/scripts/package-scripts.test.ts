// What the scripts of the packages tell, in a root directory of their own.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

const afterInstall = join(import.meta.dirname, '../../scripts/release/after-install.sh');

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'package-scripts-'));
});
afterEach(() => rm(root, { recursive: true }));

async function put(path: string): Promise<void> {
  await mkdir(join(root, path, '..'), { recursive: true });
  await writeFile(join(root, path), '');
}

const told = (...args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile('/bin/sh', [afterInstall, ...args], { env: { DPKG_ROOT: root } }, (err, stdout, stderr) =>
      err === null ? resolve(stdout + stderr) : reject(err),
    );
  });

it('says nothing where no unit starts the program', async () => {
  expect(await told('configure')).toBe('');
  await put('opt/kube-cert-recovery/bin/kube-cert-recovery');
  expect(await told('configure')).toBe('');
});

it.each(['configure', '2'])(
  'asks for "init host" where units start a former version, at an upgrade (%s)',
  async (arg) => {
    await put('etc/systemd/system/kube-cert-recovery.service');
    expect(await told(arg)).toMatch(/ until you run: kube-cert-recovery init host\n$/);
  },
);
