// Machines that the real kubeadm made, whose flags name one file for several purposes: what is renewed belongs together
// afterwards, for each reader.
import { X509Certificate } from 'node:crypto';
import { copyFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { parsePrivateKey } from '../../lib/pki/key.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

const day = 86_400_000;

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

/** An expired pair of the cluster's CA in these files. */
async function expirePair(machine: KubeadmMachine, certFile: string, keyFile: string): Promise<void> {
  const authority = certFile.includes('/etcd/') ? 'pki/etcd/ca' : 'pki/ca';
  const now = systemClock.now().getTime();
  const leaf = await createLeaf(
    join(machine.root, 'tmp'),
    { cert: machine.path(`${authority}.crt`), key: machine.path(`${authority}.key`) },
    {
      commonName: 'node1',
      dnsNames: ['node1', 'localhost'],
      usages: ['serverAuth', 'clientAuth'],
      notBefore: new Date(now - 2 * day),
      notAfter: new Date(now - day),
    },
  );
  await copyFile(leaf.cert, certFile);
  await copyFile(leaf.key, keyFile);
}

async function changeManifest(machine: KubeadmMachine, pod: string, change: (text: string) => string): Promise<void> {
  const file = machine.path('manifests', `${pod}.yaml`);
  const before = await readFile(file, 'utf8');
  const after = change(before);
  expect(after).not.toBe(before);
  await writeFile(file, after);
}

async function expectPair(certFile: string, keyFile: string): Promise<void> {
  const certificate = new X509Certificate(await readFile(certFile));
  expect(certificate.validToDate.getTime()).toBeGreaterThan(systemClock.now().getTime());
  expect(certificate.checkPrivateKey(parsePrivateKey(await readFile(keyFile), keyFile))).toBe(true);
}

describe('a run where flags of one machine name', { concurrent: false }, () => {
  it('one certificate with two files of its key: both belong to the new one', async () => {
    await using machine = await whole.copy();
    const [cert, key, copy] = ['apiserver.crt', 'apiserver.key', 'copy.key'].map((name) => machine.path('pki', name));
    if (cert === undefined || key === undefined || copy === undefined) throw new Error('no paths');
    await expirePair(machine, cert, key);
    await copyFile(key, copy);
    await changeManifest(machine, 'kube-apiserver', (text) =>
      text.replace(
        /^( +- )--tls-cert-file=/m,
        '$1--tls-sni-cert-key=/etc/kubernetes/pki/apiserver.crt,/etc/kubernetes/pki/copy.key\n$&',
      ),
    );
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    await expectPair(cert, key);
    await expectPair(cert, copy);
  });

  it('the certificate of a server for its peers, too, with another file of its key', async () => {
    await using machine = await whole.copy();
    const [cert, key, peer] = ['server.crt', 'server.key', 'peer.key'].map((name) => machine.path('pki/etcd', name));
    if (cert === undefined || key === undefined || peer === undefined) throw new Error('no paths');
    await expirePair(machine, cert, key);
    await copyFile(key, peer);
    await changeManifest(machine, 'etcd', (text) => text.replace('/etcd/peer.crt', '/etcd/server.crt'));
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    await expectPair(cert, key);
    await expectPair(cert, peer);
  });

  it('one key for two certificates: both are renewed for it', async () => {
    await using machine = await whole.copy();
    const [cert, key, client] = ['apiserver.crt', 'apiserver.key', 'apiserver-kubelet-client.crt'].map((name) =>
      machine.path('pki', name),
    );
    if (cert === undefined || key === undefined || client === undefined) throw new Error('no paths');
    await expirePair(machine, cert, key);
    await copyFile(cert, client);
    await changeManifest(machine, 'kube-apiserver', (text) =>
      text.replace(/(--kubelet-client-key=).*/, '$1/etc/kubernetes/pki/apiserver.key'),
    );
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    await expectPair(cert, key);
    await expectPair(client, key);
    await rm(key);
    for (const { code: reported, stdout, stderr: said } of [await machine.status(), await machine.regen()]) {
      expect(reported, said).toBe(5);
      expect(`${stdout}${said}`).toContain('flags name its key for another certificate');
    }
    await expect(readFile(key)).rejects.toThrow('ENOENT');
  });

  it('one file for a certificate and its key: both are renewed in it', async () => {
    await using machine = await whole.copy();
    const [cert, key, both] = ['apiserver.crt', 'apiserver.key', 'both.pem'].map((name) => machine.path('pki', name));
    if (cert === undefined || key === undefined || both === undefined) throw new Error('no paths');
    await expirePair(machine, cert, key);
    await writeFile(both, `${await readFile(cert, 'utf8')}${await readFile(key, 'utf8')}`);
    await changeManifest(machine, 'kube-apiserver', (text) =>
      text
        .replace(/(--tls-cert-file=).*/, '$1/etc/kubernetes/pki/both.pem')
        .replace(/(--tls-private-key-file=).*/, '$1/etc/kubernetes/pki/both.pem'),
    );
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    await expectPair(both, both);
  });
});
