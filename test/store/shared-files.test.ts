// A link that leads to the file of another artefact: neither is written.
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import type { Owner } from '../../lib/store/shared-files.ts';
import { type Material } from '../../lib/store/store.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { pairMaterial } from './material.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const { signal } = new AbortController();
let root: string;
let pki: string;
let authority: Material;
let first: Material;
let second: Material;
let owners: readonly Owner[];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shared-files-'));
  const signer = await createAuthority(join(root, 'ca'), { commonName: 'kubernetes' });
  authority = await pairMaterial(signer);
  first = await pairMaterial(await createLeaf(join(root, 'first'), signer, { commonName: 'first' }));
  second = await pairMaterial(await createLeaf(join(root, 'second'), signer, { commonName: 'second' }));
});
afterAll(() => rm(root, { recursive: true, force: true }));
beforeEach(async () => {
  pki = join(await mkdtemp(join(root, 'case-')), 'pki');
  await mkdir(pki);
  owners = [
    { name: 'ca', kind: 'signer', location: at('ca') },
    { name: 'apiserver', kind: 'target', location: at('apiserver') },
    { name: 'etcd-client', kind: 'target', location: at('etcd-client') },
  ];
});

const path = (name: string): string => join(pki, name);
const at = (name: string): LocationOf<'pemPair'> => ({
  kind: 'pemPair',
  certFile: path(`${name}.crt`),
  keyFile: path(`${name}.key`),
});

async function put(name: string, material: Material): Promise<void> {
  await writeFile(at(name).keyFile, material.entries[privateKeyKey] ?? '', { mode: 0o600 });
  await writeFile(at(name).certFile, material.entries[certificateKey] ?? '');
}

async function renew(name: string): Promise<string> {
  const store = createDiskStore({ owners });
  const found = await store.read(at(name), signal);
  const seen = found === undefined ? ('absent' as const) : { version: found.version };
  return store.write(at(name), second, seen, signal).catch((err: unknown) => (err as Error).message);
}

it('a leaf that is a link to its CA is not written, and the CA stays', async () => {
  await put('ca', authority);
  await put('apiserver', first);
  await rm(path('apiserver.crt'));
  await symlink('ca.crt', path('apiserver.crt'));
  const before = await readFile(path('ca.crt'));
  expect(await renew('apiserver')).toBe(
    `Cannot write pair "${path('apiserver.crt')}": "${path('apiserver.crt')}" leads to "${path('ca.crt')}", which belongs to ca; replace the link by a file of its own`,
  );
  expect(await readFile(path('ca.crt'))).toEqual(before);
});

it('a key that is a link to that of the service accounts is not written', async () => {
  await put('apiserver', first);
  const key = '-----BEGIN PRIVATE KEY-----\nof the service accounts\n';
  await writeFile(path('sa.key'), key);
  await rm(path('apiserver.key'));
  await symlink('sa.key', path('apiserver.key'));
  expect(await renew('apiserver')).toContain('which belongs to the service accounts');
  expect(await readFile(path('sa.key'), 'utf8')).toBe(key);
});

it('half a pair that is that of another leaf is not written', async () => {
  await put('etcd-client', first);
  await put('apiserver', first);
  await rm(path('etcd-client.crt'));
  await symlink('apiserver.crt', path('etcd-client.crt'));
  expect(await renew('etcd-client')).toContain('which belongs to apiserver');
});

it('a pair that is another leaf’s as a whole is one with it', async () => {
  await put('apiserver', first);
  for (const end of ['crt', 'key']) await symlink(`apiserver.${end}`, path(`etcd-client.${end}`));
  expect(await renew('etcd-client')).toBe('written');
  expect(await readFile(path('apiserver.key'), 'utf8')).toBe(
    Buffer.from(second.entries[privateKeyKey] ?? '').toString(),
  );
});

