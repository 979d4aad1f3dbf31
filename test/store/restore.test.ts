import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import type { DiskLocation } from '../../lib/inventory/model.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { listGenerations, restoreGeneration, type RestoreOptions } from '../../lib/store/restore.ts';
import { type Material } from '../../lib/store/store.ts';
import { combined, embedded, type HostFiles, kubeconfigText, layOut, twoPairsIn, referenced } from './host-files.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const { signal } = new AbortController();
const notAfter = new Date('2027-03-01T00:00:00Z');

let root: string;
let options: RestoreOptions;
let files: HostFiles;
let artefacts: { name: string; location: DiskLocation }[];
let first: Material;
let second: Material;
let authority: Buffer;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'restore-'));
  ({ first, second, authority } = await twoPairsIn(root, { commonName: 'node', notAfter }));
});

afterAll(() => rm(root, { recursive: true, force: true }));

beforeEach(async () => {
  const directory = await mkdtemp(join(root, 'case-'));
  files = await layOut(directory, first, authority);
  options = { backupDir: join(directory, 'backup') };
  const { pair, admin, kubelet, server } = files;
  artefacts = [
    { name: 'apiserver', location: pair },
    { name: 'admin.conf', location: admin },
    { name: 'kubelet.conf', location: kubelet },
    { name: 'kubelet-server-current', location: server },
  ];
});

async function write(location: DiskLocation, material: Material): Promise<void> {
  const store = createDiskStore(options);
  const found = await store.read(location, signal);
  const seen = found === undefined ? ('absent' as const) : { version: found.version };
  expect(await store.write(location, material, seen, signal)).toBe('written');
}

const snapshot = async (): Promise<string[]> => {
  const { pair, admin, kubelet, client, server } = files;
  const paths = [pair.certFile, pair.keyFile, admin.file, kubelet.file, client.file, server.file];
  return Promise.all(paths.map((path) => readFile(path, 'utf8')));
};

