// Proof of possession: what a worker asks for with the key of its expired certificate, against a real kube-apiserver, and
// kube-controller-manager, which signs what is approved. The approver has the rights that `init` gives it, and a clock
// that is an hour ahead: what ends in half an hour has expired for it.
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PendingReason } from '../../lib/approver/judge.ts';
import type { PassReport } from '../../lib/approver/queue.ts';
import { runApprover } from '../../lib/approver/run.ts';
import {
  bootstrapRequester,
  clientAuthoritiesName,
  expiredCertificateAnnotation,
  issuedCertificatesName,
  kubeletClientSigner,
  requesterOf,
  workerAccount,
} from '../../lib/bootstrap-identity.ts';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { microTime } from '../../lib/kube/objects.ts';
import { createLog } from '../../lib/log.ts';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';
import type { ApiRequest, ApiResponse } from '../support/cluster/api-client.ts';
import {
  accountToken,
  approverNamespace as namespace,
  installApprover,
  requestAs,
} from '../support/cluster/approver-install.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { Tool } from '../support/cluster/recovery-world.ts';
import { eventually } from '../support/eventually.ts';

const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
const recordPath = `/api/v1/namespaces/${namespace}/configmaps/${issuedCertificatesName}`;
const authoritiesPath = `/api/v1/namespaces/kube-system/configmaps/${clientAuthoritiesName}`;
const minute = 60_000;
const aheadMs = 60 * minute;
const inMinutes = (count: number): Date => new Date(Date.now() + count * minute);

let root: string;
let controlPlane: ControlPlane;
let connection: KubeConnection;
let kubeconfig: string;
const tokens = { approver: '', bootstrapper: '', worker: '' };
const tools: Tool[] = [];
/** The cluster's CA begins a minute before it is made: no certificate of it can have ended earlier. */
let firstEnd: Date;
const { signal } = new AbortController();

const as = (token: string, path: string, request?: ApiRequest): Promise<ApiResponse> =>
  requestAs(controlPlane, token, path, request);

beforeAll(async () => {
  process.env['NODE_NAME'] = 'panda';
  root = await mkdtemp(join(tmpdir(), 'approver-possession-'));
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
  });
  const ca = new X509Certificate(await readFile(controlPlane.pki.clusterCa.cert));
  firstEnd = new Date(ca.validFromDate.getTime() + 1000);
  await installApprover(controlPlane);
  tokens.approver = await accountToken(controlPlane, 'approver');
  tokens.bootstrapper = await accountToken(controlPlane, 'node-bootstrapper');
  const kubectl = (...args: readonly string[]): Promise<string> => controlPlane.kubectl(...args);
  await kubectl('create', 'serviceaccount', workerAccount, `--namespace=${namespace}`);
  const resource = '--resource=certificatesigningrequests.certificates.k8s.io';
  await kubectl('create', 'clusterrole', workerAccount, '--verb=create,get', resource);
  const account = `--serviceaccount=${namespace}:${workerAccount}`;
  await kubectl('create', 'clusterrolebinding', workerAccount, `--clusterrole=${workerAccount}`, account);
  tokens.worker = (await kubectl('create', 'token', workerAccount, `--namespace=${namespace}`)).trim();
  kubeconfig = await writeKubeconfig(join(root, 'kubeconfig'), {
    server: controlPlane.url,
    certificateAuthority: controlPlane.recoveryCa,
    tlsServerName: 'localhost-recovery',
    token: tokens.approver,
  });
  connection = await openConnection({ kubeconfigFile: kubeconfig, clock: systemClock, userAgent: 'test' });
});
afterAll(async () => {
  for (const tool of tools) await tool.stop();
  await connection?.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

let count = 0;
/** A Node that has never spoken, and what its kubelet had until in half an hour. */
async function machine(options: Partial<LeafOptions> = {}, signer?: Pair): Promise<Machine> {
  count += 1;
  const name = `worker-${count}`;
  const pair = await createLeaf(join(root, name), signer ?? controlPlane.pki.clusterCa, {
    commonName: `system:node:${name}`,
    organization: 'system:nodes',
    notBefore: inMinutes(-5),
    notAfter: inMinutes(30),
    ...options,
  });
  expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body: { metadata: { name } } })).toMatchObject({
    status: 201,
  });
  const [certificate, key] = [await readFile(pair.cert, 'utf8'), await readFile(pair.key, 'utf8')];
  return { name, keyFile: pair.key, certificate, key };
}

