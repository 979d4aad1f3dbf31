import { lstat, mkdir, mkdtemp, readFile, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RecoveryError } from '../../lib/errors.ts';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import type { Found, Material, Seen } from '../../lib/store/store.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { failingDisk, type Failure } from './failing-disk.ts';
import { bundleMaterial, pairMaterial } from './material.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const { signal } = new AbortController();
const block = (label: string, body: string) => `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`;
const crl = Buffer.from(block('X509 CRL', 'Version: 1\n\nAAAA'));
const never = Number.POSITIVE_INFINITY;
const works: Failure = { at: never, code: 'EIO', forever: false };

let root: string;
let scratch: string;
let pki: string;
let backupDir: string;
let pair: LocationOf<'pemPair'>;
let bundle: LocationOf<'pemFile'>;
let first: Material;
let second: Material;
let trust: Material;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'disk-store-'));
  const signer = await createAuthority(join(root, 'ca'), { commonName: 'etcd-ca' });
  first = await pairMaterial(await createLeaf(join(root, 'first'), signer, { commonName: 'first' }));
  second = await pairMaterial(await createLeaf(join(root, 'second'), signer, { commonName: 'second' }));
  trust = await bundleMaterial(signer.cert);
});

afterAll(() => rm(root, { recursive: true, force: true }));

beforeEach(async () => {
  scratch = await mkdtemp(join(root, 'case-'));
  pki = join(scratch, 'pki');
  backupDir = join(scratch, 'backup');
  await mkdir(pki);
  pair = { kind: 'pemPair', certFile: join(pki, 'server.crt'), keyFile: join(pki, 'server.key') };
  bundle = { kind: 'pemFile', file: join(pki, 'ca.crt') };
});

async function put(material: Material): Promise<void> {
  await writeFile(pair.keyFile, material.entries[privateKeyKey] ?? '', { mode: 0o600 });
  await writeFile(pair.certFile, material.entries[certificateKey] ?? '', { mode: 0o644 });
}

async function seen(): Promise<Seen> {
  const found = await createDiskStore().read(pair, signal);
  return found === undefined ? 'absent' : { version: found.version };
}

const bytes = (found: Found | undefined): Record<string, string> =>
  Object.fromEntries(
    Object.entries(found?.entries ?? {}).map(([key, value]) => [key, Buffer.from(value).toString()] as const),
  );
const text = ({ entries }: Material): Record<string, string> => bytes({ entries, annotations: {}, version: '' });

describe('read()', () => {
  it('returns undefined when neither file is there', async () => {
    expect(await createDiskStore().read(pair, signal)).toBeUndefined();
  });

  it('returns the half that is there when the other is gone', async () => {
    await put(first);
    await rm(pair.keyFile);
    expect(Object.keys((await createDiskStore().read(pair, signal))?.entries ?? {})).toEqual([certificateKey]);
  });

  it('gives another version to other bytes and the same to the same', async () => {
    await put(first);
    const before = await seen();
    await put(second);
    expect(await seen()).not.toEqual(before);
    await put(first);
    expect(await seen()).toEqual(before);
  });

  it('names the directory in the place of a file, and never writes there', async () => {
    await mkdir(pair.certFile);
    const found = await createDiskStore().read(pair, signal);
    expect(found).toMatchObject({
      entries: {},
      isOtherDocument: true,
      foreign: expect.stringContaining(`"${pair.certFile}" is a directory`) as string,
    });
    const version = found?.version ?? '';
    await expect(createDiskStore().write(pair, first, { version }, signal)).rejects.toThrow('is a directory');
  });

  it.each([
    ['an archive', 'tls.crt', Buffer.from('1f8b08000000', 'hex'), 'no certificate but an archive (gzip)'],
    [
      'a key of SSH',
      'tls.key',
      '-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n',
      'no private key but a PEM block "OPENSSH',
    ],
    ['text', 'tls.crt', 'garbage', 'no certificate but text'],
    ['a key', 'tls.crt', '-----BEGIN PRIVATE KEY-----\nAAAA\n', 'no certificate but a private key'],
  ])('names %s in the place of %s, and never writes there', async (_title, half, content, what) => {
    await put(first);
    const path = half === 'tls.key' ? pair.keyFile : pair.certFile;
    await writeFile(path, content);
    const found = await createDiskStore().read(pair, signal);
    expect(found).toMatchObject({ isOtherDocument: true, foreign: expect.stringContaining(what) as string });
    const version = found?.version ?? '';
    await expect(createDiskStore().write(pair, second, { version }, signal)).rejects.toMatchObject({
      code: 'WriteFailed',
    });
    expect(await readFile(path)).toEqual(Buffer.from(content as string));
  });
});

