// Mode approver as it is built, against a real kube-apiserver, and kube-controller-manager, which signs what is approved.
// Each test leaves the program running or not as the next one expects: the order is the story.
import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import { firstApprovalsName, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { runApprover } from '../../lib/approver/run.ts';
import { bootstrapRequester } from '../../lib/bootstrap-identity.ts';
import { systemClock } from '../../lib/clock.ts';
import { tokenSecretName } from '../../lib/install/accounts.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import type { ApiRequest, ApiResponse } from '../support/cluster/api-client.ts';
import {
  accountToken,
  approverNamespace as namespace,
  installApprover,
  requestAs,
} from '../support/cluster/approver-install.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { type Line, Tool } from '../support/cluster/recovery-world.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';

const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const hour = 3_600_000;

let root: string;
let controlPlane: ControlPlane;
let configFile: string;
let kubeconfig: string;
let nodeCertificate: string;
const tokens = { approver: '', bootstrapper: '', other: '' };
const tools: Tool[] = [];

const as = (token: string, path: string, request?: ApiRequest): Promise<ApiResponse> =>
  requestAs(controlPlane, token, path, request);

async function ownCertificate(notAfter: Date): Promise<void> {
  const names = { commonName: 'system:node:panda', organization: 'system:nodes' };
  const notBefore = new Date(notAfter.getTime() - 24 * hour);
  const dates = { notBefore, notAfter };
  const { cert, key } = await createLeaf(join(root, 'leaf'), controlPlane.pki.clusterCa, { ...names, ...dates });
  await writeFile(nodeCertificate, (await readFile(cert, 'utf8')) + (await readFile(key, 'utf8')), { mode: 0o600 });
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'approver-'));
  process.env['NODE_NAME'] = 'panda';
  nodeCertificate = join(root, 'pki', 'kubelet-client-current.pem');
  await mkdir(join(root, 'pki'));
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
  });
  await installApprover(controlPlane);
  tokens.approver = await accountToken(controlPlane, 'approver');
  tokens.bootstrapper = await accountToken(controlPlane, 'node-bootstrapper');
  // Somebody else who may ask, and is not allowed to be approved by kube-controller-manager.
  await controlPlane.kubectl('create', 'serviceaccount', 'other');
  const binding = ['create', 'clusterrolebinding', 'other', '--clusterrole=system:node-bootstrapper'];
  await controlPlane.kubectl(...binding, '--serviceaccount=default:other');
  tokens.other = (await controlPlane.kubectl('create', 'token', 'other')).trim();
  await ownCertificate(new Date(Date.now() - hour));
  kubeconfig = await writeKubeconfig(join(root, 'kubeconfig'), {
    server: controlPlane.url,
    certificateAuthority: controlPlane.recoveryCa,
    tlsServerName: 'localhost-recovery',
    token: tokens.approver,
  });
  configFile = join(root, 'config.yaml');
  await writeFile(
    configFile,
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [approver]
approver: { kubeconfig: ${kubeconfig}, nodeCertificate: ${nodeCertificate}, expectedNodes: [newcomer] }
log: { level: debug }
`,
  );
});
afterAll(async () => {
  for (const tool of tools) await tool.stop();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

function start(...flags: readonly string[]): Tool {
  const tool = new Tool([`--config=${configFile}`, ...flags]);
  tools.push(tool);
  return tool;
}

interface Sent {
  readonly name: string;
  readonly node?: string;
  readonly token?: string;
  readonly usages?: readonly string[];
  readonly pem?: string;
  readonly signerName?: string;
}

async function send({ name, node = 'panda', token = tokens.bootstrapper, pem, ...wish }: Sent): Promise<void> {
  const { usages = ['digital signature', 'client auth'], signerName = kubeletClientSigner } = wish;
  const request = Buffer.from(pem ?? (await kubeletRequest(node))).toString('base64');
  const body = { metadata: { name }, spec: { request, signerName, usages } };
  expect(await as(token, collection, { method: 'POST', body })).toMatchObject({ status: 201 });
}

interface Csr {
  readonly metadata: { readonly resourceVersion: string };
  readonly status: {
    readonly certificate?: string;
    readonly conditions?: readonly { readonly type: string; readonly reason: string; readonly message: string }[];
  };
}

const csr = async (name: string): Promise<Csr> => (await controlPlane.admin(`${collection}/${name}`)).body as Csr;

const issued = (name: string): Promise<X509Certificate> =>
  eventually(async () => new X509Certificate(Buffer.from((await csr(name)).status.certificate ?? '', 'base64')));

const linesOf = (tool: Tool, name: string): readonly Line[] =>
  tool.lines.filter(({ fields }) => fields['csr'] === name);
const said = (tool: Tool, name: string): Promise<readonly Line[]> =>
  eventually(() => {
    const lines = linesOf(tool, name);
    expect(lines, name).not.toEqual([]);
    return lines;
  });

async function eventsOf(name: string): Promise<readonly { type: string; reason: string; note: string }[]> {
  const { body } = await controlPlane.admin('/apis/events.k8s.io/v1/namespaces/default/events');
  const { items } = body as { items: { type: string; reason: string; note: string; regarding: { name: string } }[] };
  return items.filter(({ regarding }) => regarding.name === name);
}

let running: Tool;

describe('--mode=approver', () => {
  it('with --dry-run says what it would approve, and writes nothing', async () => {
    await send({ name: 'first' });
    const before = await csr('first');
    const tool = start('--dry-run', '--once');
    expect(await tool.ended).toBe(0);
    expect(linesOf(tool, 'first').map(({ fields }) => fields['reason'])).toEqual(['DryRun']);
    expect(await csr('first')).toEqual(before);
    expect(await eventsOf('first')).toEqual([]);
  });

  it('approves what waits and what comes while the certificate on disk has expired; kcm signs it', async () => {
    running = start();
    expect((await issued('first')).subject).toBe('O=system:nodes\nCN=system:node:panda');
    const [condition] = (await csr('first')).status.conditions ?? [];
    expect(condition).toMatchObject({ type: 'Approved', reason: 'KubeCertRecovery' });
    expect(condition?.message).toContain(nodeCertificate);
    await send({ name: 'second' });
    await issued('second');
    expect(await said(running, 'second')).toMatchObject([{ event: 'csr.approved', fields: { node: 'panda' } }]);
    await eventually(async () =>
      expect(await eventsOf('second')).toMatchObject([{ type: 'Normal', reason: 'CertificateRequestApproved' }]),
    );
  });

  it('leaves the requests of others', async () => {
    await send({ name: 'others', token: tokens.other });
    await send({ name: 'after-others', node: 'stranger' });
    await said(running, 'after-others');
    expect((await csr('others')).status).toEqual({});
  });

  it('leaves what it cannot approve, and says why once, in the log and as an Event', async () => {
    await send({ name: 'greedy', usages: ['digital signature', 'client auth', 'server auth'] });
    const fields = { csr: 'greedy', reason: 'UsagesUnsuitable', mode: 'approver' };
    expect(await said(running, 'greedy')).toMatchObject([{ event: 'csr.pending', fields }]);
    expect(await said(running, 'after-others')).toMatchObject([
      { fields: { reason: 'NodeUnknown', node: 'stranger' } },
    ]);
    // The object changes, so that it is looked at again; then another one is.
    await controlPlane.kubectl('label', 'csr', 'greedy', 'a=b');
    await send({ name: 'after-greedy', node: 'stranger' });
    await said(running, 'after-greedy');
    expect(linesOf(running, 'greedy')).toHaveLength(1);
    expect((await csr('greedy')).status).toEqual({});
    await eventually(async () =>
      expect(await eventsOf('greedy')).toMatchObject([{ type: 'Warning', reason: 'CertificateRequestPending' }]),
    );
    expect((await eventsOf('greedy'))[0]?.note).toContain('UsagesUnsuitable: its usages are');
  });

  it("approves what OpenShift's bootstrap identity asks for, where that is one of the requesters", async () => {
    const inNamespace = '--namespace=openshift-machine-config-operator';
    await controlPlane.kubectl('create', 'namespace', 'openshift-machine-config-operator');
    await controlPlane.kubectl('create', 'serviceaccount', 'node-bootstrapper', inNamespace);
    const account = '--serviceaccount=openshift-machine-config-operator:node-bootstrapper';
    const role = '--clusterrole=system:node-bootstrapper';
    await controlPlane.kubectl('create', 'clusterrolebinding', 'openshift', role, account);
    const token = (await controlPlane.kubectl('create', 'token', 'node-bootstrapper', inNamespace)).trim();
    await send({ name: 'openshift-1', token });
    const openshift = join(root, 'openshift.yaml');
    const text = await readFile(configFile, 'utf8');
    await writeFile(openshift, text.replace('expectedNodes: [newcomer]', 'requesters: [openshift]'));
    const tool = new Tool([`--config=${openshift}`, '--once']);
    tools.push(tool);
    expect(await tool.ended).toBe(0);
    expect((await issued('openshift-1')).subject).toBe('O=system:nodes\nCN=system:node:panda');
    expect(linesOf(running, 'openshift-1').filter(({ event }) => event === 'csr.approved')).toEqual([]);
  });

  it('approves an expected node once', async () => {
    await send({ name: 'newcomer-1', node: 'newcomer' });
    await issued('newcomer-1');
    await send({ name: 'newcomer-2', node: 'newcomer' });
    expect(await said(running, 'newcomer-2')).toMatchObject([
      { event: 'csr.pending', fields: { reason: 'AlreadyApproved' } },
    ]);
  });

  it('approves it no second time after a restart either, when the API has forgotten the first request', async () => {
    for (const name of ['newcomer-1', 'newcomer-2']) {
      expect(await controlPlane.admin(`${collection}/${name}`, { method: 'DELETE' })).toMatchObject({ status: 200 });
    }
    await send({ name: 'newcomer-3', node: 'newcomer' });
    const restarted = start('--once');
    expect(await restarted.ended).toBe(0);
    expect(linesOf(restarted, 'newcomer-3')).toMatchObject([
      { event: 'csr.pending', fields: { reason: 'AlreadyApproved' } },
    ]);
    expect((await csr('newcomer-3')).status).toEqual({});
    // The way out that the message names.
    const record = `/api/v1/namespaces/${namespace}/configmaps/${firstApprovalsName}`;
    expect((await controlPlane.admin(record)).body).toMatchObject({ data: { newcomer: expect.any(String) as string } });
    const patch = { method: 'PATCH', body: { data: { newcomer: null } } } as const;
    expect(await controlPlane.admin(record, patch)).toMatchObject({ status: 200 });
    expect(await start('--once').ended).toBe(0);
    await issued('newcomer-3');
  });

  it('leaves requests of its own node while the certificate on disk is valid', async () => {
    await ownCertificate(new Date(Date.now() + hour));
    await send({ name: 'too-early' });
    expect(await said(running, 'too-early')).toMatchObject([
      { event: 'csr.pending', fields: { reason: 'CertificateStillValid', node: 'panda' } },
    ]);
    expect((await csr('too-early')).status).toEqual({});
  });

  it('says of a request of others that nobody has decided it, once, in the log and as an Event', async () => {
    await eventually(async () => {
      const fields = { reason: 'RequesterUnknown', message: expect.stringContaining('default:other') as string };
      expect(linesOf(running, 'others')).toMatchObject([{ event: 'csr.pending', fields }]);
      expect(await eventsOf('others')).toMatchObject([{ type: 'Warning', reason: 'CertificateRequestPending' }]);
    });
    expect((await csr('others')).status).toEqual({});
  });

  it('ends in good order, and has said nothing that is key material', async () => {
    expect(await running.stop()).toBe(0);
    const text = JSON.stringify(running.lines);
    for (const secret of [tokens.approver, tokens.bootstrapper, 'PRIVATE KEY', 'BEGIN CERTIFICATE']) {
      expect(text).not.toContain(secret);
    }
    expect(running.lines.filter(({ event }) => event === 'csr.failed' || event === 'event.dropped')).toEqual([]);
  });
});

const inProcess = (connection: KubeConnection): ApproverOptions => ({
  connection,
  nodeName: 'panda',
  nodeCertificate,
  longestLifeMs: hour,
  expectedNodes: [],
  namespace,
  requesters: [bootstrapRequester(namespace)],
  clockFacts: () => Promise.resolve({ builtAt: new Date(0), synchronised: true }),
  bootedAt: () => undefined,
  once: false,
  dryRun: false,
  recheckMs: 200,
  clock: systemClock,
  log: createLog({ write: () => undefined }),
  signal: new AbortController().signal,
});

describe('runApprover()', () => {
  it('approves another node when its certificate must have expired, without a change of the request', async () => {
    const stop = new AbortController();
    const connection = await openConnection({ kubeconfigFile: kubeconfig, clock: systemClock, userAgent: 'test' });
    const reasons: unknown[] = [];
    const log = createLog({ write: (line) => reasons.push((JSON.parse(line) as { reason?: string }).reason) });
    const ended = runApprover({ ...inProcess(connection), longestLifeMs: 4000, log, signal: stop.signal });
    const body = { metadata: { name: 'worker' } };
    expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body })).toMatchObject({ status: 201 });
    await send({ name: 'worker-1', node: 'worker' });
    await eventually(() => expect(reasons).toContain('CertificateMayBeValid'));
    expect((await csr('worker-1')).status).toEqual({});
    await issued('worker-1');
    await send({ name: 'worker-2', node: 'worker' });
    await eventually(() => expect(reasons).toContain('AlreadyApproved'));
    stop.abort();
    await ended;
    await connection.close();
  });

  it('approves no second request of a node when another approver was faster with the first', async () => {
    await send({ name: 'lion-1', node: 'lion' });
    await delay(1100); // requests are dated by the second
    await send({ name: 'lion-2', node: 'lion' });
    const connection = await openConnection({ kubeconfigFile: kubeconfig, clock: systemClock, userAgent: 'test' });
    const overtaken: KubeConnection = {
      server: connection.server,
      files: connection.files,
      request: async <T>(request: KubeRequest) => {
        // The other has sent the same just before.
        if (request.path.endsWith('/lion-2/approval')) await connection.request(request);
        return connection.request<T>(request);
      },
      watch: (path, options) => connection.watch(path, options),
      turn: (signal) => connection.turn(signal),
      reload: () => connection.reload(),
      close: () => Promise.resolve(),
    };
    const report = await runApprover({ ...inProcess(overtaken), expectedNodes: ['lion'], once: true });
    expect(report.approved).toBe(0);
    await issued('lion-2');
    expect((await csr('lion-1')).status).toEqual({});
    await connection.close();
  });

  it('approves a request among sixty of a megabyte, with the memory of a few', async () => {
    await ownCertificate(new Date(Date.now() - hour));
    const pem = await kubeletRequest('panda');
    // The API server takes any text before the block.
    const flood = Array.from({ length: 60 }, (_, count) => `large-${count}`);
    for (const name of flood) await send({ name, pem: `${'x'.repeat(1_000_000)}\n${pem}` });
    await send({ name: 'among-large', pem });
    // Eighty million characters in one answer are more than the heap of the program.
    const tool = start();
    await issued('among-large');
    for (const name of flood) {
      const fields = { reason: 'RequestTooLarge' };
      expect(await said(tool, name)).toMatchObject([{ event: 'csr.pending', fields }]);
    }
    // An event of the watch: nothing of it stays either.
    await send({ name: 'large-late', pem: `${'x'.repeat(1_000_000)}\n${pem}` });
    expect(await said(tool, 'large-late')).toMatchObject([{ fields: { reason: 'RequestTooLarge' } }]);
    expect((await csr('large-late')).status).toEqual({});
    // Buffers besides the heap: the whole stays far below the 250 MiB that its pod may have.
    const peak = /VmHWM:\s+(\d+) kB/.exec(await readFile(`/proc/${tool.pid}/status`, 'utf8'))?.[1];
    expect(Number(peak)).toBeLessThan(200 * 1024);
    expect(await tool.stop()).toBe(0);
    for (const name of [...flood, 'large-late']) {
      expect(await controlPlane.admin(`${collection}/${name}`, { method: 'DELETE' })).toMatchObject({ status: 200 });
    }
  });

  it('approves what a kubelet waits for among hundreds that it has left, and looks at all of them in turn', async () => {
    const pem = await kubeletRequest('panda');
    const others = await kubeletRequest('tiger');
    await ownCertificate(new Date(Date.now() - hour));
    for (let count = 0; count < 250; count += 1) await send({ name: `flood-${count}`, pem: others });
    await send({ name: 'behind', pem });
    const once = start('--once', '--dry-run');
    expect(await once.ended).toBe(0);
    const told = (tool: Tool): string[] =>
      tool.lines.flatMap(({ event, fields }) => (event === 'csr.pending' ? [String(fields['csr'])] : []));
    const all = ['behind', ...Array.from({ length: 250 }, (_, count) => `flood-${count}`)];
    expect(told(once)).toEqual(expect.arrayContaining(all));
    const tool = start();
    await issued('behind');
    expect(tool.lines.filter(({ event }) => event === 'csr.flooded')).toHaveLength(1);
    // What is asked for meanwhile goes before what has waited.
    await send({ name: 'late', pem });
    await issued('late');
    await eventually(() => expect(told(tool)).toEqual(expect.arrayContaining(all.slice(1))));
    expect((await csr('flood-0')).status).toEqual({});
    // What is left is counted: not one more write to etcd for each that somebody sends.
    expect(await tool.stop()).toBe(0);
    const { body } = await controlPlane.admin('/apis/events.k8s.io/v1/namespaces/default/events?limit=1000');
    const { items } = body as { items: readonly { regarding: { name: string }; note: string }[] };
    const flood = items.filter(({ regarding }) => regarding.name.startsWith('flood-'));
    const own = flood.filter(({ note }) => !note.includes('requests wait'));
    // But the first of a reason, which nothing may hide; all of these have one.
    expect(own.map(({ note }) => note.slice(0, note.indexOf(':')))).toEqual(own.slice(0, 1).map(() => 'NodeUnknown'));
  });
});

describe('the rights', () => {
  const approval = { type: 'Approved', status: 'True', reason: 'x', message: 'x' };
  it('of the approver end with the requests of one signer', async () => {
    await send({
      name: 'serving',
      signerName: 'kubernetes.io/kubelet-serving',
      usages: ['digital signature', 'server auth'],
    });
    const { body: serving } = await controlPlane.admin(`${collection}/serving`);
    const { body: own } = await controlPlane.admin(`${collection}/greedy`);
    const approved = { ...(serving as Csr), status: { conditions: [approval] } };
    const event = {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: 'x', namespace: 'kube-system' },
      eventTime: '2026-01-01T00:00:00.000000Z',
    };
    const refused: readonly (readonly [string, ApiRequest?])[] = [
      [`${collection}/serving/approval`, { method: 'PUT', body: approved }],
      [`${collection}/greedy`, { method: 'PUT', body: own }],
      [`${collection}/greedy`, { method: 'DELETE' }],
      [`${collection}/greedy/status`, { method: 'PUT', body: own }],
      [collection, { method: 'POST', body: { metadata: { name: 'x' }, spec: {} } }],
      ['/api/v1/nodes'],
      ['/api/v1/nodes/worker', { method: 'PATCH', body: {} }],
      ['/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases'],
      ['/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager'],
      [`/api/v1/namespaces/${namespace}/secrets`],
      [`/api/v1/namespaces/${namespace}/configmaps`],
      [`/api/v1/namespaces/${namespace}/configmaps/other`],
      [`/api/v1/namespaces/${namespace}/configmaps/${firstApprovalsName}`, { method: 'DELETE' }],
      [`/api/v1/namespaces/${namespace}/secrets/${tokenSecretName('node-bootstrapper')}`],
      [
        `/api/v1/namespaces/${namespace}/serviceaccounts/kube-cert-recovery-approver/token`,
        { method: 'POST', body: {} },
      ],
      ['/apis/events.k8s.io/v1/namespaces/kube-system/events', { method: 'POST', body: event }],
    ];
    for (const [path, request] of refused) {
      const { status } = await as(tokens.approver, path, request);
      expect(status, `${request?.method ?? 'GET'} ${path}`).toBe(403);
    }
  });

  it('of the bootstrap identity are to ask and to look', async () => {
    const { body: own } = await controlPlane.admin(`${collection}/greedy`);
    const approved = { ...(own as Csr), status: { conditions: [approval] } };
    const refused: readonly (readonly [string, ApiRequest?])[] = [
      [`${collection}/greedy/approval`, { method: 'PUT', body: approved }],
      [`${collection}/greedy`, { method: 'DELETE' }],
      ['/api/v1/nodes'],
      [`/api/v1/namespaces/${namespace}/secrets`],
      [`/api/v1/namespaces/${namespace}/configmaps/${firstApprovalsName}`],
    ];
    for (const [path, request] of refused) {
      const { status } = await as(tokens.bootstrapper, path, request);
      expect(status, `${request?.method ?? 'GET'} ${path}`).toBe(403);
    }
  });
});
