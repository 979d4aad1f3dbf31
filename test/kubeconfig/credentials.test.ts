import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readKubeconfig, sameCredentials } from '../../lib/kubeconfig/credentials.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import type { Pair } from '../support/certificates/certificates.ts';

let directory: string;
let authority: Pair;
let leaf: Pair;
const secret = 'secret-secret-secret';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kubeconfig-'));
  authority = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  leaf = await createLeaf(join(directory, 'leaf'), authority, { commonName: 'client' });
  await writeFile(join(directory, 'token'), `${secret}\n`);
  await writeFile(join(directory, 'two-lines'), `${secret}\n${secret}\n`);
  await writeFile(join(directory, 'empty'), '\n');
  await writeFile(join(directory, 'broken.crt'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
});
afterAll(() => rm(directory, { recursive: true }));

interface Parts {
  readonly cluster?: Record<string, unknown>;
  readonly user?: Record<string, unknown>;
  readonly top?: Record<string, unknown>;
}

const base64 = (path: string): string => readFileSync(path).toString('base64');

let count = 0;
async function write({ cluster = {}, user = { token: secret }, top = {} }: Parts): Promise<string> {
  const good = { server: 'https://10.0.0.1:6443', 'certificate-authority': 'ca/tls.crt' };
  const file = join(directory, `kubeconfig-${(count += 1)}`);
  const config = {
    clusters: [{ name: 'c', cluster: { ...good, ...cluster } }],
    users: [
      { name: 'other', user: { token: 'not this one' } },
      { name: 'u', user },
    ],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
    ...top,
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

async function failure(parts: Parts): Promise<RecoveryError> {
  const err: unknown = await readKubeconfig(await write(parts)).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(err instanceof RecoveryError)) throw new Error('readKubeconfig() did not fail');
  expect(err.code).toBe('ConfigInvalid');
  expect(err.message).not.toContain(secret);
  return err;
}

describe('readKubeconfig()', () => {
  it('takes a token in place of the user, whatever that has, and the server and its CA all the same', async () => {
    const tokenFile = join(directory, 'token');
    const file = await write({ user: { 'client-certificate': '/absent', 'client-key': '/absent', exec: {} } });
    const read = await readKubeconfig(file, { tokenFile });
    expect(read).toMatchObject({ token: secret, clientCertificate: undefined, ca: readFileSync(authority.cert) });
    expect(read.files).toContain(tokenFile);
    const absent = readKubeconfig(file, { tokenFile: '/absent/token' });
    await expect(absent).rejects.toThrow('user.tokenFile: cannot read "/absent/token": ENOENT');
  });

  it('reads the current context, with files relative to the kubeconfig and the token without its line end', async () => {
    const file = await write({ cluster: { 'tls-server-name': 'localhost-recovery' }, user: { tokenFile: 'token' } });
    const read = await readKubeconfig(file);
    expect(read).toEqual({
      server: 'https://10.0.0.1:6443',
      serverName: 'localhost-recovery',
      ca: readFileSync(authority.cert),
      token: secret,
      clientCertificate: undefined,
      files: [file, authority.cert, join(directory, 'token')],
    });
  });

  it('reads inline data, which wins over files', async () => {
    const file = await write({
      cluster: { 'certificate-authority': '/absent', 'certificate-authority-data': base64(authority.cert) },
      user: { 'client-certificate-data': base64(leaf.cert), 'client-key-data': base64(leaf.key) },
    });
    const read = await readKubeconfig(file);
    expect(read.ca).toEqual(readFileSync(authority.cert));
    expect(read.clientCertificate).toEqual({ cert: readFileSync(leaf.cert), key: readFileSync(leaf.key) });
    expect(read.token).toBeUndefined();
  });

  it('reads one with five hundred clusters', async () => {
    const many = Array.from({ length: 500 }, (_, at) => `c${at}`);
    const clusters = [
      { name: 'c', cluster: { server: 'https://10.0.0.1:6443', 'certificate-authority': 'ca/tls.crt' } },
      ...many.map((name) => ({
        name,
        cluster: { server: `https://${name}:6443`, 'certificate-authority': 'ca/tls.crt' },
      })),
    ];
    const exec = { command: 'aws', args: ['eks', 'get-token', '--cluster-name', 'c'], apiVersion: 'v1' };
    const users = [{ name: 'u', user: { token: secret } }, ...many.map((name) => ({ name, user: { exec } }))];
    const file = await write({ top: { clusters, users } });
    expect((await readKubeconfig(file)).server).toBe('https://10.0.0.1:6443');
  });

  it('takes tokenFile before token', async () => {
    expect((await readKubeconfig(await write({ user: { token: 'old', tokenFile: 'token' } }))).token).toBe(secret);
  });

  it('lets tlsServerNameOverride win over tls-server-name', async () => {
    const file = await write({ cluster: { 'tls-server-name': 'one' } });
    expect((await readKubeconfig(file, { tlsServerNameOverride: 'two' })).serverName).toBe('two');
  });

  it('keeps the path of a server behind a proxy, without the slash at its end', async () => {
    const file = await write({ cluster: { server: 'https://proxy.example/clusters/a/' } });
    expect((await readKubeconfig(file)).server).toBe('https://proxy.example/clusters/a');
  });

  it.each<[string, Parts, RegExp]>([
    ['insecure-skip-tls-verify', { cluster: { 'insecure-skip-tls-verify': true } }, /always verified/],
    ['proxy-url', { cluster: { 'proxy-url': 'http://p' } }, /cluster\.proxy-url: is not allowed/],
    ['exec', { user: { exec: { command: 'aws' } } }, /user\.exec: is not allowed: credential plugins are not run/],
    ['auth-provider', { user: { 'auth-provider': { name: 'gcp' } } }, /user\.auth-provider: is not allowed/],
    ['basic authentication', { user: { username: 'a', password: secret } }, /user\.password: is not allowed/],
    ['impersonation', { user: { token: secret, as: 'admin' } }, /user\.as: is not allowed/],
    ['a missing CA', { cluster: { 'certificate-authority': undefined } }, /certificate-authority: is missing/],
    ['an absent CA file', { cluster: { 'certificate-authority': 'no' } }, /cannot read ".*\/no": ENOENT/],
    ['a broken CA', { cluster: { 'certificate-authority': 'broken.crt' } }, /must hold PEM certificates/],
    ['a CA that is a key', { cluster: { 'certificate-authority': 'leaf/tls.key' } }, /must hold PEM certificates/],
    ['data that is not base64', { cluster: { 'certificate-authority-data': '***' } }, /-data: must be base64/],
    ['plain http', { cluster: { server: 'http://10.0.0.1' } }, /cluster\.server: must be an address like/],
    ['no server', { cluster: { server: undefined } }, /cluster\.server: is missing/],
    ['an address as server name', { cluster: { 'tls-server-name': '10.0.0.1' } }, /must be a DNS name, got "10.0.0.1"/],
    ['no identity', { user: {} }, /has no token, no tokenFile and no client-certificate/],
    ['an absent token file', { user: { tokenFile: 'no' } }, /user\.tokenFile: cannot read ".*\/no": ENOENT/],
    ['an empty token file', { user: { tokenFile: 'empty' } }, /user\.tokenFile: is empty/],
    ['a token file of two lines', { user: { tokenFile: 'two-lines' } }, /user\.tokenFile: must be one line/],
    ['a token that is a number', { user: { token: 12 } }, /user\.token: must be text, got number/],
    ['a certificate without key', { user: { 'client-certificate': 'leaf/tls.crt' } }, /client-key: is missing/],
    [
      'a key of another certificate',
      { user: { 'client-certificate': 'leaf/tls.crt', 'client-key': 'ca/tls.key' } },
      /client-key: does not belong/,
    ],
    ['no current context', { top: { 'current-context': '' } }, /current-context: is missing/],
    ['an unknown context', { top: { 'current-context': 'z' } }, /contexts: has no entry named "z"/],
    ['no clusters', { top: { clusters: [] } }, /clusters: has no entry named "c"/],
  ])('refuses %s, naming the field', async (_, parts, message) => {
    expect((await failure(parts)).message).toMatch(message);
  });

  it('reports all problems at once', async () => {
    const { message } = await failure({ cluster: { server: 'ftp://x', 'proxy-url': 'y' }, user: { exec: {} } });
    expect(message).toMatch(/3 problems\n.*proxy-url.*\n.*cluster\.server.*\n.*user\.exec/);
  });

  it('waits for no writer of a FIFO, and reads nothing that is far too large', async () => {
    const fifo = join(directory, 'fifo');
    await promisify(execFile)('mkfifo', [fifo]);
    await expect(readKubeconfig(fifo)).rejects.toThrow(/Cannot read kubeconfig ".*fifo": ENOTREG/);
    expect((await failure({ user: { tokenFile: fifo } })).message).toMatch(/user\.tokenFile: .*fifo": ENOTREG/);
    const large = join(directory, 'large');
    await writeFile(large, Buffer.alloc(5 * 1024 * 1024, '#'));
    await expect(readKubeconfig(large)).rejects.toThrow(/Cannot read kubeconfig ".*large": EFBIG/);
  });

  it('names the path of a kubeconfig that cannot be read', async () => {
    await expect(readKubeconfig(join(directory, 'nothing'))).rejects.toThrow(
      /Cannot read kubeconfig ".*nothing": ENOENT/,
    );
  });

  it('says where a text is not YAML, without a word of the text', async () => {
    const file = join(directory, 'broken');
    await writeFile(file, `users:\n- "${secret}\n`);
    const err: unknown = await readKubeconfig(file).catch((reason: unknown) => reason);
    expect(String(err)).toMatch(/broken.*line \d/s);
    expect(String(err)).not.toContain(secret);
  });
});

describe('sameCredentials()', () => {
  it.each<[string, Parts]>([
    ['token', { user: { token: 'b' } }],
    ['server', { user: { token: 'a' }, cluster: { server: 'https://10.0.0.2:6443' } }],
    ['server name', { user: { token: 'a' }, cluster: { 'tls-server-name': 'n' } }],
    ['CA', { user: { token: 'a' }, cluster: { 'certificate-authority': 'leaf/tls.crt' } }],
    [
      'client certificate',
      { user: { token: 'a', 'client-certificate': 'leaf/tls.crt', 'client-key': 'leaf/tls.key' } },
    ],
  ])('sees another %s', async (_, parts) => {
    const one = await readKubeconfig(await write({ user: { token: 'a' } }));
    expect(sameCredentials(one, await readKubeconfig(await write({ user: { token: 'a' } })))).toBe(true);
    expect(sameCredentials(one, await readKubeconfig(await write(parts)))).toBe(false);
  });
});