describe('write()', () => {
  it('creates an absent pair with a private key', async () => {
    expect(await createDiskStore().write(pair, first, 'absent', signal)).toBe('written');
    expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(first));
    expect((await stat(pair.keyFile)).mode & 0o777).toBe(0o600);
    expect((await stat(pair.certFile)).mode & 0o777).toBe(0o644);
    expect(await readdir(pki)).toEqual(['server.crt', 'server.key']);
  });

  it('writes a bundle file', async () => {
    expect(await createDiskStore().write(bundle, trust, 'absent', signal)).toBe('written');
    expect(await readFile(bundle.file, 'utf8')).toBe(Buffer.from(trust.entries[caBundleKey] ?? '').toString());
  });

  it.each([
    ['a private key', (key: string) => key],
    ['an encrypted one', () => block('RSA PRIVATE KEY', 'Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA')],
  ])('never writes %s among CAs, and leaves a file that has one as it is', async (_, keyOf) => {
    const cas = Buffer.from(trust.entries[caBundleKey] ?? '').toString();
    const content = cas + keyOf(Buffer.from(first.entries[privateKeyKey] ?? '').toString());
    await writeFile(bundle.file, content);
    const { version = '' } = (await createDiskStore().read(bundle, signal)) ?? {};
    const next = { entries: { [caBundleKey]: Buffer.from(`# next\n${content}`) }, annotations: {} };
    await expect(createDiskStore().write(bundle, next, { version }, signal)).rejects.toMatchObject({
      code: 'MaterialInvalid',
      message: expect.stringContaining('a private key among its CAs; move it to a file of its own') as string,
    });
    await expect(createDiskStore().write(bundle, trust, { version }, signal)).rejects.toThrow('holds a private key');
    expect(await readFile(bundle.file, 'utf8')).toBe(content);
  });

  it('writes CAs beside a block of others with headers', async () => {
    const entries = { [caBundleKey]: Buffer.concat([crl, trust.entries[caBundleKey] ?? Buffer.of()]) };
    expect(await createDiskStore().write(bundle, { entries, annotations: {} }, 'absent', signal)).toBe('written');
  });

  it('follows a symbolic link and leaves it in place', async () => {
    await put(first);
    const { rename } = await import('node:fs/promises');
    await rename(pair.certFile, join(scratch, 'real.crt'));
    await symlink(join(scratch, 'real.crt'), pair.certFile);
    expect(await createDiskStore().write(pair, second, await seen(), signal)).toBe('written');
    expect((await lstat(pair.certFile)).isSymbolicLink()).toBe(true);
    expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(second));
  });

  it('follows a link to what is absent, and leaves it in place', async () => {
    await put(first);
    await rm(pair.certFile);
    await symlink(join('..', 'real.crt'), pair.certFile);
    expect(await createDiskStore().write(pair, second, await seen(), signal)).toBe('written');
    expect((await lstat(pair.certFile)).isSymbolicLink()).toBe(true);
    expect(await readFile(join(scratch, 'real.crt'))).toEqual(second.entries[certificateKey]);
  });

  it('replaces a file with a new inode, so that a watcher of the old one is told', async () => {
    await put(first);
    const { ino } = await stat(pair.certFile);
    await createDiskStore({ backupDir }).write(pair, second, await seen(), signal);
    expect((await stat(pair.certFile)).ino).not.toBe(ino);
    expect((await stat(pair.certFile)).nlink).toBe(1);
  });

  it('makes the key private before its content is written', async () => {
    const modes: number[] = [];
    const { disk } = failingDisk({
      ...works,
      before: {
        call: 'handle.writeFile',
        run: async () => {
          for (const name of await readdir(pki)) modes.push((await stat(join(pki, name))).mode & 0o777);
        },
      },
    });
    await createDiskStore({ disk }).write(pair, first, 'absent', signal);
    expect(modes[0]).toBe(0o600);
    expect(modes.length).toBeGreaterThan(1);
  });

  it('syncs both files before the first rename, and the directory after the last', async () => {
    const { disk, calls } = failingDisk(works);
    await createDiskStore({ disk }).write(pair, first, 'absent', signal);
    const steps = calls.filter((name) => ['handle.sync', 'rename'].includes(name));
    expect(steps.join(' ')).toBe('handle.sync handle.sync rename rename handle.sync');
  });
});

