import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attempt, type Disk, onPath, realDisk, together, unlessAbsent } from '../../lib/disk/disk.ts';
import {
  ensureDirectory,
  ensurePrivateDirectory,
  type Ownership,
  removeLeftovers,
  replaceFile,
  temporaryName,
  writeNewFile,
} from '../../lib/disk/files.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { failingDisk } from '../store/failing-disk.ts';

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'disk-files-'));
  path = join(directory, 'file');
});

afterEach(() => rm(directory, { recursive: true, force: true }));

const failure = (code: string): Error => Object.assign(new Error(code), { code });
const writing = { code: 'WriteFailed', action: 'write', what: 'file "a"', directory: '/etc' } as const;

describe('attempt()', () => {
  it.each([
    {
      trying: writing,
      message:
        'Cannot write file "a": "/etc": no space left on the disk; free some space there, or inodes (df -i) (ENOSPC); the last good files stay in use',
    },
    {
      trying: { ...writing, remains: '' },
      message:
        'Cannot write file "a": "/etc": no space left on the disk; free some space there, or inodes (df -i) (ENOSPC)',
    },
    {
      trying: { ...writing, code: 'ReadFailed' as const, action: 'read' },
      message:
        'Cannot read file "a": "/etc": no space left on the disk; free some space there, or inodes (df -i) (ENOSPC)',
    },
  ])('says $message', async ({ trying, message }) => {
    await expect(attempt(trying, () => Promise.reject(failure('ENOSPC')))).rejects.toMatchObject({
      code: trying.code,
      message,
      details: { path: '/etc', system: 'ENOSPC' },
    });
  });

  it('says of a bind-mounted file that it is one', async () => {
    const busy = onPath('/etc/a.conf', () => Promise.reject(failure('EBUSY')));
    await expect(attempt(writing, () => busy)).rejects.toMatchObject({
      message:
        'Cannot write file "a": "/etc/a.conf": is a bind mount of its own (a single file mounted into a container), ' +
        'which cannot be replaced; mount its directory instead (EBUSY); the last good files stay in use',
    });
  });

  it('names the place that a rename could not take', async () => {
    await mkdir(join(directory, 'taken', 'full'), { recursive: true });
    await mkdir(join(directory, 'temporary'));
    const taken = join(directory, 'taken');
    await expect(attempt(writing, () => rename(join(directory, 'temporary'), taken))).rejects.toMatchObject({
      message: expect.stringContaining(`: "${taken}": `) as string,
      details: { path: taken },
    });
  });

  it('lets an error of ours pass', async () => {
    const ours = new RecoveryError('MaterialInvalid', 'x');
    await expect(attempt(writing, () => Promise.reject(ours))).rejects.toBe(ours);
  });
});

it('unlessAbsent() hides only that a path is absent', async () => {
  expect(await unlessAbsent(() => readFile(path))).toBeUndefined();
  await expect(unlessAbsent(() => readFile(directory))).rejects.toMatchObject({ code: 'EISDIR' });
});

it('together() throws once all calls have ended', async () => {
  let ended = false;
  const slow = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn += 1) await stat(directory);
    ended = true;
  };
  await expect(together([Promise.reject(new Error('first')), slow()])).rejects.toThrow('first');
  expect(ended).toBe(true);
});

describe('writeNewFile()', () => {
  it('lets nobody else open the file before its owner and mode are right', async () => {
    const modes: number[] = [];
    const look = async (): Promise<void> => void modes.push((await stat(path)).mode & 0o777);
    for (const call of ['handle.writeFile', 'handle.chmod', 'handle.sync']) {
      const { disk } = failingDisk({ at: Infinity, code: '', forever: false, before: { call, run: look } });
      await writeNewFile(disk, path, Buffer.from('key'), { mode: 0o640 });
      await rm(path);
    }
    expect(modes).toEqual([0o600, 0o600, 0o640]);
  });

  it('never writes into a file or through a link that is there', async () => {
    await writeFile(path, 'theirs');
    await symlink(path, join(directory, 'link'));
    for (const name of ['file', 'link', 'file']) {
      const writes = writeNewFile(realDisk, join(directory, name), Buffer.from('ours'), { mode: 0o600 });
      await expect(writes).rejects.toMatchObject({ code: 'EEXIST', path: join(directory, name) });
    }
    expect(await readFile(path, 'utf8')).toBe('theirs');
  });

  it('asks for owner and mode only where there are some to take', async () => {
    await writeFile(join(directory, 'former'), '');
    const { uid, gid } = await stat(directory);
    const asked = async (more: Partial<Ownership>): Promise<number> => {
      const { disk, calls } = failingDisk({ at: Infinity, code: '', forever: false });
      await writeNewFile(disk, path, Buffer.from('x'), { mode: 0o640, ...more });
      expect((await stat(path)).mode & 0o777).toBe(0o640);
      await rm(path);
      return calls.filter((call) => call === 'handle.stat').length;
    };
    expect(await asked({})).toBe(0);
    expect(await asked({ uid, gid })).toBe(1);
    expect(await asked({ like: join(directory, 'former') })).toBe(1);
  });

  it('sets the mode whatever the umask', async () => {
    const before = process.umask(0o077);
    try {
      await writeNewFile(realDisk, path, Buffer.from('x'), { mode: 0o644 });
    } finally {
      process.umask(before);
    }
    expect((await stat(path)).mode & 0o777).toBe(0o644);
  });
});