interface Machine {
  readonly name: string;
  readonly keyFile: string;
  readonly certificate: string;
  readonly key: string;
}

interface Wish {
  readonly shown?: string | undefined;
  /** Default: with the key of the machine. */
  readonly pem?: string;
  readonly token?: string;
}

/** The name of its request. */
async function send({ name, keyFile, certificate }: Machine, wish: Wish = {}): Promise<string> {
  const shown = 'shown' in wish ? wish.shown : certificate;
  const annotations = { annotations: { [expiredCertificateAnnotation]: shown } };
  const request = Buffer.from(wish.pem ?? (await kubeletRequest(name, { keyFile }))).toString('base64');
  const body = {
    metadata: { generateName: `${name}-`, ...(shown !== undefined && annotations) },
    spec: { request, signerName: kubeletClientSigner, usages: ['digital signature', 'client auth'] },
  };
  const answer = await as(wish.token ?? tokens.worker, collection, { method: 'POST', body });
  expect(answer).toMatchObject({ status: 201 });
  return (answer.body as { metadata: { name: string } }).metadata.name;
}

interface Told {
  readonly event: string;
  readonly csr?: string;
  readonly reason?: string;
  readonly err?: string;
}

/** One pass of an approver that has just been started. */
async function pass(): Promise<{ readonly report: PassReport; readonly lines: readonly Told[] }> {
  const lines: Told[] = [];
  const report = await runApprover({
    connection,
    nodeName: 'panda',
    nodeCertificate: join(root, 'none', 'none.pem'),
    longestLifeMs: minute,
    expectedNodes: [],
    namespace,
    requesters: [bootstrapRequester(namespace), requesterOf('worker', namespace)],
    clockFacts: () => Promise.resolve({ builtAt: new Date(0), synchronised: true }),
    bootedAt: () => undefined,
    once: true,
    dryRun: false,
    recheckMs: 30_000,
    clock: { ...systemClock, now: () => new Date(Date.now() + aheadMs) },
    log: createLog({ write: (line) => lines.push(JSON.parse(line) as Told) }),
    signal,
  });
  expect(JSON.stringify(lines)).not.toMatch(/-----|MI[GI]/);
  return { report, lines };
}

async function reasonOf(request: string): Promise<string | undefined> {
  const { lines } = await pass();
  expect((await csr(request)).status).toEqual({});
  return lines.find((line) => line.csr === request && line.event === 'csr.pending')?.reason;
}

const csr = async (name: string): Promise<{ readonly status: { readonly certificate?: string } }> =>
  (await controlPlane.admin(`${collection}/${name}`)).body as Awaited<ReturnType<typeof csr>>;
const issued = (name: string): Promise<X509Certificate> =>
  eventually(async () => new X509Certificate(Buffer.from((await csr(name)).status.certificate ?? '', 'base64')));
const recorded = async (): Promise<Readonly<Record<string, string>>> =>
  ((await controlPlane.admin(recordPath)).body as { data?: Record<string, string> }).data ?? {};

async function lease(name: string, renewedAt: Date): Promise<void> {
  const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime: microTime(renewedAt) };
  const body = { metadata: { name }, spec };
  expect(await controlPlane.admin(leases, { method: 'POST', body })).toMatchObject({ status: 201 });
}

describe('a worker whose certificate has expired', () => {
  it('gets a new one for the same key, which is recorded', async () => {
    const worker = await machine();
    await lease(worker.name, inMinutes(30));
    const request = await send(worker);
    expect(await pass()).toMatchObject({ report: { approved: 1, failed: [] } });
    const certificate = await issued(request);
    const publicKey = createPublicKey(createPrivateKey(worker.key));
    expect(certificate.publicKey.equals(publicKey)).toBe(true);
    expect(certificate.subject).toBe(`O=system:nodes\nCN=system:node:${worker.name}`);
    // Asked again, because the kubelet was started before it came.
    expect(await reasonOf(await send(worker))).toBe('AlreadyApproved');
    const end = new Date(certificate.validTo).toISOString();
    expect(await recorded()).toHaveProperty(worker.name, expect.stringContaining(end));
  });

  it('may ask with any credential of a requester', async () => {
    const worker = await machine();
    const request = await send(worker, { token: tokens.bootstrapper });
    expect((await pass()).report.approved).toBe(1);
    await issued(request);
  });
});