describe('write() refuses', () => {
  it.each([
    { name: 'what was absent and is there', had: true, see: 'absent' as Seen },
    { name: 'what was there and is absent', had: false, see: { version: 'some' } },
    { name: 'what has changed since', had: true, see: { version: 'other' } },
  ])('$name with a conflict', async ({ had, see }) => {
    if (had) await put(first);
    expect(await createDiskStore({ backupDir }).write(pair, second, see, signal)).toBe('conflict');
    expect(bytes(await createDiskStore().read(pair, signal))).toEqual(had ? text(first) : {});
  });

  it('to overwrite what another program has written meanwhile', async () => {
    await put(first);
    let done = false;
    const other = async (): Promise<void> => {
      if (!done) await writeFile(pair.certFile, 'kubeadm was here');
      done = true;
    };
    const { disk } = failingDisk({ ...works, before: { call: 'handle.sync', run: other } });
    expect(await createDiskStore({ disk }).write(pair, second, await seen(), signal)).toBe('conflict');
    expect(await readFile(pair.certFile, 'utf8')).toBe('kubeadm was here');
    expect(await readdir(pki)).toEqual(['server.crt', 'server.key']);
  });

  it.each([
    { name: 'broken PEM', change: { [certificateKey]: Buffer.from('no PEM') } },
    { name: 'a pair that does not match', change: { [privateKeyKey]: 'second' } },
    { name: 'an entry that has no file', change: { 'ca.crt': Buffer.from('x') } },
  ])('$name and leaves what is there', async ({ change }) => {
    await put(first);
    const entries: Record<string, Uint8Array> = { ...first.entries };
    for (const [key, value] of Object.entries(change)) {
      entries[key] = typeof value === 'string' ? (second.entries[key] ?? new Uint8Array()) : value;
    }
    await expect(
      createDiskStore().write(pair, { entries, annotations: {} }, await seen(), signal),
    ).rejects.toMatchObject({ code: 'MaterialInvalid', message: expect.stringContaining(pair.certFile) as string });
    expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(first));
  });

  it('to replace a link into a directory that does not exist, and names both', async () => {
    await put(first);
    const target = join(scratch, 'not-mounted', 'server.crt');
    await rm(pair.certFile);
    await symlink(target, pair.certFile);
    await expect(createDiskStore({ backupDir }).write(pair, second, await seen(), signal)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: `Cannot write "${pair.certFile}": it is a link to "${target}", whose directory does not exist; mount the disk that holds it, or correct the link`,
    });
    expect((await lstat(pair.certFile)).isSymbolicLink()).toBe(true);
    expect(await readFile(pair.keyFile)).toEqual(first.entries[privateKeyKey]);
    expect((await readdir(pki)).toSorted()).toEqual(['server.crt', 'server.key']);
  });

  it('to work in a directory that does not exist, and names the pair', async () => {
    await rm(pki, { recursive: true });
    await expect(createDiskStore().write(pair, first, 'absent', signal)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: `Cannot write pair "${pair.certFile}": "${pki}": does not exist; create it or correct the path (ENOENT); the last good files stay in use`,
    });
  });
});

