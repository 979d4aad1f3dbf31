// A copy below another root: whatever links the original has, nothing that is done through diskBelow() leaves the copy.
import { lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { copyBelow, diskBelow } from '../../lib/disk/disk-below.ts';
import type { Disk } from '../../lib/disk/disk.ts';

let world: string;
let root: string;
let disk: Disk;
beforeEach(async () => {
  world = await mkdtemp(join(tmpdir(), 'disk-below-'));
  root = join(world, 'copy');
  disk = diskBelow(root);
  await mkdir(join(world, 'own/real'), { recursive: true });
  await mkdir(root);
  await writeFile(join(world, 'own/real/a.pem'), 'original', { mode: 0o640 });
});
afterEach(() => rm(world, { recursive: true }));

it.each([
  ['absolute', () => join(world, 'own/real')],
  ['relative', () => 'real'],
  ['with more steps up than there are directories', () => `${'../'.repeat(30)}${world.slice(1)}/own/real`],
])('follows a link of a directory, %s, inside the copy', async (_, target) => {
  await symlink(target(), join(world, 'own/link'));
  const path = join(world, 'own/link/a.pem');
  await copyBelow(root, path);
  expect(await disk.realpath(path)).toBe(join(world, 'own/real/a.pem'));
  expect(await disk.readFile(path, 'utf8')).toBe('original');
  expect((await disk.stat(path)).mode & 0o777).toBe(0o640);
  const handle = await disk.open(path, 'w');
  await handle.writeFile('changed');
  await handle.close();
  expect(await readFile(path, 'utf8')).toBe('original');
});

it('keeps a new link, a new name and a path with dots inside the copy', async () => {
  const path = join(world, 'own/real/a.pem');
  await copyBelow(root, path);
  await disk.symlink(path, join(world, 'own/current'));
  expect(await disk.readlink(join(world, 'own/current'))).toBe(path);
  await disk.rename(path, join(world, 'own/real/b.pem'));
  await disk.rm(`/..${world}/own/real/../current`);
  expect((await lstat(path)).isFile()).toBe(true);
  await expect(lstat(join(world, 'own/current'))).rejects.toThrow('ENOENT');
  expect(await disk.readdir(join(world, 'own'))).toEqual(['real']);
});

it('copies what is there of a directory, and nothing of a circle of links or of an absent path', async () => {
  await symlink('b', join(world, 'own/a'));
  await symlink('a', join(world, 'own/b'));
  await copyBelow(root, join(world, 'own/a/x'));
  await copyBelow(root, join(world, 'own/real/a.pem/x'));
  await copyBelow(root, join(world, 'absent/x'));
  await copyBelow(root, join(world, 'own/real'));
  expect((await disk.readdir(join(world, 'own'))).toSorted()).toEqual(['a', 'b', 'real']);
  expect(await disk.readdir(join(world, 'own/real'))).toEqual(['a.pem']);
});
