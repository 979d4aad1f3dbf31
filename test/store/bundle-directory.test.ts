// A directory of bundles by name, on a real disk.
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import type { Seen } from '../../lib/store/store.ts';
import { authority } from '../pki/authority.ts';

const { signal } = new AbortController();
const pem = (await authority({ commonName: 'first' })).certificate.pem;
const other = (await authority({ commonName: 'other' })).certificate.pem;

let root: string;
let certs: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'bundle-directory-'));
  certs = join(root, 'certs.d');
  await mkdir(certs);
});
afterEach(() => rm(root, { recursive: true, force: true }));

const place = () => ({ kind: 'pemDirectory', file: certs }) as const;
const store = () => createDiskStore({ backupDir: join(root, 'backups') });
const read = () => store().read(place(), signal);
const seen = async (): Promise<Seen> => (await read()) ?? 'absent';
const write = async (files: Readonly<Record<string, string>>, from?: Seen): Promise<string> => {
  const entries = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, Buffer.from(text)]));
  return store().write(place(), { entries, annotations: {} }, from ?? (await seen()), signal);
};
const file = (name: string): Promise<string> => readFile(join(certs, name, 'ca.crt'), 'utf8');

describe('a directory of bundles by name', () => {
  it('is read by name, but for what is no registry', async () => {
    for (const name of ['a', 'b:5000', 'without', '.hidden', 'a..1']) await mkdir(join(certs, name));
    for (const name of ['a', 'b:5000', '.hidden', 'a..1']) await writeFile(join(certs, name, 'ca.crt'), pem);
    await writeFile(join(certs, 'plain'), pem);
    await writeFile(join(certs, 'a', 'client.cert'), 'of others');
    const found = await read();
    expect(Object.keys(found?.entries ?? {})).toEqual(['a', 'b:5000']);
    expect(found?.changedAt).toBeInstanceOf(Date);
  });

  it('is absent where it does not exist', async () => {
    await rm(certs, { recursive: true });
    expect(await read()).toBeUndefined();
  });

  it('has another version when a file changes', async () => {
    await write({ a: pem });
    const before = await read();
    expect(await read()).toMatchObject({ version: before?.version });
    await write({ a: pem + other });
    expect((await read())?.version).not.toBe(before?.version);
  });

  it('gets a directory and a file for a new name', async () => {
    expect(await write({ 'b:5000': pem })).toBe('written');
    expect(await file('b:5000')).toBe(pem);
    expect(await stat(join(certs, 'b:5000'))).toMatchObject({ mode: 0o40755 });
  });

  it("is not made itself: it is the runtime's", async () => {
    await rm(certs, { recursive: true });
    await expect(write({ a: pem })).rejects.toThrow(/certs\.d": it does not exist; create it/);
  });

  it('keeps the former content of a file in the backups', async () => {
    await write({ a: pem });
    await write({ a: pem + other });
    const kept = await readdir(join(root, 'backups'), { recursive: true, withFileTypes: true });
    const texts = await Promise.all(
      kept.filter((one) => one.isFile()).map((one) => readFile(join(one.parentPath, one.name), 'utf8')),
    );
    expect(texts).toContain(pem);
  });

  it('gets its other files where one cannot be written, which is said', async () => {
    await writeFile(join(certs, 'b'), 'a file in the place of a directory');
    await expect(write({ a: pem, b: pem, c: pem })).rejects.toThrow(`"${join(certs, 'b')}`);
    expect(await file('a')).toBe(pem);
    expect(await file('c')).toBe(pem);
  });

  it('leaves content of others alone', async () => {
    await mkdir(join(certs, 'a'));
    await writeFile(join(certs, 'a', 'ca.crt'), 'kind: Secret\n');
    await expect(write({ a: pem, b: pem })).rejects.toThrow('is left alone');
    expect(await file('a')).toBe('kind: Secret\n');
    expect(await file('b')).toBe(pem);
  });

  it('writes what nobody else has changed alone', async () => {
    await write({ a: pem });
    const before = await seen();
    await writeFile(join(certs, 'a', 'ca.crt'), other);
    expect(await write({ a: pem + other, b: pem }, before)).toBe('conflict');
    expect(await file('a')).toBe(other);
    expect(await file('b')).toBe(pem);
    expect(await write({ b: pem + other }, before)).toBe('conflict');
  });

  it.each(['../outside', '..', '.', '', '/outside', 'a/b', 'a..1'])('refuses the name %j', async (name) => {
    await expect(write({ [name]: pem })).rejects.toThrow('is no registry');
    expect((await readdir(root)).filter((one) => one !== 'backups')).toEqual(['certs.d']);
    expect(await readdir(certs)).toEqual([]);
  });

  it('writes to the end of a link of the administrator', async () => {
    await mkdir(join(root, 'elsewhere'));
    await symlink(join(root, 'elsewhere'), join(certs, 'a'));
    await write({ a: pem });
    expect(await readFile(join(root, 'elsewhere/ca.crt'), 'utf8')).toBe(pem);
  });
});

describe('credentials for registries in a file', () => {
  const text = '{"auths":{"a":{"auth":"c2VjcmV0"}}}';
  const auths = () => ({ kind: 'registryAuths', file: join(root, 'config.json') }) as const;
  const put = async (content: string): Promise<string> => {
    const found = await store().read(auths(), signal);
    const entries = { '.dockerconfigjson': Buffer.from(content) };
    return store().write(auths(), { entries, annotations: {} }, found ?? 'absent', signal);
  };

  it('are for root alone', async () => {
    await put(text);
    expect(await readFile(auths().file, 'utf8')).toBe(text);
    expect(await stat(auths().file)).toMatchObject({ mode: 0o100600 });
  });

  it('close a file that was open to all', async () => {
    await writeFile(auths().file, '{"auths":{}}', { mode: 0o644 });
    await put(text);
    expect(await stat(auths().file)).toMatchObject({ mode: 0o100640 });
  });

  it.each(['garbage', '{"auths":{}}', ''])('are not replaced by %j', async (damaged) => {
    await put(text);
    await expect(put(damaged)).rejects.toThrow(/no JSON with credentials in "auths"; what is there stays$/);
    expect(await readFile(auths().file, 'utf8')).toBe(text);
  });

  it.each([
    ['a torn file', text.slice(0, 12)],
    ['an empty file', ''],
    ['a file without credentials', '{"auths":{}}'],
  ])('replace %s', async (_, before) => {
    await writeFile(auths().file, before);
    expect(await put(text)).toBe('written');
  });

  it('do not replace another document', async () => {
    await writeFile(auths().file, 'kind: KubeletConfiguration\n');
    expect(await store().read(auths(), signal)).toMatchObject({ isOtherDocument: true });
    await expect(put(text)).rejects.toThrow('holds no credentials for registries but a document of kind Kubelet');
  });
});
