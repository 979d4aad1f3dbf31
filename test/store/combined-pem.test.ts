import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { createDiskStore, type DiskStoreOptions } from '../../lib/store/disk-store.ts';
import type { Material } from '../../lib/store/store.ts';
import { combined, type HostFiles, layOut, twoPairsIn } from './host-files.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const { signal } = new AbortController();
const now = (): Date => new Date('2026-11-21T12:00:00');
const dated = 'kubelet-server-2026-11-21-12-00-00.pem';
const former = 'kubelet-server-2025-11-20-10-00-00.pem';

let root: string;
let files: HostFiles;
let first: Material;
let second: Material;
let authority: Buffer;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'combined-pem-'));
  ({ first, second, authority } = await twoPairsIn(root, { commonName: 'system:node:a' }));
});

afterAll(() => rm(root, { recursive: true, force: true }));

beforeEach(async () => {
  files = await layOut(await mkdtemp(join(root, 'case-')), first, authority);
});

async function renew(options: DiskStoreOptions = {}): Promise<string> {
  const store = createDiskStore({ now, ...options });
  const found = await store.read(files.server, signal);
  return store.write(files.server, second, found === undefined ? 'absent' : { version: found.version }, signal);
}

const content = (): Promise<string> => readFile(files.server.file, 'utf8');
const ofServer = async (): Promise<string[]> =>
  (await readdir(files.kubeletPki)).filter((name) => name.includes('server')).toSorted();

