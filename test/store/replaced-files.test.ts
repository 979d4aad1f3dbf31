// What a file keeps that is replaced: owner, mode, access-control list, extended attributes; and whose a file becomes
// that was lost.
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { restoreGeneration } from '../../lib/store/restore.ts';
import { type Material, type Seen } from '../../lib/store/store.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { failingDisk } from './failing-disk.ts';
import { pairMaterial } from './material.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const run = promisify(execFile);
const { signal } = new AbortController();
const works = { at: Number.POSITIVE_INFINITY, code: 'EIO', forever: false };

let root: string;
let pki: string;
let backupDir: string;
let pair: LocationOf<'pemPair'>;
let first: Material;
let second: Material;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'replaced-files-'));
  const signer = await createAuthority(join(root, 'ca'), { commonName: 'etcd-ca' });
  first = await pairMaterial(await createLeaf(join(root, 'first'), signer, { commonName: 'first' }));
  second = await pairMaterial(await createLeaf(join(root, 'second'), signer, { commonName: 'second' }));
});

afterAll(() => rm(root, { recursive: true, force: true }));

beforeEach(async () => {
  const scratch = await mkdtemp(join(root, 'case-'));
  pki = join(scratch, 'pki');
  backupDir = join(scratch, 'backup');
  await mkdir(pki);
  pair = { kind: 'pemPair', certFile: join(pki, 'server.crt'), keyFile: join(pki, 'server.key') };
});

async function put(material: Material): Promise<void> {
  await writeFile(pair.keyFile, material.entries[privateKeyKey] ?? '', { mode: 0o600 });
  await writeFile(pair.certFile, material.entries[certificateKey] ?? '', { mode: 0o644 });
}

async function seen(): Promise<Seen> {
  const found = await createDiskStore().read(pair, signal);
  return found === undefined ? 'absent' : { version: found.version };
}

const isSecond = async (): Promise<void> =>
  expect((await createDiskStore().read(pair, signal))?.entries).toEqual(second.entries);

