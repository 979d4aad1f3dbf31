// A machine of the real kubeadm on which another CA has come in the place of one: none of what lies there was signed by it.
// Nothing is written until a person says which of the two is right. openssl says who has signed.
import { execFile } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it, test } from 'vitest';
import { dated } from '../support/certificates/dated.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const daysAgo = (count: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 - count * 86_400_000);

let machine: KubeadmMachine;
beforeEach(async () => {
  machine = await KubeadmMachine.create();
  await mkdir(join(machine.root, 'var/lib/kubelet/pki'), { recursive: true });
});
afterEach(() => machine[Symbol.asyncDispose]());

const pki = (...names: readonly string[]): string => machine.path('pki', ...names);
const etcdLeaves = ['etcd/server', 'etcd/peer', 'etcd/healthcheck-client', 'apiserver-etcd-client'];

const repair = (...flags: readonly string[]): Promise<Outcome> => recovery('--mode=regen', '--once', ...flags);

async function recovery(...args: readonly string[]): Promise<Outcome> {
  const directories = {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  };
  const regen = { backupDir: join(machine.root, 'backups'), lockDir: join(machine.root, 'lock') };
  const config = join(machine.root, 'recovery.yaml');
  const lines = ['apiVersion: kube-cert-recovery/v1alpha1', 'kind: Configuration', 'preset: kubeadm'];
  const rest = [`directories: ${JSON.stringify(directories)}`, `regen: ${JSON.stringify(regen)}`];
  await writeFile(config, [...lines, ...rest].join('\n'));
  const own = [program, ...args, `--config=${config}`];
  return new Promise((resolve) => {
    execFile('unshare', [...asRoot, ...unseen, process.execPath, ...own], (err, stdout, stderr) =>
      resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 }),
    );
  });
}

/** A CA of that name with another key, in the place of the one that is there. */
async function replaceCa(name: string, subject: string): Promise<void> {
  const out = ['-keyout', pki(`${name}.key`), '-out', pki(`${name}.crt`)];
  const what = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '3000'];
  await run('openssl', ['req', ...what, '-subj', subject, '-addext', 'keyUsage=critical,keyCertSign', ...out]);
}

const fingerprintOf = async (name: string): Promise<string> => {
  const { raw } = new X509Certificate(await readFile(pki(`${name}.crt`)));
  return `SHA256:${createHash('sha256').update(raw).digest('hex')}`;
};

/** Every file of the machine below /etc/kubernetes. */
async function files(): Promise<Record<string, string>> {
  const entries = await readdir(machine.path(), { recursive: true, withFileTypes: true });
  const plain = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(await Promise.all(plain.map(async (path) => [path, await readFile(path, 'base64')])));
}

const verified = (ca: string, leaf: string): Promise<boolean> =>
  run('openssl', ['verify', '-CAfile', pki(`${ca}.crt`), pki(`${leaf}.crt`)]).then(
    () => true,
    () => false,
  );

it.each([['valid'], ['expired']])(
  'etcd with the CA of a stranger, its leaves %s: nothing is written',
  async (state) => {
    const [cert, key] = await Promise.all(['etcd/ca.crt', 'etcd/ca.key'].map((file) => readFile(pki(file))));
    if (state === 'expired')
      for (const leaf of etcdLeaves)
        await writeFile(
          pki(`${leaf}.crt`),
          dated(await readFile(pki(`${leaf}.crt`), 'utf8'), String(key), daysAgo(400), daysAgo(1)),
        );
    await replaceCa('etcd/ca', '/CN=etcd-ca');
    const before = await files();
    const { code, stderr } = await repair();
    expect(code, stderr).toBe(5);
    expect(await files()).toEqual(before);
    const fingerprint = await fingerprintOf('etcd/ca');
    const status = await machine.status();
    expect(status.code).toBe(5);
    for (const text of [
      `CA "CN=etcd-ca" (${fingerprint}) differs from the one that has signed 4 of 4`,
      'key identifier',
    ])
      expect(status.stdout).toContain(text);
    expect(status.stdout).toContain(`--accept-ca=${fingerprint}`);

    if (state === 'valid') {
      // One way out: what was there.
      await writeFile(pki('etcd/ca.crt'), cert ?? '');
      await writeFile(pki('etcd/ca.key'), key ?? '');
      expect(await repair()).toMatchObject({ code: 0 });
      for (const leaf of etcdLeaves) expect(await verified('etcd/ca', leaf)).toBe(true);
      return;
    }
    const other = await repair(`--accept-ca=SHA256:${'0'.repeat(64)}`);
    expect([other.code, await files()]).toEqual([5, before]);
    const accepted = await machine.status(`--accept-ca=${fingerprint}`);
    expect(accepted.stdout).not.toContain('differs from the one that has signed');
    expect(await repair(`--accept-ca=${fingerprint}`)).toMatchObject({ code: 0 });
    for (const leaf of etcdLeaves) expect(await verified('etcd/ca', leaf)).toBe(true);
    expect(await repair()).toMatchObject({ code: 0 });
  },
);