describe('listGenerations()', () => {
  it('gives the generations of all artefacts, the youngest first, with the end of their certificates', async () => {
    expect(await listGenerations(artefacts, options)).toEqual([]);
    await write(files.pair, second);
    await write(files.pair, first);
    await write(files.admin, second);
    const found = await listGenerations(
      [...artefacts, { name: 'in the API', location: { kind: 'secret', namespace: 'a', name: 'b' } }],
      options,
    );
    expect(found.map(({ artefact, generation }) => `${artefact} ${generation}`)).toEqual([
      'apiserver 000002',
      'apiserver 000001',
      'admin.conf 000001',
    ]);
    for (const each of found) expect(each).toMatchObject({ notAfter, keptAt: expect.any(Date) as Date });
    expect(found.every(({ problem }) => problem === undefined)).toBe(true);
  });

  it('says of a torn file that it is of no use', async () => {
    await writeFile(files.pair.certFile, '-----BEGIN CERTIFICATE-----\nAAAA');
    await write(files.pair, second);
    const [found] = await listGenerations(artefacts, options);
    expect(found?.notAfter).toBeUndefined();
    expect(found?.unusable).toContain('Cannot read certificates');
  });

  const block = (label: string, text: string): string => `-----BEGIN ${label}-----\n${text}\n-----END ${label}-----\n`;
  const crl = block('X509 CRL', 'Version: 1\n\nAAAA');

  it('has a use for copies whose certificates stand beside blocks of others with headers', async () => {
    const cas = { kind: 'pemFile', file: join(dirname(files.pair.certFile), 'cas') } as const;
    await writeFile(files.pair.certFile, crl + String(first.entries[certificateKey]));
    await writeFile(cas.file, crl + String(authority));
    await write(files.pair, second);
    await write(cas, { entries: { 'ca-bundle.crt': second.entries[certificateKey] ?? authority }, annotations: {} });
    const found = await listGenerations([...artefacts, { name: 'cas', location: cas }], options);
    expect(found.map(({ artefact, unusable }) => [artefact, unusable])).toEqual([
      ['apiserver', undefined],
      ['cas', undefined],
    ]);
    for (const { notAfter: end } of found) expect(end).toBeInstanceOf(Date);
    for (const location of [files.pair, cas])
      expect(Object.keys((await createDiskStore(options).backup?.(location))?.entries ?? {})).not.toEqual([]);
  });

  it('has no use for a copy with an encrypted key', async () => {
    await writeFile(
      files.pair.keyFile,
      block('EC PRIVATE KEY', 'Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA'),
    );
    await write(files.pair, second);
    const [found] = await listGenerations(artefacts, options);
    expect(found?.unusable).toMatch(/key/);
  });

  const stray: readonly [string, string, (generation: string) => unknown][] = [
    ['a directory in it', 'EISDIR', (generation) => mkdir(join(generation, 'lost+found'))],
    ['a FIFO in it', 'ENOTREG', (generation) => execFileSync('mkfifo', [join(generation, 'tls.crt.new')])],
    [
      'a file in its place',
      'ENOTDIR',
      async (generation) => {
        await rm(generation, { recursive: true });
        await writeFile(generation, '');
      },
    ],
  ];

  it.each(stray)(
    'says of a generation that cannot be read why: %s; all others are as usual',
    async (_, code, spoil) => {
      for (const { location } of artefacts.slice(0, 2))
        for (const each of [second, first, second]) await write(location, each);
      const whole = await listGenerations(artefacts, options);
      await spoil(join(options.backupDir, encodeURIComponent(files.pair.certFile), '000003'));
      const [spoilt, ...others] = await listGenerations(artefacts, options);
      expect(spoilt).toMatchObject({ artefact: 'apiserver', generation: '000003', keptAt: expect.any(Date) as Date });
      expect(spoilt?.problem).toMatch(new RegExp(`^Cannot read backups of .*"${options.backupDir}.*\\(${code}\\)$`));
      expect(others).toEqual(whole.slice(1));
      expect(await restoreGeneration({ location: files.pair, generation: '000001' }, options)).toBe('restored');
    },
  );

  it('says of a generation on a bad sector why, and of one whose date is not known, too', async () => {
    for (const each of [second, first]) await write(files.pair, each);
    const shelf = join(options.backupDir, encodeURIComponent(files.pair.certFile));
    const failing = <Call extends 'readFile' | 'stat'>(call: Call): Disk[Call] =>
      ((path: string, ...more: never[]) =>
        path.startsWith(join(shelf, '000002'))
          ? Promise.reject(Object.assign(new Error('bad sector'), { code: 'EIO', path }))
          : (realDisk[call] as (...args: unknown[]) => unknown)(path, ...more)) as Disk[Call];
    for (const call of ['readFile', 'stat'] as const) {
      const disk = { ...realDisk, [call]: failing(call) };
      const found = await listGenerations(artefacts, { ...options, disk });
      expect(found.map(({ problem = 'whole' }) => problem.endsWith('(EIO)') || problem)).toEqual([true, 'whole']);
      expect(found.map(({ keptAt }) => keptAt !== undefined)).toEqual([call === 'readFile', true]);
    }
  });
});

