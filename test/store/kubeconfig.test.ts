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
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readKubeconfig } from '../../lib/kubeconfig/credentials.ts';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createDiskStore, type DiskStoreOptions } from '../../lib/store/disk-store.ts';
import { authorityKey, type Found, type Material } from '../../lib/store/store.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import {
  base64,
  combined,
  embedded,
  type HostFiles,
  kubeconfigText,
  layOut,
  twoPairsIn,
  referenced,
  withAuthority,
} from './host-files.ts';
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

describe('a kubeconfig with embedded credentials', () => {
  it('gives those of its current context and its CA', async () => {
    expect(texts(await read(files.admin))).toEqual(wanted(first, oldCa));
  });

  it('is renewed in place, and nothing else in it changes', async () => {
    const before = await readFile(files.admin.file, 'utf8');
    expect(await renew(files.admin)).toBe('written');
    const expected = before
      .replace(base64(first.entries, certificateKey), base64(second.entries, certificateKey))
      .replace(base64(first.entries, privateKeyKey), base64(second.entries, privateKeyKey))
      .replace(oldCa.toString('base64'), newCa.toString('base64'));
    expect(await readFile(files.admin.file, 'utf8')).toBe(expected);
    expect((await stat(files.admin.file)).mode & 0o777).toBe(0o600);
  });

  it('keeps its mode, unless the world can write', async () => {
    await chmod(files.admin.file, 0o646);
    await renew(files.admin);
    expect((await stat(files.admin.file)).mode & 0o777).toBe(0o600);
  });

  it.each<[string, (text: string) => Buffer]>([
    ['lone CRs', (text) => Buffer.from(text.replaceAll('\n', '\r'))],
    ['CRs and LFs', (text) => Buffer.from(text.replaceAll('\n', '\r\n'))],
    ['UTF-16', (text) => Buffer.from(`\ufeff${text}`, 'utf16le')],
    ['UTF-16, big end first', (text) => Buffer.from(`\ufeff${text}`, 'utf16le').swap16()],
    ['a byte order mark', (text) => Buffer.from(`\ufeff${text}`)],
  ])('may be written with %s, as Go reads it, and keeps its other users', async (_name, encode) => {
    const { file } = files.admin;
    await writeFile(file, encode(await readFile(file, 'utf8')));
    expect((await read(files.admin))?.entries).toEqual({ ...first.entries, [authorityKey]: oldCa });
    expect(await renew(files.admin)).toBe('written');
    expect((await read(files.admin))?.entries).toEqual({ ...second.entries, [authorityKey]: newCa });
    expect(await readFile(file, 'utf8')).toContain('token: not-ours');
  });

  it('may be JSON', async () => {
    const user = { 'client-certificate-data': base64(first.entries, certificateKey), 'client-key-data': 'AAAA' };
    const config = {
      clusters: [{ name: 'c', cluster: { server } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
      users: [{ name: 'u', user }],
    };
    await writeFile(files.admin.file, JSON.stringify(config));
    expect(await renew(files.admin)).toBe('written');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
    expect(JSON.parse(await readFile(files.admin.file, 'utf8'))).toMatchObject({ 'current-context': 'x' });
  });

  it.each(['', ' {}', ' null'])('gets them where its user is empty (%j)', async (empty) => {
    const text = kubeconfigText('QUFBQQ==', '').replace(/ {2}user:\n\n$/, `  user:${empty}\n`);
    await writeFile(files.admin.file, text);
    expect(Object.keys((await read(files.admin))?.entries ?? {})).toEqual([authorityKey]);
    expect(await renew(files.admin)).toBe('written');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
  });

  it('names no CA where it trusts any server, because client-go refuses both', async () => {
    const text = kubeconfigText('x', embedded(first));
    await writeFile(files.admin.file, text.replace('certificate-authority-data: x', 'insecure-skip-tls-verify: true'));
    expect(await renew(files.admin)).toBe('written');
    expect(await readFile(files.admin.file, 'utf8')).not.toContain('certificate-authority');
    expect(await read(files.admin)).toMatchObject({ authorityIsForeign: true });
    expect(texts(await read(files.admin))[certificateKey]).toBe(wanted(second, newCa)[certificateKey]);
  });

  it('is broken where it has a CA and trusts any server, and is mended by verifying again', async () => {
    const text = kubeconfigText('QUFBQQ==', embedded(first));
    const both = text.replace(/( +)certificate-authority-data: .*/, '$&\n$1insecure-skip-tls-verify: true');
    await writeFile(files.admin.file, both);
    const found = await read(files.admin);
    expect(found?.problem).toMatch(/: its cluster has a CA and insecure-skip-tls-verify, and no component loads both$/);
    expect(texts(found)[certificateKey]).toBe(wanted(first, oldCa)[certificateKey]);
    expect(await renew(files.admin)).toBe('written');
    const after = await readFile(files.admin.file, 'utf8');
    expect(after).not.toContain('insecure-skip-tls-verify');
    expect(after).toContain('token: not-ours');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
    expect(await read(files.admin)).toMatchObject({ problem: undefined, authorityIsForeign: undefined });
  });

  it('of which one half is gone gets both embedded, also where it could name a file', async () => {
    const [half = ''] = embedded(first).split('\n');
    await writeFile(files.kubelet.file, kubeconfigText('QUFBQQ==', half));
    const before = await readFile(files.client.file, 'utf8');
    expect(await renew(files.kubelet)).toBe('written');
    expect(texts(await read(files.kubelet))).toEqual(wanted(second, newCa));
    expect(await readFile(files.client.file, 'utf8')).toBe(before);
  });

  it('does not change a value that an anchor shares with another user', async () => {
    const shared = embedded(first).replace('client-certificate-data: ', 'client-certificate-data: &cert ');
    const text = kubeconfigText('QUFBQQ==', shared);
    await writeFile(files.admin.file, `${text}- name: third\n  user:\n    client-certificate-data: *cert\n`);
    await renew(files.admin);
    const after = await readFile(files.admin.file, 'utf8');
    expect(after).toContain(base64(first.entries, certificateKey));
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
  });
});

describe('a kubeconfig that names files', () => {
  it('is read through to the file behind the link', async () => {
    expect(texts(await read(files.kubelet))).toEqual(wanted(first, oldCa));
  });

  it('is written through: a new dated file, the link flipped, the document only for its CA', async () => {
    const before = await readFile(files.kubelet.file, 'utf8');
    expect(await renew(files.kubelet)).toBe('written');
    const dated = join(files.kubeletPki, 'kubelet-client-2026-11-21-12-00-00.pem');
    expect(await readlink(files.client.file)).toBe(dated);
    expect(await readFile(dated, 'utf8')).toBe(combined(second));
    expect((await stat(dated)).mode & 0o777).toBe(0o600);
    expect(await readFile(files.kubelet.file, 'utf8')).toBe(
      before.replace(oldCa.toString('base64'), newCa.toString('base64')),
    );
    expect(texts(await read(files.kubelet))).toEqual(wanted(second, newCa));
  });

  it('with paths relative to its own directory, certificate and key apart, and a CA file that stays', async () => {
    await mkdir(join(directory, 'creds'));
    await writeFile(join(directory, 'creds', 'a.crt'), first.entries[certificateKey] ?? '');
    await writeFile(join(directory, 'creds', 'a.key'), first.entries[privateKeyKey] ?? '', { mode: 0o640 });
    await writeFile(join(directory, 'creds', 'ca.crt'), oldCa);
    const text = kubeconfigText('x', referenced('creds/a.crt', './creds/a.key'));
    await writeFile(
      files.admin.file,
      text.replace('certificate-authority-data: x', 'certificate-authority: creds/ca.crt'),
    );
    expect(texts(await read(files.admin))).toEqual(wanted(first, oldCa));
    expect(await read(files.admin)).toMatchObject({ authorityIsForeign: true });
    expect((await read(files.kubelet))?.authorityIsForeign).toBeUndefined();
    const before = await readFile(files.admin.file, 'utf8');
    expect(await renew(files.admin)).toBe('written');
    expect(texts(await read(files.admin))).toEqual(wanted(second, oldCa));
    expect(await readFile(files.admin.file, 'utf8')).toBe(before);
    expect((await stat(join(directory, 'creds', 'a.key'))).mode & 0o777).toBe(0o640);
  });

  it('counts its embedded data where both are given, as client-go does', async () => {
    await writeFile(files.kubelet.file, kubeconfigText('QUFBQQ==', `${embedded(second)}\n${referenced('/nowhere')}`));
    expect(texts(await read(files.kubelet))[certificateKey]).toBe(wanted(second, newCa)[certificateKey]);
  });

  it('has another version when a file that it names changes', async () => {
    const version = (await read(files.kubelet))?.version;
    await writeFile(files.client.file, combined(second));
    expect((await read(files.kubelet))?.version).not.toBe(version);
  });

  it.each(['client-certificate', 'client-key'])(
    'whose %s leads nowhere names the file that is there again',
    async (name) => {
      const text = await readFile(files.kubelet.file, 'utf8');
      await writeFile(files.kubelet.file, text.replace(new RegExp(`${name}: .*`), `${name}: /nowhere/kubelet.pem`));
      expect(await renew(files.kubelet)).toBe('written');
      expect(texts(await read(files.kubelet))).toEqual(wanted(second, newCa));
      expect(await readFile(files.kubelet.file, 'utf8')).not.toContain('/nowhere');
      expect((await lstat(files.client.file)).isSymbolicLink()).toBe(true);
    },
  );

  it('gets the file that it names where that is gone', async () => {
    await rm(files.kubeletPki, { recursive: true });
    expect(Object.keys((await read(files.kubelet))?.entries ?? {})).toEqual([authorityKey]);
    expect(await renew(files.kubelet)).toBe('written');
    expect((await lstat(files.client.file)).isSymbolicLink()).toBe(true);
    expect(texts(await read(files.kubelet))).toEqual(wanted(second, newCa));
  });
});

describe('a kubeconfig that cannot be understood', () => {
  it.each([
    { name: 'no YAML', text: 'clusters: [', problem: 'Cannot parse YAML' },
    { name: 'no mapping', text: 'apiVersi', problem: 'not a mapping' },
    { name: 'without current context', text: 'kind: Config\n', problem: 'no current-context' },
    { name: 'empty', text: '', problem: 'not a mapping' },
    { name: 'with a dangling context', text: 'current-context: a\n', problem: 'no context named "a"' },
  ])('$name: is told as a problem, and reissued', async ({ text, problem }) => {
    await writeFile(files.admin.file, text);
    const found = await read(files.admin);
    expect(found).toMatchObject({ entries: {}, problem: expect.stringContaining(problem) as string });
    expect(await renew(files.admin, { endpoints: { controlPlane: server } })).toBe('written');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
  });

  it.each(['exec: {command: aws}', 'token: secret-of-somebody', 'auth-provider: {name: gcp}', 'username: a'])(
    'with a user that is not ours (%s) is never written',
    async (user) => {
      const text = kubeconfigText('QUFBQQ==', `    ${user}`);
      await writeFile(files.admin.file, text);
      const found = await read(files.admin);
      expect(found).toMatchObject({
        entries: {},
        foreign: `kubeconfig "${files.admin.file}" is left alone: its user authenticates by "${user.split(':')[0]}"`,
      });
      expect(found).not.toHaveProperty('problem');
      await expect(renew(files.admin)).rejects.toMatchObject({ code: 'WriteFailed' });
      expect(await readFile(files.admin.file, 'utf8')).toBe(text);
    },
  );

  it('with a user that is not ours is no backup to go by', async () => {
    await writeFile(files.admin.file, kubeconfigText('QUFBQQ==', '    token: secret-of-somebody'));
    const shelf = join(backupDir, encodeURIComponent(files.admin.file), '000001');
    await mkdir(shelf, { recursive: true });
    await rename(files.admin.file, join(shelf, 'kubeconfig'));
    expect(await createDiskStore({ backupDir }).backup?.(files.admin)).toBeUndefined();
    expect(await renew(files.admin, { endpoints: { controlPlane: server } })).toBe('written');
    expect(await readFile(files.admin.file, 'utf8')).not.toContain('secret-of-somebody');
  });

  it('with data that is no base64 is renewed in place', async () => {
    await writeFile(
      files.admin.file,
      kubeconfigText('QUFBQQ==', '    client-certificate-data: "!"\n    client-key-data: 1'),
    );
    expect((await read(files.admin))?.problem).toContain('not base64');
    await renew(files.admin);
    expect(await readFile(files.admin.file, 'utf8')).toContain('token: not-ours');
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
  });
});

describe('a kubeconfig whose current context is that of another cluster', () => {
  const endpoints = { controlPlane: server, local: 'https://10.0.0.9:6443' };
  const theirs = 'current-context: kind-kind';

  /** As `kind create cluster` and `kubectl config use-context` leave it. */
  async function merge(server0 = server): Promise<string> {
    const text = kubeconfigText(oldCa.toString('base64'), embedded(first))
      .replace(/current-context: .*/, theirs)
      .replace('https://10.0.0.1:6443', server0)
      .replace('contexts:\n', 'contexts:\n- context:\n    cluster: kind-kind\n    user: kind-kind\n  name: kind-kind\n')
      .replace(
        'clusters:\n',
        'clusters:\n- cluster:\n    certificate-authority-data: b3RoZXI=\n    server: https://127.0.0.1:34567\n  name: kind-kind\n',
      )
      .replace(
        'users:\n',
        'users:\n- name: kind-kind\n  user:\n    client-certificate-data: dGhlaXJz\n    client-key-data: dGhlaXJz\n',
      );
    await writeFile(files.admin.file, text);
    return text;
  }

  it.each([
    ['its server', { endpoints }],
    ['its name', {}],
  ])('is read and renewed in our own context, known by %s', async (_, options) => {
    const before = await merge();
    expect(texts(await createDiskStore(options).read(files.admin, signal))).toEqual(wanted(first, oldCa));
    expect(await renew(files.admin, options)).toBe('written');
    const expected = before
      .replace(base64(first.entries, certificateKey), base64(second.entries, certificateKey))
      .replace(base64(first.entries, privateKeyKey), base64(second.entries, privateKeyKey))
      .replace(oldCa.toString('base64'), newCa.toString('base64'));
    expect(await readFile(files.admin.file, 'utf8')).toBe(expected);
  });

  it('and none is ours is never written', async () => {
    const text = (await merge())
      .replaceAll(/kubernetes$|kubernetes-admin@kubernetes/gm, 'elsewhere')
      .replace(server, 'https://elsewhere:6443');
    await writeFile(files.admin.file, text);
    const found = await createDiskStore({ endpoints }).read(files.admin, signal);
    expect(found).toMatchObject({
      entries: {},
      foreign: expect.stringContaining('its current context "kind-kind" is that of another cluster') as string,
    });
    await expect(renew(files.admin, { endpoints })).rejects.toMatchObject({ code: 'WriteFailed' });
    expect(await readFile(files.admin.file, 'utf8')).toBe(text);
  });
});

describe('blocks of others', () => {
  const other = '-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n';
  const leaf = (material: Material): string => Buffer.from(material.entries[certificateKey] ?? '').toString();

  it('in client-certificate-data stay, once, however often it is renewed', async () => {
    const mixed = { ...first, entries: { ...first.entries, [certificateKey]: Buffer.from(leaf(first) + other) } };
    await writeFile(files.admin.file, kubeconfigText(oldCa.toString('base64'), embedded(mixed)));
    expect(texts(await read(files.admin))).toEqual(wanted(first, oldCa));
    for (let turn = 0; turn < 2; turn += 1) {
      expect(await renew(files.admin)).toBe('written');
      expect(await readFile(files.admin.file, 'utf8')).toContain(
        `client-certificate-data: ${Buffer.from(leaf(second) + other).toString('base64')}\n`,
      );
      await writeFile(join(directory, 'touched'), '');
      expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
    }
  });

  it('in the CA that is given are written as they are, and a torn one beside a whole one', async () => {
    const store = createDiskStore();
    const version = (await read(files.admin))?.version ?? '';
    const torn = oldCa.subarray(0, 100);
    await expect(store.write(files.admin, withAuthority(second, torn), { version }, signal)).rejects.toMatchObject({
      code: 'MaterialInvalid',
    });
    const ca = Buffer.concat([Buffer.from('# ours\n'), newCa, Buffer.from(other), oldCa, torn]);
    expect(await store.write(files.admin, withAuthority(second, ca), { version }, signal)).toBe('written');
    expect(texts(await read(files.admin))[authorityKey]).toBe(ca.toString());
  });
});

describe('a kubeconfig whose current context is none', () => {
  it.each([
    ['absent', ''],
    ['one that is not there', 'current-context: gone\n'],
  ])('%s: all that is in it stays, and ours becomes the current one', async (_, line) => {
    const before = kubeconfigText(oldCa.toString('base64'), embedded(first));
    const own = /current-context: .*\n/.exec(before)?.[0] ?? expect.fail('no current context');
    const others = 'users:\n- name: another\n  user:\n    token: not-ours\n';
    await writeFile(files.admin.file, before.replace(own, line).replace('users:\n', others));
    expect((await read(files.admin))?.problem).toContain('context');
    expect(await renew(files.admin, { endpoints: { controlPlane: server } })).toBe('written');
    const text = await readFile(files.admin.file, 'utf8');
    expect(text).toContain('token: not-ours');
    expect(text).toContain(own);
    expect(texts(await read(files.admin))).toEqual(wanted(second, newCa));
  });
});

describe('a kubeconfig that is absent', () => {
  const read0 = async (location: LocationOf<'kubeconfig'>): Promise<void> => {
    const { server: at, clientCertificate } = await readKubeconfig(location.file);
    expect(at).toBe(server);
    expect(clientCertificate?.cert.toString()).toContain(wanted(second, newCa)[certificateKey]);
  };

  it('is made as kubeadm makes it', async () => {
    await rm(files.admin.file);
    expect(await read(files.admin)).toBeUndefined();
    expect(await renew(files.admin, { endpoints: { controlPlane: server } })).toBe('written');
    const text = await readFile(files.admin.file, 'utf8');
    expect(text).toContain('name: kubernetes-admin@kubernetes\ncurrent-context: kubernetes-admin@kubernetes');
    expect((await stat(files.admin.file)).mode & 0o777).toBe(0o600);
    await read0(files.admin);
  });

  it('names the file of its credentials where it is to have one', async () => {
    await rm(files.kubelet.file);
    await rm(files.client.file);
    await renew(files.kubelet, { endpoints: { controlPlane: server } });
    expect(await readFile(files.kubelet.file, 'utf8')).toContain(`client-key: ${files.client.file}`);
    expect((await lstat(files.client.file)).isSymbolicLink()).toBe(true);
    await read0(files.kubelet);
  });

  it('is made from its newest backup, with everything that was in it', async () => {
    await renew(files.admin);
    await rm(files.admin.file);
    expect(await renew(files.admin)).toBe('written');
    expect(await readFile(files.admin.file, 'utf8')).toContain('token: not-ours');
    await read0(files.admin);
  });

  it('is not made where its server is unknown, which is said', async () => {
    await rm(files.admin.file);
    await expect(renew(files.admin)).rejects.toMatchObject({
      code: 'WriteFailed',
      message: expect.stringContaining('the address of the control plane is unknown') as string,
    });
    expect(await readdir(directory)).not.toContain('admin.conf');
  });
});

describe('backup()', () => {
  it('gives the newest copy that can be understood, and none without a backup', async () => {
    const store = createDiskStore({ backupDir, now });
    expect(await store.backup?.(files.kubelet)).toBeUndefined();
    await renew(files.kubelet);
    await writeFile(files.kubelet.file, 'users: [');
    await renew(files.kubelet, { endpoints: { controlPlane: server } });
    expect(texts(await store.backup?.(files.kubelet))).toEqual(wanted(first, oldCa));
    expect(await createDiskStore().backup?.(files.kubelet)).toBeUndefined();
  });

  it('of an artefact that is overwritten with ever new garbage is not pushed out', async () => {
    await renew(files.admin);
    for (let turn = 0; turn < 7; turn += 1) {
      await writeFile(files.admin.file, `clusters: [${turn}`);
      expect(await renew(files.admin)).toBe('written');
      await writeFile(files.admin.file, `clusters: [${turn}, [`);
      await renew(files.admin);
    }
    expect(texts(await createDiskStore({ backupDir }).backup?.(files.admin))).toEqual(wanted(first, oldCa));
    expect((await readdir(join(backupDir, encodeURIComponent(files.admin.file)))).length).toBe(6);
  });
});
