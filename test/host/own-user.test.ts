import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { requireOwnLock, requireReadable } from '../../lib/host/own-user.ts';

const me = process.getuid?.() ?? 0;
const other = me + 4711;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'own-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('requireOwnLock() tells another user than the owner to be root, and to remove nothing', async () => {
  const told = requireOwnLock(directory, () => other);
  await expect(told).rejects.toMatchObject({ code: 'WriteFailed' });
  await expect(told).rejects.toThrow(
    `Cannot repair this host as user ${other}: its lock and notes in "${directory}" belong to user ${me}; run it as root`,
  );
});

it('requireOwnLock() lets root and the owner pass, also where nothing is there yet', async () => {
  await requireOwnLock(directory, () => 0);
  await requireOwnLock(directory, () => me);
  await requireOwnLock(join(directory, 'a/b'), () => other);
});

it.runIf(me === 0)('requireOwnLock() lets root use what belongs to another user', async () => {
  await chown(directory, other, other);
  await requireOwnLock(directory);
});

it('requireReadable() says nothing of a directory that is open or absent', async () => {
  await requireReadable(directory, () => other);
  await requireReadable(join(directory, 'none'), () => other);
});
