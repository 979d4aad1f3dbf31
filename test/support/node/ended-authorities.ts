// A cluster that was off for longer than its CAs were valid: all three CAs and all that they have signed, on the control
// plane, and the CA that a worker holds. Machines are off.
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { dated } from '../certificates/dated.ts';
import { type Leaf, past, reissue } from './leaves.ts';
import { type Node, withScratch } from './node.ts';

const day = 86_400_000;
const pki = 'etc/kubernetes/pki';
const confs = ['admin.conf', 'super-admin.conf', 'controller-manager.conf', 'scheduler.conf', 'kubelet.conf'];

async function withCopy(node: Node, work: (root: string, changed: string) => Promise<void>): Promise<void> {
  await withScratch(async (scratch) => {
    const [root, changed] = [join(scratch, 'root'), join(scratch, 'changed')];
    const copy = await node.copyOut('/etc/kubernetes');
    await mkdir(join(root, 'etc'), { recursive: true });
    await cp(copy, join(root, 'etc/kubernetes'), { recursive: true, verbatimSymlinks: true });
    await rm(dirname(copy), { recursive: true });
    await work(root, changed);
    await node.copyIn(changed, '/');
  });
}

async function put(changed: string, path: string, content: string, mode: number): Promise<void> {
  await mkdir(dirname(join(changed, path)), { recursive: true });
  await writeFile(join(changed, path), content, { mode });
}

async function trust(root: string, changed: string, which: readonly string[], ca: string): Promise<void> {
  for (const conf of which) {
    const text = await readFile(join(root, 'etc/kubernetes', conf), 'utf8');
    const data = Buffer.from(ca).toString('base64');
    const with509 = text.replace(/certificate-authority-data: \S+/, `certificate-authority-data: ${data}`);
    await put(changed, `etc/kubernetes/${conf}`, with509, 0o600);
  }
}

/** All three CAs ended half an hour ago after ten years, and the leaves before them. The CA, as a worker holds it. */
export async function endAuthorities(node: Node, which: readonly Leaf[]): Promise<string> {
  await reissue(node, which, past(new Date()));
  const [from, until] = [new Date(Date.now() - 3650 * day), new Date(Date.now() - 1_800_000)];
  let ended = '';
  await withCopy(node, async (root, changed) => {
    for (const name of ['ca', 'etcd/ca', 'front-proxy-ca']) {
      const [pem, key] = await Promise.all(
        ['crt', 'key'].map((end) => readFile(join(root, pki, `${name}.${end}`), 'utf8')),
      );
      const old = dated(pem ?? '', key ?? '', from, until);
      if (name === 'ca') ended = old;
      await put(changed, `${pki}/${name}.crt`, old, 0o644);
    }
    await trust(root, changed, confs, ended);
    await put(changed, 'etc/kubernetes/kube-cert-recovery/approver/ca.crt', ended, 0o600);
  });
  return ended;
}

export async function holdAuthority(worker: Node, ca: string): Promise<void> {
  await withCopy(worker, async (root, changed) => {
    await trust(root, changed, ['kubelet.conf'], ca);
    await put(changed, `${pki}/ca.crt`, ca, 0o644);
  });
}