describe('a request stays pending', () => {
  const other = async (): Promise<string> => (await machine()).certificate;
  it.each<[PendingReason, string, (worker: Machine) => Promise<Wish>]>([
    ['CertificateNotShown', 'without a certificate', () => Promise.resolve({ shown: undefined })],
    ['CertificateUnreadable', 'with two', async ({ certificate }) => ({ shown: certificate + (await other()) })],
    ['CertificateUnreadable', 'with a key', ({ certificate, key }) => Promise.resolve({ shown: certificate + key })],
    ['CertificateUnreadable', 'with something else', () => Promise.resolve({ shown: 'panda' })],
    ['RequestTooLarge', 'with 100 kB', () => Promise.resolve({ shown: 'x'.repeat(100_000) })],
    ['KeyDiffers', 'with a new key', async ({ name }) => ({ pem: await kubeletRequest(name) })],
    ['KeyDiffers', "with the neighbour's certificate and another key", async () => ({ shown: await other() })],
  ])('for %s: %s', async (reason, _what, wish) => {
    const worker = await machine();
    expect(await reasonOf(await send(worker, await wish(worker)))).toBe(reason);
  });

  it("asked for by a neighbour's key, with its certificate", async () => {
    const [worker, neighbour] = [await machine(), await machine()];
    const pem = await kubeletRequest(worker.name, { keyFile: neighbour.keyFile });
    const request = await send(worker, { pem, shown: neighbour.certificate });
    expect(await reasonOf(request)).toBe('CertificateOfOtherNode');
  });

  it.each<[PendingReason, string, () => Partial<LeafOptions>]>([
    ['CertificateStillValid', 'is valid', () => ({ notAfter: inMinutes(120) })],
    ['CertificateNotTrusted', 'is that of a server', () => ({ usages: ['serverAuth'] })],
    ['CertificateOfOtherNode', 'is in another group', () => ({ organization: 'system:masters' })],
    ['CertificateSuperseded', 'ended before its Node was made', () => ({ notAfter: firstEnd })],
  ])('for %s: the certificate %s', async (reason, _what, options) => {
    expect(await reasonOf(await send(await machine(options())))).toBe(reason);
  });

  it('for CertificateNotTrusted: a CA that only has the name of the one of the cluster', async () => {
    const commonName = new X509Certificate(await readFile(controlPlane.pki.clusterCa.cert)).subject.replace('CN=', '');
    const signer = await createAuthority(join(root, 'self-made'), { commonName, notBefore: inMinutes(-180) });
    expect(await reasonOf(await send(await machine({}, signer)))).toBe('CertificateNotTrusted');
  });

  it('for NodeUnknown: its Node was deleted', async () => {
    const worker = await machine();
    await controlPlane.admin(`/api/v1/nodes/${worker.name}`, { method: 'DELETE' });
    expect(await reasonOf(await send(worker))).toBe('NodeUnknown');
  });

  it('for CertificateSuperseded: its Node was deleted and made again', async () => {
    const former = await machine();
    const first = await send(former);
    expect((await pass()).report.approved).toBe(1);
    await issued(first);
    await pass(); // an approver that sees what was issued
    const { uid } = ((await controlPlane.admin(`/api/v1/nodes/${former.name}`)).body as { metadata: { uid: string } })
      .metadata;
    await controlPlane.admin(`${collection}/${first}`, { method: 'DELETE' });
    await controlPlane.admin(`/api/v1/nodes/${former.name}`, { method: 'DELETE' });
    await controlPlane.admin('/api/v1/nodes', { method: 'POST', body: { metadata: { name: former.name } } });
    const second = await send(former);
    expect(await reasonOf(second)).toBe('CertificateSuperseded');
    expect(await recorded()).toHaveProperty(former.name, expect.stringContaining(uid));
    await controlPlane.admin(`${collection}/${second}`, { method: 'DELETE' });
  });

  it.each<[PendingReason, string, number]>([
    ['CertificateSuperseded', 'after the end of that certificate', 40],
    ['NodeAlive', 'just now', 60],
  ])('for %s: its Lease was renewed %s', async (reason, _what, minutes) => {
    const worker = await machine();
    await lease(worker.name, inMinutes(minutes));
    expect(await reasonOf(await send(worker))).toBe(reason);
  });

  it('for CertificateSuperseded: another key was certified, which only the record tells after a restart', async () => {
    const worker = await machine();
    const renewal = await send(worker, { pem: await kubeletRequest(worker.name), shown: undefined });
    await controlPlane.kubectl('certificate', 'approve', renewal);
    await issued(renewal);
    await pass();
    expect(await recorded()).toHaveProperty(worker.name);
    await controlPlane.admin(`${collection}/${renewal}`, { method: 'DELETE' });
    const request = await send(worker);
    expect(await reasonOf(request)).toBe('CertificateSuperseded');
    // The way out, where it is known that the node has lost it.
    const patch = { method: 'PATCH', body: { data: { [worker.name]: null } } } as const;
    expect(await controlPlane.admin(recordPath, patch)).toMatchObject({ status: 200 });
    expect((await pass()).report.approved).toBe(1);
    await issued(request);
  });

  it('while the CAs cannot be read, and says what is missing; then it is approved', async () => {
    const request = await send(await machine());
    const approver = 'kube-cert-recovery-approver';
    await controlPlane.kubectl('delete', 'rolebinding', approver, '--namespace=kube-system');
    await eventually(async () => expect(await as(tokens.approver, authoritiesPath)).toMatchObject({ status: 403 }));
    const { report, lines } = await pass();
    expect(report.approved).toBe(0);
    const [failure] = lines.filter(({ event, csr: of }) => event === 'csr.failed' && of === request);
    expect(failure?.err).toContain(clientAuthoritiesName);
    await installApprover(controlPlane, { isWanted: ({ metadata }) => metadata.namespace === 'kube-system' });
    await eventually(async () => expect(await as(tokens.approver, authoritiesPath)).toMatchObject({ status: 200 }));
    expect((await pass()).report.approved).toBe(1);
  });

  it('while there is no record, and says what is missing; then it is approved', async () => {
    const request = await send(await machine());
    await controlPlane.admin(recordPath, { method: 'DELETE' });
    const { lines } = await pass();
    const [failure] = lines.filter(({ event, csr: of }) => event === 'csr.failed' && of === request);
    expect(failure?.err).toContain(issuedCertificatesName);
    await installApprover(controlPlane, { isWanted: ({ kind }) => kind === 'ConfigMap' });
    expect((await pass()).report.approved).toBe(1);
  });
});

