import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { authorityKey, type Material } from '../../lib/store/store.ts';
import { type HostFiles, kubeconfigText, layOut, twoPairsIn, referenced } from './host-files.ts';

let root: string;
let directory: string;
let backupDir: string;
let files: HostFiles;
let first: Material;
let second: Material;
let ca: Buffer;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'unseen-files-'));
  ({ first, second, authority: ca } = await twoPairsIn(root, { commonName: 'kubernetes-admin' }));
});

afterAll(() => rm(root, { recursive: true, force: true }));

beforeEach(async () => {
  directory = await mkdtemp(join(root, 'case-'));
  backupDir = join(directory, 'backup');
  files = await layOut(directory, first, ca);
});

async function renew(location: LocationOf<'kubeconfig'>): Promise<string> {
  const store = createDiskStore({ backupDir, endpoints: { controlPlane: 'https://10.0.0.1:6443' } });
  const signal = AbortSignal.timeout(20_000);
  const seen = await store.read(location, signal);
  const next = { entries: { ...second.entries, [authorityKey]: ca }, annotations: {} };
  return store.write(location, next, seen === undefined ? 'absent' : { version: seen.version }, signal);
}

describe('files that only a kept document or the inventory names for credentials', () => {
  const ofOthers = '# of a monitor\nTOKEN=1\n';

  it('are left to others whose content they hold now, where the document is made from its copy', async () => {
    const [cert, key] = [join(directory, 'named.crt'), join(directory, 'named.key')];
    await writeFile(cert, first.entries[certificateKey] ?? '');
    await writeFile(key, first.entries[privateKeyKey] ?? '', { mode: 0o600 });
    await writeFile(files.admin.file, kubeconfigText(ca.toString('base64'), referenced(cert, key)), { mode: 0o600 });
    await renew(files.admin);
    await rename(files.admin.file, `${files.admin.file}.kept`);
    const kept = join(backupDir, encodeURIComponent(files.admin.file));
    expect(await readdir(kept)).not.toEqual([]);
    await writeFile(key, ofOthers);
    await expect(renew(files.admin)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: expect.stringContaining(`"${key}" holds no certificate and no private key but`) as string,
    });
    expect(await readFile(key, 'utf8')).toBe(ofOthers);
    expect(await readdir(directory)).not.toContain('admin.conf');
  });

  it('are left to others where the document has no credentials at all', async () => {
    await rm(files.client.file);
    await writeFile(files.client.file, ofOthers);
    await writeFile(files.kubelet.file, kubeconfigText(ca.toString('base64'), '    {}'), { mode: 0o600 });
    await expect(renew(files.kubelet)).rejects.toMatchObject({ code: 'WriteFailed' });
    expect(await readFile(files.client.file, 'utf8')).toBe(ofOthers);
  });

  it('are kept before they are replaced', async () => {
    await writeFile(files.kubelet.file, kubeconfigText(ca.toString('base64'), '    {}'), { mode: 0o600 });
    const before = await readFile(files.client.file);
    expect(await renew(files.kubelet)).toBe('written');
    const shelf = join(backupDir, encodeURIComponent(files.kubelet.file), '000001');
    const copies = await Promise.all((await readdir(shelf)).map((name) => readFile(join(shelf, name))));
    expect(copies.some((bytes) => bytes.equals(before))).toBe(true);
  });
});
