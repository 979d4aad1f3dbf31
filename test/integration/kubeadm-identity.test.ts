// Machines that the real kubeadm made, whose kubelet has the credentials of another node of the cluster.
import { X509Certificate } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

const day = 86_400_000;

let whole: KubeadmMachine;
beforeAll(async () => {
  whole = await KubeadmMachine.create();
});
afterAll(() => whole?.[Symbol.asyncDispose]());

/** Copied from another machine: the CA of the cluster has signed it. */
async function takeIdentityOf(machine: KubeadmMachine, node: string, endsInMs: number): Promise<string> {
  const ca = { cert: machine.path('pki/ca.crt'), key: machine.path('pki/ca.key') };
  const now = systemClock.now().getTime();
  const leaf = await createLeaf(join(machine.root, 'tmp'), ca, {
    commonName: `system:node:${node}`,
    organization: 'system:nodes',
    notBefore: new Date(now - day),
    notAfter: new Date(now + endsInMs),
  });
  const file = machine.path('kubelet.conf');
  const [cert, key] = await Promise.all([leaf.cert, leaf.key].map((path) => readFile(path, 'base64')));
  const text = (await readFile(file, 'utf8'))
    .replace(/client-certificate-data: \S+/, `client-certificate-data: ${cert}`)
    .replace(/client-key-data: \S+/, `client-key-data: ${key}`);
  await writeFile(file, text);
  return text;
}

async function identityIn(file: string): Promise<string> {
  const [, data = ''] = /client-certificate-data: (\S+)/.exec(await readFile(file, 'utf8')) ?? [];
  return new X509Certificate(Buffer.from(data, 'base64')).subject;
}

describe('a kubelet.conf of another node', () => {
  it('is reported while it is valid, with both names, and not written', async () => {
    await using machine = await whole.copy();
    const before = await takeIdentityOf(machine, 'worker-9', day);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(5);
    expect(stderr).toContain('the identity of node \\"worker-9\\", and this machine is \\"node1\\"');
    expect(await readFile(machine.path('kubelet.conf'), 'utf8')).toBe(before);
    const status = await machine.status();
    expect(status.code).toBe(5);
    expect(status.stdout).toContain('worker-9');
    expect(status.stdout).not.toContain('as it should be');
  });

  it('is made for this node when it has expired, and not for the other one', async () => {
    await using machine = await whole.copy();
    await takeIdentityOf(machine, 'worker-9', -1000);
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await identityIn(machine.path('kubelet.conf'))).toBe('O=system:nodes\nCN=system:node:node1');
  });

  it('stays the own one of a node whose etcd has another name, where the kubelet is told so', async () => {
    await using machine = await whole.copy();
    await takeIdentityOf(machine, 'edge-7', -1000);
    const { kubeletDir = '' } = machine.directories;
    await mkdir(kubeletDir, { recursive: true });
    await writeFile(join(kubeletDir, 'kubeadm-flags.env'), 'KUBELET_KUBEADM_ARGS="--hostname-override=edge-7"\n');
    const { code, stderr } = await machine.regen();
    expect(code, stderr).toBe(0);
    expect(await identityIn(machine.path('kubelet.conf'))).toBe('O=system:nodes\nCN=system:node:edge-7');
  });
});