describe('write() that fails', () => {
  it.each(['ENOSPC', 'EROFS', 'EACCES', 'EIO'])('at any call with %s leaves the last good pair', async (code) => {
    let at = 0;
    for (; ; at += 1) {
      await put(first);
      const { disk, calls } = failingDisk({ at, code, forever: false });
      const result = await createDiskStore({ disk, backupDir })
        .write(pair, second, await seen(), signal)
        .catch((err: unknown) => err);
      if (calls.length <= at) break;
      if (result === 'written') continue; // the call was one whose failure is not one (removal of what is left over)
      expect(result, `call ${at} (${calls[at]})`).toMatchObject({
        code: expect.stringMatching(/^(Write|Read)Failed$/),
      });
      expect(String(result)).toContain(pair.certFile);
      const now = bytes(await createDiskStore().read(pair, signal));
      // After both renames only the directory is synced: then the new pair is complete.
      expect([text(first), text(second)], `call ${at} (${calls[at]})`).toContainEqual(now);
    }
    expect(at).toBeGreaterThan(20);
  });

  it('for good (killed there) never leaves a path absent or a file half written, and the next write repairs it', async () => {
    const whole = [first, second].map(text);
    const keys = whole.map((entries) => entries[privateKeyKey]);
    const certificates = whole.map((entries) => entries[certificateKey]);
    let mixed = 0;
    for (let at = 0; ; at += 1) {
      await put(first);
      const { disk, calls } = failingDisk({ at, code: 'EIO', forever: true });
      const result = await createDiskStore({ disk, backupDir })
        .write(pair, second, await seen(), signal)
        .catch((err: unknown) => err);
      if (calls.length <= at) {
        expect(result).toBe('written');
        break;
      }
      const left = bytes(await createDiskStore().read(pair, signal));
      expect(keys).toContain(left[privateKeyKey]);
      expect(certificates).toContain(left[certificateKey]);
      if (
        !whole.some(
          (entries) =>
            entries[privateKeyKey] === left[privateKeyKey] && entries[certificateKey] === left[certificateKey],
        )
      )
        mixed += 1;
      expect(await createDiskStore({ backupDir }).write(pair, second, await seen(), signal)).toBe('written');
      expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(second));
      expect((await readdir(pki)).toSorted()).toEqual(['server.crt', 'server.key']);
    }
    // Exactly the window between the two renames: the second rename itself.
    expect(mixed).toBe(1);
  });
});

describe('write() that fails and cannot go back', () => {
  interface Faults {
    /** Of the rename that gives the certificate its name. */
    readonly rename?: Error;
    /** Of a file that is opened from then on. */
    readonly open: (path: string, flags: string) => Error | undefined;
  }

  function failingFromCertificate(faults: Faults): Disk {
    let isReached = false;
    return {
      ...realDisk,
      rename: (async (from: string, to: string) => {
        isReached ||= to === pair.certFile;
        if (to === pair.certFile && faults.rename !== undefined) throw faults.rename;
        await realDisk.rename(from, to);
      }) as Disk['rename'],
      open: (async (path: string, flags: string, mode?: number) => {
        const fault = isReached ? faults.open(path, flags) : undefined;
        if (fault !== undefined) throw fault;
        return realDisk.open(path, flags, mode);
      }) as Disk['open'],
    };
  }

  it('says that the new files are in use once they have their names', async () => {
    await put(first);
    const eio = Object.assign(new Error('disk'), { code: 'EIO' });
    const disk = failingFromCertificate({ open: (path) => (path === dirname(pair.certFile) ? eio : undefined) });
    await expect(createDiskStore({ disk }).write(pair, second, await seen(), signal)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: expect.stringContaining(
        '(EIO); the new files are in use, and a power loss may bring the former ones back',
      ),
    });
    expect((await createDiskStore().read(pair, signal))?.entries).toEqual(second.entries);
  });

  it('tells the failure that it began with', async () => {
    await put(first);
    const full = Object.assign(new Error('full'), { code: 'ENOSPC' });
    const disk = failingFromCertificate({
      rename: Object.assign(new Error('busy'), { code: 'EBUSY' }),
      open: (_path, flags) => (flags === 'wx' ? full : undefined),
    });
    await expect(createDiskStore({ disk }).write(pair, second, await seen(), signal)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: expect.stringContaining(
        `(EBUSY); "${pair.keyFile}" cannot be taken back: certificate and key do not match until the next run`,
      ) as string,
      details: { system: 'EBUSY' },
    });
    expect((await readdir(pki)).toSorted()).toEqual(['server.crt', 'server.key']);
  });
});