describe('restoreGeneration()', () => {
  it('puts every kind back byte for byte, and keeps what it replaces', async () => {
    const before = await snapshot();
    for (const { location } of artefacts) await write(location, second);
    const renewed = await snapshot();
    expect(renewed).not.toEqual(before);
    for (const { location } of artefacts) {
      expect(await restoreGeneration({ location: location, generation: '000001' }, options)).toBe('restored');
    }
    expect(await snapshot()).toEqual(before);
    expect(await readlink(files.client.file)).toMatch(/kubelet-client-\d{4}(-\d{2}){5}\.pem$/);
    for (const { location } of artefacts) {
      expect(await restoreGeneration({ location: location, generation: '000001' }, options)).toBe('unchanged');
      expect(await restoreGeneration({ location: location, generation: '000002' }, options)).toBe('restored');
    }
    expect(await snapshot()).toEqual(renewed);
    expect(await readFile(files.server.file, 'utf8')).toBe(combined(second));
  });

  it('creates absent files again', async () => {
    const before = await snapshot();
    await write(files.admin, second);
    await rm(files.admin.file);
    await restoreGeneration({ location: files.admin, generation: '000001' }, options);
    expect(await snapshot()).toEqual(before);
  });

  it('keeps files that only the kept document names', async () => {
    const paths = [join(dirname(files.admin.file), 'a.crt'), join(dirname(files.admin.file), 'a.key')] as const;
    const put = async (material: Material): Promise<void> => {
      await writeFile(paths[0], material.entries[certificateKey] ?? '');
      await writeFile(paths[1], material.entries[privateKeyKey] ?? '');
    };
    await put(first);
    await writeFile(files.admin.file, kubeconfigText(authority.toString('base64'), referenced(...paths)));
    await write(files.admin, second);
    await writeFile(files.admin.file, kubeconfigText(authority.toString('base64'), embedded(first)));
    expect(await restoreGeneration({ location: files.admin, generation: '000001' }, options)).toBe('restored');
    expect(await readFile(paths[0])).toEqual(first.entries[certificateKey]);
    const shelf = join(options.backupDir, encodeURIComponent(files.admin.file), '000002');
    expect((await readdir(shelf)).toSorted()).toEqual(['kubeconfig', 'other-0-a.crt', 'other-1-a.key']);
    expect(await readFile(join(shelf, 'other-1-a.key'))).toEqual(second.entries[privateKeyKey]);
    expect(await restoreGeneration({ location: files.admin, generation: '000002' }, options)).toBe('restored');
    expect(await readFile(files.admin.file, 'utf8')).toBe(
      kubeconfigText(authority.toString('base64'), embedded(first)),
    );
  });

  it('refuses a pair that does not belong together', async () => {
    await write(files.pair, second);
    const { backupDir } = options;
    const [shelf = ''] = await readdir(backupDir);
    await writeFile(join(backupDir, shelf, '000001', 'tls.key'), await readFile(files.pair.keyFile));
    const before = await snapshot();
    await expect(restoreGeneration({ location: files.pair, generation: '000001' }, options)).rejects.toMatchObject({
      code: 'MaterialInvalid',
    });
    expect(await snapshot()).toEqual(before);
  });

  it('puts back any bytes that were replaced, where they are wanted as they were', async () => {
    await write(files.admin, second); // a torn one is made like its copy
    await write(files.pair, second);
    const torn = {
      [files.pair.keyFile]: '\0'.repeat(700),
      [files.pair.certFile]: '',
      [files.admin.file]: 'clusters: [',
    };
    for (const [path, content] of Object.entries(torn)) await writeFile(path, content);
    for (const { location } of artefacts.slice(0, 2)) await write(location, second);
    const { mode } = await stat(files.pair.keyFile);
    for (const { location } of artefacts.slice(0, 2)) {
      await expect(restoreGeneration({ location, generation: '000002' }, options)).rejects.toThrow('Cannot');
      const asItWas = { ...options, asItWas: true };
      expect(await restoreGeneration({ location, generation: '000002' }, asItWas)).toBe('restored');
      expect(await restoreGeneration({ location, generation: '000001' }, options)).toBe('restored');
      expect(await restoreGeneration({ location, generation: '000002' }, asItWas)).toBe('restored');
    }
    for (const [path, content] of Object.entries(torn)) expect(await readFile(path, 'utf8')).toBe(content);
    expect((await stat(files.pair.keyFile)).mode).toBe(mode);
  });

  it('puts a torn key back that only its owner reads', async () => {
    const paths = [join(dirname(files.admin.file), 'a.crt'), join(dirname(files.admin.file), 'a.key')] as const;
    await writeFile(paths[0], first.entries[certificateKey] ?? '');
    await writeFile(paths[1], '-----BEGIN PRIVATE KEY-----\nAAAA', { mode: 0o600 });
    await writeFile(files.admin.file, kubeconfigText(authority.toString('base64'), referenced(...paths)));
    await write(files.admin, second);
    for (const path of paths) await rm(path);
    const asItWas = { ...options, asItWas: true };
    expect(await restoreGeneration({ location: files.admin, generation: '000001' }, asItWas)).toBe('restored');
    const modes = await Promise.all(paths.map(async (path) => (await stat(path)).mode & 0o777));
    expect(modes).toEqual([0o644, 0o600]);
  });

  it('says that there is no such generation', async () => {
    await expect(restoreGeneration({ location: files.pair, generation: '000009' }, options)).rejects.toMatchObject({
      code: 'ReadFailed',
      message: expect.stringContaining('there is no generation "000009"') as string,
    });
  });
});
