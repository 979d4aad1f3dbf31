// How a manifest is written, on a real disk. What the annotation does to it: manifest.test.ts.
import { chmod, chown, lstat, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import { editManifest } from '../../lib/restart/manifest.ts';

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'manifest-file-'));
  path = join(directory, 'pod.yaml');
  await writeFile(path, 'before');
  await chmod(path, 0o640);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('editManifest() keeps mode and owner, and says what was there', async () => {
  if (process.getuid?.() === 0) await chown(path, 1, 2);
  const { uid, gid } = await lstat(path);
  const edit = await editManifest(path, (before) => `${before.toString()}, after`);
  expect({ ...edit, before: String(edit.before), after: String(edit.after) }).toEqual({
    outcome: 'written',
    before: 'before',
    after: 'before, after',
  });
  const written = await lstat(path);
  expect([written.mode & 0o777, written.uid, written.gid]).toEqual([0o640, uid, gid]);
  expect(await readdir(directory)).toEqual(['pod.yaml']);
});

it('editManifest() leaves alone what is right, and what changes while it looks', async () => {
  expect((await editManifest(path, () => undefined)).outcome).toBe('unchanged');
  const disk = {
    ...realDisk,
    open: async (...args: Parameters<typeof realDisk.open>) => {
      await writeFile(path, 'theirs');
      return realDisk.open(...args);
    },
  };
  expect((await editManifest(path, () => 'ours', disk)).outcome).toBe('conflict');
  expect(await readFile(path, 'utf8')).toBe('theirs');
  expect(await readdir(directory)).toEqual(['pod.yaml']);
});

it('editManifest() removes what a killed run has left, and leaves nothing itself when a call fails', async () => {
  await writeFile(join(directory, '.pod.yaml.kube-cert-recovery-0123456789ab'), 'half');
  const disk = { ...realDisk, rename: () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })) };
  await expect(editManifest(path, () => 'ours', disk)).rejects.toThrow('the manifest stays as it is');
  expect(await readdir(directory)).toEqual(['pod.yaml']);
  expect(await readFile(path, 'utf8')).toBe('before');
});

it('editManifest() refuses a symbolic link before it asks what is to be written', async () => {
  await symlink('pod.yaml', join(directory, 'link.yaml'));
  const asked = editManifest(join(directory, 'link.yaml'), () => {
    throw new Error('asked');
  });
  await expect(asked).rejects.toThrow('it is a symbolic link, wanted the file itself; put the file in its place');
});
