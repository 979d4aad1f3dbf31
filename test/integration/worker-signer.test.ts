// What a worker makes of a signer that fails it: kube-controller-manager that signs by a CA which kube-apiserver does not
// know, or does not sign at all. The test is the approver; the order is the story of one cluster.
import { X509Certificate } from 'node:crypto';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { Worker } from '../support/cluster/worker-machine.ts';
import { eventually } from '../support/eventually.ts';

const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const signer = 'kube-controller-manager';
const hour = 3_600_000;

let root: string;
let controlPlane: ControlPlane;
let token = '';

interface Csr {
  readonly metadata: { readonly name: string };
  readonly status: { readonly certificate?: string; readonly conditions?: readonly object[] };
}

async function requests(): Promise<readonly Csr[]> {
  const { body } = await controlPlane.admin(collection);
  return (body as { items: readonly Csr[] }).items;
}

/** Approves whatever is asked for, until the signal aborts. */
async function approveAll(signal: AbortSignal): Promise<void> {
  await eventually(async () => {
    const pending = (await requests()).filter(({ status }) => (status.conditions ?? []).length === 0);
    for (const csr of pending) {
      const condition = { type: 'Approved', status: 'True', reason: 'Test', message: 'by the test' };
      const body = { ...csr, status: { conditions: [condition] } };
      await controlPlane.admin(`${collection}/${csr.metadata.name}/approval`, { method: 'PUT', body });
    }
    if (!signal.aborted) throw new Error('more may come');
  });
}

/** Of one run, with whatever it asks for approved. */
async function renewal(worker: Worker, wait: string): Promise<{ readonly exit: unknown; readonly err: unknown }> {
  const over = new AbortController();
  const approving = approveAll(over.signal);
  const tool = worker.start(`--wait=${wait}`);
  const exit = await tool.ended;
  over.abort();
  await approving;
  return { exit, err: tool.lines.at(-1)?.fields['err'] };
}

/** By which kube-controller-manager signs from now on. */
async function signBy(pair: { readonly cert: string; readonly key: string }): Promise<void> {
  await controlPlane.stopComponent(signer);
  await copyFile(pair.cert, join(root, 'signing.crt'));
  await copyFile(pair.key, join(root, 'signing.key'));
  controlPlane.startComponent(signer);
  await controlPlane.ready();
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'worker-signer-'));
  const foreign = await createAuthority(join(root, 'foreign'), { commonName: 'foreign-ca' });
  const flags = {
    'cluster-signing-cert-file': join(root, 'signing.crt'),
    'cluster-signing-key-file': join(root, 'signing.key'),
  };
  await copyFile(foreign.cert, flags['cluster-signing-cert-file']);
  await copyFile(foreign.key, flags['cluster-signing-key-file']);
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', signer],
    flags: { [signer]: flags },
  });
  let out = '';
  const argv = ['init', 'workers', `--kubeconfig=${controlPlane.recoveryKubeconfig}`];
  const write = (text: string) => (out += text);
  const io = { env: {}, cwd: root, stdout: { write }, stderr: { write: () => undefined } };
  expect(await run({ argv, ...io, signal: AbortSignal.timeout(60_000) })).toBe(0);
  token = /<<< '([^']+)'/.exec(out)?.[1] ?? '';
});
afterAll(async () => {
  await Worker.stopAll();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const create = (name: string): Promise<Worker> =>
  Worker.create({ root, name, notAfter: new Date(Date.now() - hour), controlPlane, token });

it('a worker keeps its expired pair while the API server does not know who signs, and recovers when it does', async () => {
  const worker = await create('lynx');
  const before = await worker.pem();
  const first = await renewal(worker, '120s');
  expect(first).toMatchObject({ exit: 1 });
  expect(first.err).toMatch(/cannot be used, signed by "CN=foreign-ca", the API server answers 401 to it: see that/);
  expect(await worker.pem()).toBe(before);
  expect(worker.deeds).toEqual(['csr.requested', 'csr.refused', 'csr.requested']);
  expect(await requests()).toHaveLength(2);
  // The timer's runs make no more, and are not silent.
  expect(await renewal(worker, '120s')).toMatchObject({ exit: 1, err: first.err });
  expect(await requests()).toHaveLength(2);

  await signBy(controlPlane.pki.clusterCa);
  const [, newest] = (await requests()).toSorted((a, b) => a.metadata.name.length - b.metadata.name.length);
  await controlPlane.admin(`${collection}/${newest?.metadata.name}`, { method: 'DELETE' });
  expect(await renewal(worker, '120s')).toMatchObject({ exit: 0 });
  const [former, present] = [new X509Certificate(before), new X509Certificate(await worker.pem())];
  expect(present.publicKey.equals(former.publicKey)).toBe(true);
  expect(present.issuer).toBe(former.issuer);
  expect(new Date(present.validTo).getTime()).toBeGreaterThan(Date.now());
});

it('a worker says of a request that is approved and not signed who is to sign', async () => {
  const worker = await create('marten');
  const before = await worker.pem();
  await controlPlane.stopComponent(signer);
  const { exit, err } = await renewal(worker, '10s');
  expect(exit).toBe(1);
  expect(err).toMatch(/has been approved, and not signed in \d+s; it stays, .* See that kube-controller-manager runs/);
  expect(await worker.pem()).toBe(before);
});
