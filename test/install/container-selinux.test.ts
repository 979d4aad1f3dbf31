// What the kernel shows of SELinux, as files: a context file that takes everything, or nothing (as for an unknown type).
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { containerLabel } from '../../lib/install/container.ts';

let selinuxfs: string;
beforeEach(async () => {
  selinuxfs = await mkdtemp(join(tmpdir(), 'selinuxfs-'));
});
afterEach(() => rm(selinuxfs, { recursive: true, force: true }));

it.each([
  ['1', { type: 'spc_t', level: 's0' }, 'system_u:system_r:spc_t:s0\0'],
  ['0', { type: 'spc_t' }, 'system_u:system_r:spc_t\0'],
])('containerLabel() asks the policy (levels: %s)', async (mls, label, asked) => {
  await writeFile(join(selinuxfs, 'mls'), mls);
  await writeFile(join(selinuxfs, 'context'), '');
  expect(await containerLabel(selinuxfs)).toEqual(label);
  expect(await readFile(join(selinuxfs, 'context'), 'utf8')).toBe(asked);
});

it('containerLabel() gives none that the policy does not know', async () => {
  await writeFile(join(selinuxfs, 'mls'), '1');
  await symlink('/dev/full', join(selinuxfs, 'context'));
  expect(await containerLabel(selinuxfs)).toBeUndefined();
});

it('containerLabel() gives none where SELinux is off', async () => {
  expect(await containerLabel(join(selinuxfs, 'none'))).toBeUndefined();
});