it('two that are one pair by links are written one after the other, and the second sees the first', async () => {
  await put('apiserver', first);
  for (const end of ['crt', 'key']) await symlink(`apiserver.${end}`, path(`etcd-client.${end}`));
  for (let round = 0; round < 10; round += 1) {
    const stores = ['apiserver', 'etcd-client'].map((name) => ({ name, store: createDiskStore({ owners }) }));
    const seen = await Promise.all(stores.map(({ name, store }) => store.read(at(name), signal)));
    const next = round % 2 === 0 ? second : first;
    const writes = stores.map(({ name, store }, index) =>
      store.write(at(name), next, { version: seen[index]?.version ?? '' }, signal),
    );
    expect((await Promise.all(writes)).toSorted()).toEqual(['conflict', 'written']);
    expect(await readFile(path('apiserver.key'))).toEqual(Buffer.from(next.entries[privateKeyKey] ?? ''));
  }
  expect((await readdir(pki)).toSorted()).toEqual([
    'apiserver.crt',
    'apiserver.key',
    'etcd-client.crt',
    'etcd-client.key',
  ]);
});

it('links of another artefact that lead in a circle keep nothing from being written', async () => {
  await put('apiserver', first);
  await symlink('ca.crt', path('ca.crt'));
  expect(await renew('apiserver')).toBe('written');
});

/** Certificate and key, in one file. */
const whole = ({ entries }: Material): Buffer =>
  Buffer.concat([entries[certificateKey] ?? Buffer.of(), entries[privateKeyKey] ?? Buffer.of()]);

it.each(['there', 'absent'])('a pair whose names are links to one file, which is %s, is not written', async (state) => {
  for (const end of ['crt', 'key']) await symlink('both.pem', path(`apiserver.${end}`));
  if (state === 'there') await writeFile(path('both.pem'), whole(first), { mode: 0o600 });
  expect(await renew('apiserver')).toBe(
    `Cannot write pair "${path('apiserver.crt')}": "${path('apiserver.crt')}" and "${path('apiserver.key')}" are one file, "${path('both.pem')}"; give certificate and key a file each`,
  );
  if (state === 'there') expect(await readFile(path('both.pem'))).toEqual(whole(first));
});

describe('a certificate file that holds a key', () => {
  const rewrite = async (entries: Material['entries']): Promise<string> => {
    const store = createDiskStore({ owners });
    const found = await store.read(at('ca'), signal);
    const next = { entries, annotations: {} };
    return store
      .write(at('ca'), next, { version: found?.version ?? '' }, signal)
      .catch((err: unknown) => (err as Error).message);
  };
  beforeEach(async () => {
    await put('ca', authority);
    await writeFile(path('ca.crt'), whole(authority));
  });
  const alone = () => ({ [certificateKey]: authority.entries[certificateKey] ?? Buffer.of() });

  it('that no other file holds stays as it is', async () => {
    await rm(path('ca.key'));
    expect(await rewrite(alone())).toBe(
      `Cannot write pair "${path('ca.crt')}": file "${path('ca.crt')}" holds a private key that is in no other file; move it to a file of its own`,
    );
    expect(await readFile(path('ca.crt'))).toEqual(whole(authority));
  });

  it.each<[string, (text: string) => string]>([
    ['with a torn block behind it', (text) => `${text}-----BEGIN CERTIFICATE-----\nAAAA\n`],
    [
      'encrypted, with headers',
      (text) => text.replace(/-----BEGIN .*KEY-----\n/, '$&Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n'),
    ],
  ])('that no other file holds stays as it is %s', async (_, change) => {
    await rm(path('ca.key'));
    const text = change(whole(authority).toString());
    await writeFile(path('ca.crt'), text);
    expect(await rewrite(alone())).toContain('holds a private key that is in no other file');
    expect(await readFile(path('ca.crt'), 'utf8')).toBe(text);
  });

  it('that its own file holds, too, is put right', async () => {
    expect(await rewrite({ ...authority.entries })).toBe('written');
    expect(await readFile(path('ca.crt'))).toEqual(Buffer.from(alone()[certificateKey]));
  });

  it('is put right where the pair gets a new key', async () => {
    await rm(path('ca.key'));
    expect(await rewrite(second.entries)).toBe('written');
  });
});