test('who makes a CA anew by kubeadm has one command for all that follows', async () => {
  const former = await fingerprintOf('ca');
  for (const file of ['ca.crt', 'ca.key']) await rm(pki(file));
  await machine.kubeadmDone('init', 'phase', 'certs', 'ca');
  const before = await files();
  expect((await repair()).code).toBe(5);
  expect(await files()).toEqual(before);
  const { stdout } = await machine.status();
  expect(stdout).toContain(`(${await fingerprintOf('ca')}) differs from the one that has signed`);
  expect(stdout).toContain(`"CN=kubernetes" (${former};`);
  const [flag = 'none'] = /--accept-ca=SHA256:[0-9a-f]{64}/.exec(stdout) ?? [];
  expect(await repair(flag)).toMatchObject({ code: 0 });
  expect(await verified('ca', 'apiserver')).toBe(true);
  expect(await repair()).toMatchObject({ code: 0 });
});

test('once kubeadm has renewed with the new CA what it renews, the rest follows by itself', async () => {
  await replaceCa('etcd/ca', '/CN=etcd-ca');
  await machine.kubeadmDone('certs', 'renew', 'etcd-peer');
  expect(await repair()).toMatchObject({ code: 0 });
  for (const leaf of etcdLeaves) expect(await verified('etcd/ca', leaf)).toBe(true);
});

test('a single leaf is evidence as well, unless it is no work of a CA', async () => {
  await replaceCa('front-proxy-ca', '/CN=front-proxy-ca');
  const before = await files();
  expect((await repair()).code).toBe(5);
  expect(await files()).toEqual(before);
  // Signed by itself.
  const out = ['-keyout', pki('front-proxy-client.key'), '-out', pki('front-proxy-client.crt')];
  await run('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=front-proxy-client', ...out]);
  expect(await repair()).toMatchObject({ code: 0 });
  expect(await verified('front-proxy-ca', 'front-proxy-client')).toBe(true);
});

test('where a copy of both files is kept, it is named, and brings them back', async () => {
  const own = await readFile(pki('etcd/ca.crt'), 'utf8');
  await writeFile(pki('etcd/ca.crt'), dated(own, await readFile(pki('etcd/ca.key'), 'utf8'), daysAgo(400), daysAgo(1)));
  expect(await repair()).toMatchObject({ code: 0 });
  await replaceCa('etcd/ca', '/CN=etcd-ca');
  const { code, stderr } = await repair();
  expect(code).toBe(5);
  expect(stderr).toContain('kube-cert-recovery restore etcd-ca --force');
  expect(await recovery('restore', 'etcd-ca', '--force')).toMatchObject({ code: 0 });
  expect(await repair()).toMatchObject({ code: 0 });
  for (const leaf of etcdLeaves) expect(await verified('etcd/ca', leaf)).toBe(true);
});

test('a former CA beside the new one is a CA that is being replaced', async () => {
  const former = await readFile(pki('etcd/ca.crt'), 'utf8');
  await replaceCa('etcd/ca', '/CN=etcd-ca');
  await writeFile(pki('etcd/ca.crt'), (await readFile(pki('etcd/ca.crt'), 'utf8')) + former);
  const before = await files();
  expect(await repair()).toMatchObject({ code: 0 });
  expect(await files()).toEqual(before);
  await rm(pki('etcd/peer.crt'));
  expect(await repair()).toMatchObject({ code: 0 });
  expect(await verified('etcd/ca', 'etcd/peer')).toBe(true);
});