it('removeLeftovers() takes away what killed runs left of this file, and nothing else', async () => {
  const others = [temporaryName(join(directory, 'file2')), join(directory, '.file.swp'), path];
  // Whoever owns the directory of the file could replace parts of this tree by links while it is removed.
  const tree = temporaryName(path);
  await mkdir(join(tree, 'more'), { recursive: true });
  const [file, link] = [temporaryName(path), temporaryName(path)];
  await symlink(tree, link);
  for (const each of [file, ...others]) await writeFile(each, '');
  await removeLeftovers(realDisk, path);
  const left = (await readdir(directory)).map((name) => join(directory, name));
  expect(left.toSorted()).toEqual([...others, tree].toSorted());
});

describe('directories', () => {
  it('that cannot be made say why, and not that they are absent', async () => {
    const failing = (async (_: string, options?: { readonly recursive?: boolean }) => {
      throw failure(options?.recursive === true ? 'ENOENT' : 'EROFS');
    }) as unknown as Disk['mkdir'];
    const making = ensureDirectory({ ...realDisk, mkdir: failing }, join(directory, 'a', 'b'));
    await expect(making).rejects.toMatchObject({ code: 'EROFS' });
  });

  it('are durable in their parents, the missing ones too', async () => {
    const synced: string[] = [];
    const open = (async (at: string, flags: string) => {
      synced.push(at);
      return realDisk.open(at, flags);
    }) as Disk['open'];
    await ensureDirectory({ ...realDisk, open }, join(directory, 'a', 'b'));
    expect(synced.toSorted()).toEqual([directory, join(directory, 'a')]);
    synced.length = 0;
    await ensureDirectory({ ...realDisk, open }, join(directory, 'a', 'b'));
    expect(synced).toEqual([]);
  });

  it('that are private become so', async () => {
    const secret = join(directory, 'a', 'secret');
    await ensurePrivateDirectory(secret);
    expect((await stat(secret)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, 'a'))).mode & 0o777).toBe(0o755);
    await chmod(secret, 0o755);
    await ensurePrivateDirectory(secret);
    expect((await stat(secret)).mode & 0o777).toBe(0o700);
  });
});

describe('replaceFile()', () => {
  const file = (content: string) => ({ path, content, mode: 0o600, what: 'file' });

  it('replaces, leaves the same alone but for its mode, and cleans up', async () => {
    expect(await replaceFile(file('one'))).toBe('written');
    await chmod(path, 0o644);
    expect(await replaceFile(file('one'))).toBe('unchanged');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await writeFile(temporaryName(path), 'half');
    expect(await replaceFile(file('two'))).toBe('written');
    expect(await readFile(path, 'utf8')).toBe('two');
    expect(await readdir(directory)).toEqual(['file']);
  });

  it('leaves nothing beside it when it fails', async () => {
    await replaceFile(file('old'));
    for (const call of ['handle.writeFile', 'handle.sync', 'rename']) {
      const run = () => Promise.reject(failure('ENOSPC'));
      const { disk } = failingDisk({ at: Infinity, code: '', forever: false, before: { call, run } });
      await expect(replaceFile(file('new'), disk), call).rejects.toMatchObject({ code: 'WriteFailed' });
      expect(await readdir(directory), call).toEqual(['file']);
    }
  });

  it('keeps the old content when any one call fails', async () => {
    for (let at = 0; ; at += 1) {
      await writeFile(path, 'old');
      const { disk, calls } = failingDisk({ at, code: 'EIO', forever: true });
      const outcome = await replaceFile(file('new'), disk).catch((err: unknown) => err);
      if (calls.length <= at) break;
      expect(outcome, calls[at]).toMatchObject({ code: 'WriteFailed' });
      expect(['old', 'new'], calls[at]).toContain(await readFile(path, 'utf8'));
    }
    expect(await readFile(path, 'utf8')).toBe('new');
  });
});
