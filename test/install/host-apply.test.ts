import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { missingUnits } from '../../lib/install/host-apply.ts';
import { renderHost, timerName } from '../../lib/install/host.ts';

let root: string;
let executable: string;
let unitDirectory: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'armed-'));
  unitDirectory = join(root, 'units');
  executable = join(root, 'opt 100% $x/kube-cert-recovery');
  for (const { path, content } of renderHost({ executable, flags: [], writable: [], manifests: [], unitDirectory })) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  await mkdir(join(unitDirectory, 'timers.target.wants'));
  await symlink(join(unitDirectory, timerName), join(unitDirectory, 'timers.target.wants', timerName));
  await mkdir(dirname(executable));
  await writeFile(executable, '', { mode: 0o755 });
});
afterEach(() => rm(root, { recursive: true, force: true }));

it('missingUnits() finds nothing where the units are armed', () => {
  expect(missingUnits(unitDirectory)).toEqual([]);
});

it('missingUnits() names a file that is absent', async () => {
  const path = join(unitDirectory, 'kubelet.service.d/20-kube-cert-recovery.conf');
  await rm(path);
  expect(missingUnits(unitDirectory)).toEqual([`"${path}" is absent`]);
});

it('missingUnits() names a timer that nobody starts, and a program that has gone', async () => {
  const link = join(unitDirectory, 'timers.target.wants', timerName);
  await rm(link);
  await chmod(executable, 0o644);
  const program = `"${executable}", which the units start, is not there or cannot be executed`;
  expect(missingUnits(unitDirectory)).toEqual([
    `the timer "${timerName}" is not enabled ("${link}" is absent)`,
    program,
  ]);
  await rm(executable);
  expect(missingUnits(unitDirectory)).toContain(program);
});
