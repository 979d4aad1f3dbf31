// Machines that the real kubeadm made, whose certificates have lost their names or are lost with the manifests: the names of
// what is made again are those that the machine itself shows.
import { execFile } from 'node:child_process';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { advertiseAddress, KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

const exec = promisify(execFile);

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

const namesOf = async (file: string): Promise<string | undefined> =>
  new X509Certificate(await readFile(file)).subjectAltName;

/** As `openssl x509 -req` signs without extensions, for a year. */
async function signNameless(machine: KubeadmMachine, pair: string, authority: string): Promise<void> {
  const [file, ca] = [machine.path('pki', pair), machine.path('pki', authority)];
  const request = join(machine.root, 'request.pem');
  await exec('openssl', ['req', '-new', '-key', `${file}.key`, '-subj', '/CN=node1', '-out', request]);
  const signer = ['-CA', `${ca}.crt`, '-CAkey', `${ca}.key`, '-set_serial', '7', '-days', '365'];
  await exec('openssl', ['x509', '-req', '-in', request, ...signer, '-out', `${file}.crt`]);
}

function otherPublicKey(): string {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return String(publicKey.export({ type: 'spki', format: 'pem' }));
}

describe('a run on a machine of kubeadm', { concurrent: false }, () => {
  it.each([
    ['apiserver', 'ca'],
    ['etcd/server', 'etcd/ca'],
    ['etcd/peer', 'etcd/ca'],
  ])('gives %s its names where it has none, though it is valid', async (pair, authority) => {
    await using machine = await whole.copy();
    await signNameless(machine, pair, authority);
    expect(await namesOf(machine.path('pki', `${pair}.crt`))).toBeUndefined();
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    const names = await namesOf(machine.path('pki', `${pair}.crt`));
    for (const name of [`IP Address:${advertiseAddress}`, 'DNS:node1']) expect(names).toContain(name);
  });

  it.each([
    ['an empty key', 'sa.key', 'empty', 'sa.key\\" is empty'],
    ['an empty public key', 'sa.pub', 'empty', 'sa.pub\\" is empty'],
    ['a lost key', 'sa.key', 'absent', 'sa.key\\" is absent'],
    ['the public key of another one', 'sa.pub', 'other', 'sa.pub\\" does not hold the public key of'],
  ])(
    'reports %s of service accounts to be brought by hand, and writes neither file',
    async (_, name, state, message) => {
      await using machine = await whole.copy();
      const [file, key] = [machine.path('pki', name), machine.path('pki', 'sa.key')];
      if (state === 'absent') await rm(file);
      else await writeFile(file, state === 'empty' ? '' : otherPublicKey());
      const before = await readFile(file).catch(() => 'absent');
      const keyBefore = await readFile(key).catch(() => 'absent');
      const { code, stderr } = await machine.regen();
      expect(code, stderr).toBe(5);
      expect(stderr).toContain(message);
      expect(stderr).toContain('copy it from another control plane');
      expect(await readFile(file).catch(() => 'absent')).toEqual(before);
      expect(await readFile(key).catch(() => 'absent')).toEqual(keyBefore);
    },
  );

  it('finds the keys of service accounts where flags name them', async () => {
    await using machine = await whole.copy();
    for (const name of ['sa.key', 'sa.pub'])
      await rename(machine.path('pki', name), machine.path('pki', `own-${name}`));
    for (const component of ['kube-apiserver', 'kube-controller-manager']) {
      const manifest = machine.path('manifests', `${component}.yaml`);
      await writeFile(manifest, (await readFile(manifest, 'utf8')).replaceAll('/sa.', '/own-sa.'));
    }
    const sound = await machine.regen();
    expect(sound.code, sound.stderr).toBe(0);
    await writeFile(machine.path('pki', 'own-sa.key'), '');
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(5);
    expect(stderr).toContain('own-sa.key\\" is empty');
  });

  it('does not say which of several public keys of service accounts belongs to the key', async () => {
    await using machine = await whole.copy();
    const manifest = machine.path('manifests', 'kube-apiserver.yaml');
    const flag = /^( +- --service-account-key-file=)(.*)$/m;
    const text = await readFile(manifest, 'utf8');
    await writeFile(manifest, text.replace(flag, '$1/etc/kubernetes/pki/former.pub\n$1$2'));
    await writeFile(machine.path('pki', 'former.pub'), otherPublicKey());
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
  });

  it.each([
    ['system:masters on one older than 1.29', 'v1.28.15', false, 'system:masters'],
    ['system:masters where the image has a digest', 'v1.28.15@sha256:0123', false, 'system:masters'],
    ['kubeadm:cluster-admins where super-admin.conf shows a newer kubeadm', 'v1.28.15', true, 'kubeadm:cluster-admins'],
    ['kubeadm:cluster-admins on 1.29', 'v1.29.0', false, 'kubeadm:cluster-admins'],
  ])('gives the client of kubelets and admin.conf the group %s', async (_, version, hasSuperAdmin, group) => {
    await using machine = await whole.copy();
    const manifest = machine.path('manifests', 'kube-apiserver.yaml');
    const text = await readFile(manifest, 'utf8');
    await writeFile(manifest, text.replace(/(image: .*kube-apiserver:).*/, `$1${version}`));
    if (!hasSuperAdmin) await rm(machine.path('super-admin.conf'));
    const pair = machine.path('pki', 'apiserver-kubelet-client');
    for (const file of [`${pair}.crt`, `${pair}.key`]) await rm(file);
    await writeFile(machine.path('admin.conf'), '');
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(new X509Certificate(await readFile(`${pair}.crt`)).subject).toContain(`O=${group}`);
    const [, data = ''] =
      /client-certificate-data: (.*)/.exec(await readFile(machine.path('admin.conf'), 'utf8')) ?? [];
    expect(new X509Certificate(Buffer.from(data, 'base64')).subject).toContain(`O=${group}`);
  });

  it('makes a lost pair and a lost kubeconfig with the address that other files name while the manifests are away', async () => {
    await using machine = await whole.copy();
    await rename(machine.path('manifests'), machine.path('manifests-aside'));
    for (const file of ['pki/apiserver.crt', 'pki/apiserver.key', 'controller-manager.conf']) {
      await rm(machine.path(file));
    }
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await namesOf(machine.path('pki/apiserver.crt'))).toContain(`IP Address:${advertiseAddress}`);
    const made = await readFile(machine.path('controller-manager.conf'), 'utf8');
    expect(made).toContain(`server: https://${advertiseAddress}:6443`);
  });
});