const configured = async (): Promise<string> => {
  const configFile = join(root, 'config.yaml');
  await writeFile(
    configFile,
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [approver]
approver: { kubeconfig: ${kubeconfig} }
`,
  );
  return configFile;
};

it('the program records what others have approved, as long as it runs', async () => {
  const tool = new Tool([`--config=${await configured()}`]);
  tools.push(tool);
  for (const worker of [await machine(), await machine()]) {
    const renewal = await send(worker, { shown: undefined });
    await controlPlane.kubectl('certificate', 'approve', renewal);
    const { validToDate } = await issued(renewal);
    await eventually(async () =>
      expect(await recorded()).toHaveProperty(worker.name, expect.stringContaining(validToDate.toISOString())),
    );
  }
  expect(await tool.stop()).toBe(0);
});

it('the program judges workers without a word in its configuration', async () => {
  const worker = await machine({ notAfter: firstEnd });
  const requests = [await send(worker, { shown: undefined }), await send(worker)];
  const tool = new Tool([`--config=${await configured()}`, '--once']);
  tools.push(tool);
  expect(await tool.ended).toBe(0);
  const reasons = requests.map(
    (request) => tool.lines.find(({ fields }) => fields['csr'] === request)?.fields['reason'],
  );
  expect(reasons).toEqual(['CertificateNotShown', 'CertificateSuperseded']);
});

it("the approver's rights end with these two ConfigMaps and the CAs; a worker may ask and look", async () => {
  const inNamespace = `/api/v1/namespaces/${namespace}/configmaps`;
  const refused: readonly (readonly [string, string, ApiRequest?])[] = [
    [tokens.approver, '/api/v1/namespaces/kube-system/configmaps'],
    [tokens.approver, '/api/v1/namespaces/kube-system/configmaps/other'],
    [tokens.approver, authoritiesPath, { method: 'PATCH', body: {} }],
    [tokens.approver, inNamespace],
    [tokens.approver, recordPath, { method: 'DELETE' }],
    [tokens.worker, recordPath],
    [tokens.worker, collection],
    [tokens.worker, '/api/v1/nodes'],
  ];
  for (const [token, path, request] of refused) {
    expect(await as(token, path, request), `${request?.method ?? 'GET'} ${path}`).toMatchObject({ status: 403 });
  }
});