describe('backups', () => {
  const shelf = (): string => join(backupDir, encodeURIComponent(pair.certFile));

  /** The real disk, which is full (or worse) below the backup directory only. */
  function fullBackup(code: string, after = 0): Disk {
    let calls = 0;
    const refuse = (path: unknown): void => {
      if (!String(path).startsWith(backupDir)) return;
      calls += 1;
      if (calls > after) throw Object.assign(new Error(code), { code });
    };
    return {
      ...realDisk,
      mkdir: (async (path: string, options: object) => {
        refuse(path);
        return realDisk.mkdir(path, options);
      }) as Disk['mkdir'],
      open: (async (path: string, flags: string, mode?: number) => {
        refuse(path);
        return realDisk.open(path, flags, mode);
      }) as Disk['open'],
    };
  }

  it.each(['ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EIO'])(
    'that fail with %s are told of, and the pair is healed',
    async (code) => {
      await put(first);
      const told: RecoveryError[] = [];
      const store = createDiskStore({
        backupDir,
        disk: fullBackup(code),
        onBackupFailed: (err) => void told.push(err),
      });
      expect(await store.write(pair, second, await seen(), signal)).toBe('written');
      expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(second));
      expect(told).toMatchObject([{ code: 'WriteFailed', details: { system: code } }]);
      expect(told[0]?.message).toContain(`Cannot back up pair "${pair.certFile}" to "${backupDir}": `);
    },
  );

  it('that fail half-way leave no half generation', async () => {
    await put(first);
    await createDiskStore({ backupDir, disk: fullBackup('ENOSPC', 3) }).write(pair, second, await seen(), signal);
    expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(second));
    expect(await readdir(join(backupDir, encodeURIComponent(pair.certFile)))).toEqual([]);
  });

  it.each<[string, () => Promise<void>]>([
    ['ENOTDIR', () => writeFile(backupDir, 'a file')],
    ['EEXIST', () => mkdir(backupDir).then(() => writeFile(shelf(), 'a file'))],
    ['ELOOP', () => symlink(backupDir, backupDir)],
  ])('that cannot be kept (%s) are told of, and the pair is healed', async (system, breakIt) => {
    await put(first);
    await breakIt();
    const told: RecoveryError[] = [];
    const store = createDiskStore({ backupDir, onBackupFailed: (err) => void told.push(err) });
    const found = await store.backup?.(pair);
    expect(found).toBeUndefined();
    told.length = 0;
    expect(await store.write(pair, second, await seen(), signal)).toBe('written');
    expect(bytes(await createDiskStore().read(pair, signal))).toEqual(text(second));
    expect(told).toMatchObject([{ code: 'WriteFailed', details: { system } }]);
  });

  it('that cannot be read count as none, and older ones count', async () => {
    await put(first);
    const store = createDiskStore({ backupDir });
    await store.write(pair, second, await seen(), signal);
    await writeFile(join(shelf(), '000002'), 'a file where a generation is wanted');
    await mkdir(join(shelf(), '000003', certificateKey), { recursive: true });
    expect(bytes(await store.backup?.(pair))).toEqual(text(first));
    expect(await store.write(pair, first, await seen(), signal)).toBe('written');
    expect(bytes(await store.backup?.(pair))).toEqual(text(second));
  });

  it('that cannot be looked at are told of, and count as none', async () => {
    await put(first);
    await mkdir(backupDir);
    await writeFile(shelf(), 'a file');
    const told: RecoveryError[] = [];
    const store = createDiskStore({ backupDir, onBackupFailed: (err) => void told.push(err) });
    expect(await store.backup?.(pair)).toBeUndefined();
    expect(told).toMatchObject([{ code: 'ReadFailed', details: { system: 'ENOTDIR' } }]);
  });

  it('are byte copies, private, and the last five', async () => {
    await put(first);
    for (let turn = 0; turn < 8; turn += 1) {
      await createDiskStore({ backupDir }).write(pair, turn % 2 === 0 ? second : first, await seen(), signal);
    }
    const directory = join(backupDir, encodeURIComponent(pair.certFile));
    const generations = (await readdir(directory)).toSorted();
    expect(generations).toEqual(['000004', '000005', '000006', '000007', '000008']);
    expect((await stat(backupDir)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, '000008'))).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, '000008', privateKeyKey))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(directory, '000007', privateKeyKey))).toEqual(first.entries[privateKeyKey]);
    expect(await readFile(join(directory, '000008', privateKeyKey))).toEqual(second.entries[privateKeyKey]);
  });

  it('of the same bytes are made once, however often the write fails', async () => {
    await put(first);
    for (let turn = 0; turn < 3; turn += 1) {
      const { disk } = failingDisk(works);
      const rename = (async (from: string, to: string) => {
        if (to.startsWith(pki)) throw Object.assign(new Error('full'), { code: 'ENOSPC' });
        await realDisk.rename(from, to);
      }) as Disk['rename'];
      const failing = { ...disk, rename };
      await expect(
        createDiskStore({ backupDir, disk: failing }).write(pair, second, await seen(), signal),
      ).rejects.toThrow('free some space there, or inodes (df -i) (ENOSPC)');
    }
    expect(await readdir(join(backupDir, encodeURIComponent(pair.certFile)))).toEqual(['000001']);
  });
});