describe('a combined PEM', () => {
  it('is read as certificate and key', async () => {
    const found = await createDiskStore().read(files.server, signal);
    expect(Object.entries(found?.entries ?? {}).map(([key, bytes]) => [key, Buffer.from(bytes).toString()])).toEqual(
      [certificateKey, privateKeyKey].map((key) => [key, Buffer.from(first.entries[key] ?? '').toString()]),
    );
  });

  it('that is a link gets a new dated file, and the superseded one stays', async () => {
    await chmod(join(files.kubeletPki, former), 0o644);
    expect(await renew()).toBe('written');
    expect(await readlink(files.server.file)).toBe(join(files.kubeletPki, dated));
    expect(await content()).toBe(combined(second));
    expect((await stat(files.server.file)).mode & 0o777).toBe(0o600);
    expect(await ofServer()).toEqual([former, dated, 'kubelet-server-current.pem']);
    expect(await readFile(join(files.kubeletPki, former), 'utf8')).toBe(combined(first));
  });

  it('whose link is relative keeps it so', async () => {
    await rm(files.server.file);
    await symlink(former, files.server.file);
    await renew();
    expect(await readlink(files.server.file)).toBe(dated);
    expect(await content()).toBe(combined(second));
  });

  it('has its new file beside the old one, also in another directory', async () => {
    const elsewhere = join(files.kubeletPki, 'elsewhere');
    await mkdir(elsewhere);
    await rename(join(files.kubeletPki, former), join(elsewhere, former));
    await rm(files.server.file);
    await symlink(`elsewhere/${former}`, files.server.file);
    await renew();
    expect(await readlink(files.server.file)).toBe(join(elsewhere, dated));
    expect(await content()).toBe(combined(second));
  });

  // Takes root; where that cannot be had it is skipped, except where CI=true.
  it.skipIf(process.getuid?.() !== 0 && process.env['CI'] !== 'true')('keeps the owner', async () => {
    const { chown } = await import('node:fs/promises');
    await chown(join(files.kubeletPki, former), 4711, 4712);
    await renew();
    expect(await stat(files.server.file)).toMatchObject({ uid: 4711, gid: 4712 });
  });

  it('never takes a name that is there', async () => {
    await writeFile(join(files.kubeletPki, dated), 'somebody was here');
    await renew();
    expect(basename(await readlink(files.server.file))).toBe('kubelet-server-2026-11-21-12-00-01.pem');
    expect(await readFile(join(files.kubeletPki, dated), 'utf8')).toBe('somebody was here');
  });

  it('keeps five dated files, among them the superseded one, whatever its date', async () => {
    const names = Array.from({ length: 7 }, (_, index) => `kubelet-server-2026-01-0${index + 1}-00-00-00.pem`);
    for (const name of names) await writeFile(join(files.kubeletPki, name), 'old');
    await writeFile(join(files.kubeletPki, 'kubelet-server-notes.pem'), 'not ours');
    await renew();
    expect(await ofServer()).toEqual(
      [former, ...names.slice(3), dated, 'kubelet-server-current.pem', 'kubelet-server-notes.pem'].toSorted(),
    );
  });

  it('that is a plain file is replaced, and loses what the world could write', async () => {
    await rm(files.server.file);
    await writeFile(files.server.file, combined(first));
    await chmod(files.server.file, 0o646);
    await renew();
    expect((await lstat(files.server.file)).isFile()).toBe(true);
    expect(await content()).toBe(combined(second));
    expect((await stat(files.server.file)).mode & 0o777).toBe(0o600);
  });

  it.each(['absent', 'a link to nowhere'])('that is %s becomes a link to a dated file', async (state) => {
    if (state === 'absent') await rm(files.server.file);
    else await rm(join(files.kubeletPki, former));
    expect(await createDiskStore().read(files.server, signal)).toBeUndefined();
    expect(await renew()).toBe('written');
    expect(await readlink(files.server.file)).toBe(join(files.kubeletPki, dated));
    expect(await content()).toBe(combined(second));
  });

  it('keeps blocks of others once, however often it is renewed; which certificates stay is said by the entry', async () => {
    const other = '-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n';
    await writeFile(files.server.file, combined(first) + authority.toString() + other);
    const found = await createDiskStore().read(files.server, signal);
    const chain = Buffer.from(first.entries[certificateKey] ?? '').toString() + authority.toString();
    expect(Buffer.from(found?.entries[certificateKey] ?? '').toString()).toBe(chain);
    for (let turn = 0; turn < 2; turn += 1) {
      await renew();
      expect(await content()).toBe(combined(second) + other);
    }
  });

  it.each(['', '\0'.repeat(100), '-----BEGIN CERTIFICATE-----\nAAAA\n'])(
    'that is garbage (%j) is told and reissued',
    async (text) => {
      await writeFile(files.server.file, text);
      const found = await createDiskStore().read(files.server, signal);
      expect(found?.entries).toEqual({});
      if (text.includes('BEGIN')) expect(found?.problem).toContain('is cut off');
      expect(await renew()).toBe('written');
      expect(await content()).toBe(combined(second));
    },
  );

  it('that the kubelet rotates meanwhile is left alone, and nothing stays behind', async () => {
    const theirs = join(files.kubeletPki, 'kubelet-server-2026-11-21-11-59-59.pem');
    const open = (async (path: string, flags: string, mode?: number) => {
      if (flags === 'wx') {
        await writeFile(theirs, 'theirs');
        await symlink(theirs, `${files.server.file}.new`);
        await rename(`${files.server.file}.new`, files.server.file);
      }
      return realDisk.open(path, flags, mode);
    }) as Disk['open'];
    expect(await renew({ disk: { ...realDisk, open } })).toBe('conflict');
    expect(await content()).toBe('theirs');
    expect(await ofServer()).toEqual([former, basename(theirs), 'kubelet-server-current.pem']);
  });

  it('that fails leaves a file of the kubelet alone that has taken the name meanwhile', async () => {
    const theirs = join(files.kubeletPki, dated);
    const full = (async (path: string, flags: string, mode?: number) => {
      if (flags !== 'wx') return realDisk.open(path, flags, mode);
      await writeFile(theirs, 'theirs');
      throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    }) as Disk['open'];
    await expect(renew({ disk: { ...realDisk, open: full } })).rejects.toMatchObject({ code: 'WriteFailed' });
    expect(await readFile(theirs, 'utf8')).toBe('theirs');
  });

  it('whose link cannot be flipped keeps it, and nothing stays behind', async () => {
    const busy = (async (from: string, to: string) => {
      if (to === files.server.file) throw Object.assign(new Error('busy'), { code: 'EBUSY', path: to });
      await realDisk.rename(from, to);
    }) as Disk['rename'];
    await expect(renew({ disk: { ...realDisk, rename: busy } })).rejects.toMatchObject({
      code: 'WriteFailed',
      message: expect.stringContaining('is a bind mount of its own (a single file mounted into a container)') as string,
    });
    expect(await content()).toBe(combined(first));
    expect((await readdir(files.kubeletPki)).toSorted()).toEqual(
      [
        'kubelet-client-2025-11-20-10-00-00.pem',
        'kubelet-client-current.pem',
        former,
        'kubelet-server-current.pem',
      ].toSorted(),
    );
  });
});
