// Kubeconfigs that client-go cannot load: each is told, and rewritten from what is known.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createDiskStore, type DiskStoreOptions } from '../../lib/store/disk-store.ts';
import { authorityKey, type Found, type Material } from '../../lib/store/store.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { embedded, type HostFiles, kubeconfigText, layOut, twoPairsIn, withAuthority } from './host-files.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const { signal } = new AbortController();
const server = 'https://10.0.0.1:6443';
const now = (): Date => new Date('2026-11-21T12:00:00');

let root: string;
let directory: string;
let backupDir: string;
let files: HostFiles;
let first: Material;
let second: Material;
let oldCa: Buffer;
let newCa: Buffer;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubeconfig-store-'));
  ({ first, second, authority: oldCa } = await twoPairsIn(root, { commonName: 'kubernetes-admin' }));
  newCa = await readFile((await createAuthority(join(root, 'ca-second'), { commonName: 'kubernetes' })).cert);
});

afterAll(() => rm(root, { recursive: true, force: true }));

beforeEach(async () => {
  directory = await mkdtemp(join(root, 'case-'));
  backupDir = join(directory, 'backup');
  files = await layOut(directory, first, oldCa);
});

const read = (location: LocationOf<'kubeconfig'>): Promise<Found | undefined> =>
  createDiskStore().read(location, signal);

async function renew(location: LocationOf<'kubeconfig'>, options: DiskStoreOptions = {}): Promise<string> {
  const store = createDiskStore({ now, backupDir, ...options });
  const found = await store.read(location, signal);
  const seen = found === undefined ? ('absent' as const) : { version: found.version };
  return store.write(location, withAuthority(second, newCa), seen, signal);
}

const texts = (found: Found | undefined): Record<string, string> =>
  Object.fromEntries(Object.entries(found?.entries ?? {}).map(([key, bytes]) => [key, Buffer.from(bytes).toString()]));
const wanted = (material: Material, ca: Buffer): Record<string, string> => ({
  [certificateKey]: Buffer.from(material.entries[certificateKey] ?? '').toString(),
  [privateKeyKey]: Buffer.from(material.entries[privateKeyKey] ?? '').toString(),
  [authorityKey]: ca.toString(),
});

/** Of what `kubeconfigText` says, one text replaced by another, which client-go cannot load. */
const unloadable: readonly [string, string | RegExp, string, string][] = [
  ['a user that is a list', /admin\n {2}user:\n[^]*$/, 'admin\n  user: []\n', 'user is no mapping'],
  ['a user that is a text', /admin\n {2}user:\n[^]*$/, 'admin\n  user: x\n', 'user is no mapping'],
  ['one cut inside a key name', /    client-certificate-data[^]*$/, '    client-c', 'user is no mapping'],
  [
    'a cluster that is a text',
    /- cluster:\n {4}certificate[^]*?name: kubernetes/,
    '- cluster: x\n  name: kubernetes',
    'no server',
  ],
  ['clusters that are a text', /clusters:\n[^]*?(?=contexts)/, 'clusters: x\n', 'no cluster'],
  ['a cluster without server', /server: https:\/\/10.*/, '', 'cluster "kubernetes" has no server'],
  [
    'another context of another type',
    'user: somebody\n  name',
    'user: []\n  name',
    'contexts[0].context.user is not text',
  ],
  [
    'two users of one name',
    '- name: kubernetes-admin\n',
    '- name: somebody\n- name: kubernetes-admin\n',
    'two of its users',
  ],
  ['another kind', 'kind: Config', 'kind: Pod', 'another kind'],
  ['preferences that are a number', 'preferences: {}', 'preferences: 7', 'preferences is no mapping'],
];

describe('a kubeconfig that no component can load', () => {
  const whole = (): string => kubeconfigText(oldCa.toString('base64'), embedded(first));
  const endpoints = { controlPlane: server, local: server };

  it.each(unloadable)('%s: is told, and reissued from what is known', async (_, from, to, problem) => {
    await writeFile(files.admin.file, whole().replace(from, to));
    expect(await read(files.admin)).toMatchObject({ problem: expect.stringContaining(problem) as string });
    expect(await renew(files.admin, { endpoints })).toBe('written');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
    // Once is enough.
    expect(await renew(files.admin, { endpoints })).toBe('written');
  });

  it.each(unloadable)('%s: is made from its backup, where there is one', async (_, from, to) => {
    await writeFile(files.admin.file, whole());
    expect(await renew(files.admin)).toBe('written'); // which keeps a copy of what was there
    await writeFile(files.admin.file, whole().replace(from, to));
    expect(await renew(files.admin)).toBe('written');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
    expect(await readFile(files.admin.file, 'utf8')).toContain('# made by kubeadm');
  });

  it('is not made of one that can be read', async () => {
    await writeFile(files.admin.file, whole());
    const many = withAuthority(second, Buffer.from(newCa.toString().repeat(1000)));
    const store = createDiskStore({ now });
    const seen = (await store.read(files.admin, signal)) ?? 'absent';
    await expect(store.write(files.admin, many, seen, signal)).rejects.toThrow(/could not be read again.*characters/);
    expect(await readFile(files.admin.file, 'utf8')).toBe(whole());
  });

  it('with names of nobody and no server is damaged, and not another cluster’s', async () => {
    const text = whole()
      .replaceAll('kubernetes', 'k')
      .replace(/server: https:\/\/10.*/, '');
    await writeFile(files.admin.file, text);
    const found = await createDiskStore({ endpoints }).read(files.admin, signal);
    expect(found).toMatchObject({ problem: expect.stringContaining('has no server') as string });
    expect(found).not.toHaveProperty('foreign');
  });

  it('with a byte in a path that is no UTF-8 is not taken for another path', async () => {
    const text = await readFile(files.kubelet.file);
    text[text.indexOf('/kubelet-client') - 1] = 0xef;
    await writeFile(files.kubelet.file, text);
    expect(await read(files.kubelet)).toMatchObject({ problem: expect.stringContaining('not UTF-8') as string });
    expect(await renew(files.kubelet, { endpoints })).toBe('written');
    expect(texts(await read(files.kubelet))).toEqual(wanted(second, newCa));
  });
});
