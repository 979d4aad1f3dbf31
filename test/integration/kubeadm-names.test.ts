// Machines that the real kubeadm made, whose certificates have lost their names or are lost with the manifests: the names of
// what is made again are those that the machine itself shows.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { advertiseAddress, KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const program = fileURLToPath(new URL('../../cmd/main.ts', import.meta.url));
const exec = promisify(execFile);

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

async function run(machine: KubeadmMachine): Promise<Outcome> {
  const [backupDir, lockDir] = [join(machine.root, 'backups'), join(machine.root, 'lock')];
  const config = join(machine.root, 'recovery.yaml');
  await writeFile(
    config,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n` +
      `directories: ${JSON.stringify(machine.directories)}\nregen: ${JSON.stringify({ backupDir, lockDir })}\n`,
  );
  const own = [process.execPath, program, '--mode=regen', '--once', `--config=${config}`];
  return new Promise((resolve) => {
    execFile('unshare', [...asRoot, '--net', ...unseen, ...own], { maxBuffer: 1 << 24 }, (err, stdout, stderr) => {
      resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 });
    });
  });
}

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

describe('a run on a machine of kubeadm', { concurrent: false }, () => {
  it.each([
    ['apiserver', 'ca'],
    ['etcd/server', 'etcd/ca'],
    ['etcd/peer', 'etcd/ca'],
  ])('gives %s its names where it has none, though it is valid', async (pair, authority) => {
    await using machine = await whole.copy();
    await signNameless(machine, pair, authority);
    expect(await namesOf(machine.path('pki', `${pair}.crt`))).toBeUndefined();
    const { code, stderr } = await run(machine);
    expect(code, stderr).toBe(0);
    const names = await namesOf(machine.path('pki', `${pair}.crt`));
    for (const name of [`IP Address:${advertiseAddress}`, 'DNS:node1']) expect(names).toContain(name);
  });

  it('makes a lost pair and a lost kubeconfig with the address that other files name while the manifests are away', async () => {
    await using machine = await whole.copy();
    await rename(machine.path('manifests'), machine.path('manifests-aside'));
    for (const file of ['pki/apiserver.crt', 'pki/apiserver.key', 'controller-manager.conf']) {
      await rm(machine.path(file));
    }
    const { code, stderr } = await run(machine);
    expect(code, stderr).toBe(0);
    expect(await namesOf(machine.path('pki/apiserver.crt'))).toContain(`IP Address:${advertiseAddress}`);
    const made = await readFile(machine.path('controller-manager.conf'), 'utf8');
    expect(made).toContain(`server: https://${advertiseAddress}:6443`);
  });
});