describe('a file that is replaced', () => {
  it.each([
    { had: 0o640, keeps: 0o640, name: 'a group that may read the key' },
    { had: 0o400, keeps: 0o400, name: 'a read-only key' },
    { had: 0o644, keeps: 0o644, name: 'a key that a monitor may read, as kubeadm does' },
    { had: 0o666, keeps: 0o600, name: 'not a key that the world can write' },
  ])('keeps the mode of $name', async ({ had, keeps }) => {
    await put(first);
    await chmod(pair.keyFile, had);
    await chmod(pair.certFile, 0o600);
    expect(await createDiskStore().write(pair, second, await seen(), signal)).toBe('written');
    expect((await stat(pair.keyFile)).mode & 0o777).toBe(keeps);
    expect((await stat(pair.certFile)).mode & 0o777).toBe(0o600);
  });

  it('does not open a key to the world because a file without a key was open to it', async () => {
    await put(first);
    const broken = await createDiskStore().read(pair, signal);
    await writeFile(pair.keyFile, '');
    await chmod(pair.keyFile, 0o644);
    expect(broken).toBeDefined();
    expect(await createDiskStore().write(pair, second, await seen(), signal)).toBe('written');
    expect((await stat(pair.keyFile)).mode & 0o777).toBe(0o640);
  });

  it('fails in the same words at each try: temporary names are not told', async () => {
    await put(first);
    const messages = new Set<string>();
    const open: Disk['open'] = (path, flags, ...rest) =>
      flags === 'wx'
        ? Promise.reject(Object.assign(new Error('EROFS'), { code: 'EROFS', path }))
        : realDisk.open(path, flags, ...rest);
    for (let turn = 0; turn < 2; turn += 1) {
      const store = createDiskStore({ disk: { ...realDisk, open } });
      const writing = store.write(pair, second, await seen(), signal);
      messages.add(await writing.then(String, (err: unknown) => (err as Error).message));
    }
    expect([...messages]).toEqual([expect.stringMatching(/server\.(crt|key)": the file system is read-only/)]);
  });

  // Takes root; where that cannot be had it is skipped, except where CI=true.
  it.skipIf(process.getuid?.() !== 0 && process.env['CI'] !== 'true')(
    'keeps the owner, also for a half that is missing',
    async () => {
      await put(first);
      await chown(pair.certFile, 4711, 4712);
      await rm(pair.keyFile);
      expect(await createDiskStore().write(pair, second, await seen(), signal)).toBe('written');
      expect(await stat(pair.keyFile)).toMatchObject({ uid: 4711, gid: 4712 });
      expect(await stat(pair.certFile)).toMatchObject({ uid: 4711, gid: 4712 });
    },
  );

  it('keeps access-control list and extended attributes, and gives new dates', async () => {
    await put(first);
    for (const path of [pair.keyFile, pair.certFile]) {
      await run('setfacl', ['-m', 'u:999:r', path]);
      await run('setfattr', ['-n', 'user.note', '-v', 'kept', path]);
      await utimes(path, 1, 1);
    }
    const look = async (path: string): Promise<string> =>
      (await run('getfacl', ['-np', path])).stdout + (await run('getfattr', ['-d', '--absolute-names', path])).stdout;
    const before = await Promise.all([pair.keyFile, pair.certFile].map(look));
    expect(before[0]).toContain('user:999:r--');
    expect(await createDiskStore().write(pair, second, await seen(), signal)).toBe('written');
    await isSecond();
    expect(await Promise.all([pair.keyFile, pair.certFile].map(look))).toEqual(before);
    expect((await stat(pair.keyFile)).mtimeMs).toBeGreaterThan(1000);
  });

  it('never opens a key to the group for the sake of somebody in its access-control list', async () => {
    await put(first);
    await run('setfacl', ['-m', 'u:999:r', pair.keyFile]); // the group bits of its mode are now those of the mask
    const lists: string[] = [];
    const look = async (): Promise<void> => {
      const names = (await readdir(pki)).filter((name) => name.startsWith('.server.key'));
      for (const name of names) lists.push((await run('getfacl', ['-cnp', join(pki, name)])).stdout);
    };
    for (const call of ['handle.writeFile', 'handle.chmod', 'handle.sync', 'rename']) {
      await createDiskStore({ disk: failingDisk({ ...works, before: { call, run: look } }).disk }).write(
        pair,
        lists.length === 0 ? second : first,
        await seen(),
        signal,
      );
    }
    expect(lists.length).toBeGreaterThan(0); // at the latest before the rename
    for (const list of lists) expect(list).toContain('group::---');
  });

  it('tells when these cannot be kept, and heals the pair', async () => {
    await put(first);
    await chmod(pair.keyFile, 0o640);
    const told: string[] = [];
    const copyAttributes = (from: string): Promise<never> =>
      Promise.reject(new RecoveryError('WriteFailed', `Cannot keep all of ${from}`));
    const onAttributesLost = ({ message }: RecoveryError): void => void told.push(message);
    const store = createDiskStore({ disk: { ...realDisk, copyAttributes }, onAttributesLost });
    expect(await store.write(pair, second, await seen(), signal)).toBe('written');
    expect(told.toSorted()).toEqual([pair.certFile, pair.keyFile].map((path) => `Cannot keep all of ${path}`));
    expect((await stat(pair.keyFile)).mode & 0o777).toBe(0o640);
  });

  it('leaves no key where nothing can be removed or renamed, as in a directory that may only be appended to', async () => {
    await put(first);
    const refuse = (path: unknown): Promise<never> =>
      Promise.reject(Object.assign(new Error('append-only'), { code: 'EPERM', path }));
    const disk = { ...realDisk, rename: refuse, rm: refuse, unlink: refuse } as Disk;
    await expect(createDiskStore({ disk }).write(pair, second, await seen(), signal)).rejects.toMatchObject({
      message: expect.stringContaining('append-only (lsattr -d') as string,
    });
    const left = (await readdir(pki)).filter((name) => name.startsWith('.'));
    expect(left).toHaveLength(2);
    for (const name of left) expect((await stat(join(pki, name))).size).toBe(0);
    // The next run finds them, cannot remove them, and makes no more.
    await expect(createDiskStore({ disk }).write(pair, second, await seen(), signal)).rejects.toThrow('EPERM');
    expect(await readdir(pki)).toHaveLength(4);
  });
});

/** Takes root; where that cannot be had it is skipped, except where CI=true. */
describe.skipIf(process.getuid?.() !== 0 && process.env['CI'] !== 'true')(
  'write() of a pair that is lost whole',
  () => {
    const owner = async (path: string): Promise<object> => {
      const { uid, gid, mode } = await stat(path);
      return { uid, gid, mode: mode & 0o777 };
    };

    it("gives it to the user whose directory it is: etcd's cannot read root's", async () => {
      await chown(pki, 999, 998);
      expect(await createDiskStore({ backupDir }).write(pair, first, 'absent', signal)).toBe('written');
      expect(await owner(pair.keyFile)).toEqual({ uid: 999, gid: 998, mode: 0o600 });
      expect(await owner(pair.certFile)).toEqual({ uid: 999, gid: 998, mode: 0o644 });
    });

    it('gives it to the user and the group that its last copy had', async () => {
      await put(first);
      await chown(pair.keyFile, 4711, 4712);
      await chmod(pair.keyFile, 0o640);
      const store = createDiskStore({ backupDir });
      expect(await store.write(pair, second, await seen(), signal)).toBe('written');
      await Promise.all([rm(pair.keyFile), rm(pair.certFile)]);
      expect(await store.write(pair, second, 'absent', signal)).toBe('written');
      expect(await owner(pair.keyFile)).toEqual({ uid: 4711, gid: 4712, mode: 0o640 });
      expect(await owner(pair.certFile)).toEqual({ uid: 0, gid: 0, mode: 0o644 });
    });

    it('does so when it is put back from a copy, too', async () => {
      await put(first);
      await chown(pair.keyFile, 4711, 4712);
      await createDiskStore({ backupDir }).write(pair, second, await seen(), signal);
      await Promise.all([rm(pair.keyFile), rm(pair.certFile)]);
      expect(await restoreGeneration({ location: pair, generation: '000001' }, { backupDir })).toBe('restored');
      expect(await owner(pair.keyFile)).toEqual({ uid: 4711, gid: 4712, mode: 0o600 });
      await chown(pki, 999, 998);
      await Promise.all([rm(pair.keyFile), rm(pair.certFile), rm(backupDir, { recursive: true })]);
      expect(await createDiskStore({ backupDir }).write(pair, first, 'absent', signal)).toBe('written');
      expect(await owner(pair.keyFile)).toMatchObject({ uid: 999 });
    });
  },
);
