// Mode approver with serving certificates of kubelets, as it is built: a real kube-apiserver, which authenticates each
// requester by a client certificate, kube-controller-manager, which signs what is approved, Machines in the API, and TLS
// servers in place of kubelets. The program may do what its role says and no more.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runApprover } from '../../lib/approver/run.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import { systemClock } from '../../lib/clock.ts';
import type { AddressSettings } from '../../lib/config/address-settings.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createLog } from '../../lib/log.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import {
  createRequest,
  kubeletRequest,
  type RequestOptions,
  withSignatureOf,
} from '../support/certificates/requests.ts';
import { apiRequest } from '../support/cluster/api-client.ts';
import { accountToken, approverNamespace as namespace, installApprover } from '../support/cluster/approver-install.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { freePorts } from '../support/cluster/ports.ts';
import { type Line, Tool } from '../support/cluster/recovery-world.ts';
import { eventually } from '../support/eventually.ts';
import { machineAddress } from './machine-address.ts';

const signerName = 'kubernetes.io/kubelet-serving';
const collection = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const usages = ['digital signature', 'server auth'];
const hour = 3_600_000;
const machineApis = {
  clusterAPI: '/apis/cluster.x-k8s.io/v1beta1/namespaces/default/machines',
  openshift: '/apis/machine.openshift.io/v1beta1/namespaces/default/machines',
};

let root: string;
let controlPlane: ControlPlane;
let kubeconfig: string;
let token: string;
let healthPort: number;
let running: Tool;
let sources: readonly AddressSettings[];
const servers: Server[] = [];
/** Client certificates of nodes. */
const identities = new Map<string, Pair>();

const leaf = (name: string, options: LeafOptions, signer = controlPlane.pki.clusterCa): Promise<Pair> =>
  createLeaf(join(root, 'leaves', name), signer, options);

async function identityOf(node: string): Promise<Pair> {
  const known = identities.get(node);
  if (known !== undefined) return known;
  const made = await leaf(`client-${node}`, { commonName: `system:node:${node}`, organization: 'system:nodes' });
  identities.set(node, made);
  return made;
}

async function admin(method: string, path: string, body: unknown): Promise<void> {
  const answer = await controlPlane.admin(path, { method, body });
  if (answer.status > 201) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** `status`: as its kubelet writes it. */
async function register(name: string, addresses: readonly string[] = [], port = 10_250): Promise<void> {
  await admin('POST', '/api/v1/nodes', { metadata: { name } });
  const status = {
    addresses: addresses.map((address) => ({ type: 'InternalIP', address })),
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  await admin('PATCH', `/api/v1/nodes/${name}/status`, { status });
}

async function machine(api: keyof typeof machineApis, name: string, nodeName: string, addresses: readonly string[]) {
  const path = machineApis[api];
  const [, , group, version] = path.split('/');
  await admin('POST', path, { apiVersion: `${group}/${version}`, kind: 'Machine', metadata: { name } });
  const status = {
    nodeRef: { name: nodeName },
    addresses: addresses.map((address) => ({ type: 'InternalIP', address })),
  };
  await admin('PATCH', `${path}/${name}/status`, { status });
}

/** What a kubelet is, for who dials it. */
async function kubelet(host: string, { cert, key }: Pair): Promise<number> {
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen({ port: 0, host }, resolve));
  return (server.address() as AddressInfo).port;
}

interface Sent extends Partial<RequestOptions> {
  readonly name: string;
  /** Who asks, and by default for whom. */
  readonly as: string;
  readonly san?: string;
  readonly usages?: readonly string[];
  readonly pem?: string;
  readonly expirationSeconds?: number;
  /** Asked by somebody else: headers of an administrator who impersonates. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Status of the answer. */
async function send({ name, as, san, pem, headers, expirationSeconds, ...options }: Sent): Promise<number> {
  const extensions = [...(san === undefined ? [] : [`subjectAltName = ${san}`]), ...(options.extensions ?? [])];
  const text = pem ?? (await kubeletRequest(as, { ...options, extensions }));
  const request = Buffer.from(text).toString('base64');
  const spec = { request, signerName, usages: options.usages ?? usages, expirationSeconds };
  const target = { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName: 'localhost-recovery' };
  const who = headers === undefined ? { client: await identityOf(as) } : { token: controlPlane.adminToken };
  const body = { metadata: { name }, spec };
  const { status } = await apiRequest({ ...target, ...who }, collection, {
    method: 'POST',
    body,
    ...(headers && { headers }),
  });
  return status;
}

interface Csr {
  readonly spec: { readonly username: string };
  readonly status: { readonly certificate?: string; readonly conditions?: readonly { readonly message: string }[] };
}

const csr = async (name: string): Promise<Csr> => (await controlPlane.admin(`${collection}/${name}`)).body as Csr;
const issued = (name: string): Promise<X509Certificate> =>
  eventually(async () => new X509Certificate(Buffer.from((await csr(name)).status.certificate ?? '', 'base64')));

const linesOf = (name: string): readonly Line[] => running.lines.filter(({ fields }) => fields['csr'] === name);
const reasonOf = (name: string): Promise<unknown> =>
  eventually(() => {
    const [first] = linesOf(name);
    expect(first, name).toBeDefined();
    return first?.fields['reason'] ?? first?.event;
  });

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'approver-serving-'));
  controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
  });
  const crds = await readFile(new URL('../support/cluster/machine-crds.yaml', import.meta.url), 'utf8');
  for (const crd of (parseYaml(crds) as { items: readonly unknown[] }).items) {
    await admin('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd);
  }
  const [nodesFile, caFile] = [join(root, 'addresses.yaml'), controlPlane.pki.clusterCa.cert];
  await writeFile(nodesFile, 'filed: [192.0.2.21, filed.example.com]\n');
  sources = [
    { kind: 'nodes', nodes: { listed: ['192.0.2.11', '2001:db8::11', 'listed.example.com'], rival: ['192.0.2.12'] } },
    { kind: 'file', file: nodesFile },
    { kind: 'machines', api: 'clusterAPI' },
    { kind: 'machines', api: 'openshift' },
    { kind: 'served', caFile },
    { kind: 'cidrs', cidrs: ['198.51.100.0/24'] },
  ];
  await installApprover(controlPlane, { approver: { signers: ['kubelet-serving'], addresses: sources } });
  token = await accountToken(controlPlane, 'approver');
  kubeconfig = await writeKubeconfig(join(root, 'kubeconfig'), {
    server: controlPlane.url,
    certificateAuthority: controlPlane.recoveryCa,
    tlsServerName: 'localhost-recovery',
    token,
  });
  for (const name of ['listed', 'rival', 'filed', 'stranger', 'twice', 'late', 'later']) await register(name);
  await register('fleet', ['192.0.2.31']);
  await register('shift');
  await register('ranged', ['198.51.100.7', '203.0.113.7']);
  await register('thief', ['198.51.100.7', '192.0.2.11', '198.51.100.8', '192.0.2.31']);
  await eventually(() => machine('clusterAPI', 'fleet-a', 'fleet', ['192.0.2.31', 'FLEET.example.com.']));
  await eventually(() => machine('openshift', 'shift-a', 'shift', ['192.0.2.41', 'shift.internal']));
  for (const name of ['twice-a', 'twice-b']) await machine('clusterAPI', name, 'twice', ['192.0.2.51']);
  [healthPort] = (await freePorts(1)) as [number];
  const config = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [approver]
approver:
  kubeconfig: ${kubeconfig}
  signers: [kubelet-serving]
  addresses:
    - nodes: { listed: [192.0.2.11, "2001:db8::11", listed.example.com], rival: [192.0.2.12] }
    - file: ${nodesFile}
    - machines: clusterAPI
    - machines: openshift
    - served: { caFile: ${caFile} }
    - cidrs: [198.51.100.0/24]
healthProbeBindAddress: 127.0.0.1:${healthPort}
`;
  await writeFile(join(root, 'config.yaml'), config);
  running = new Tool([`--config=${join(root, 'config.yaml')}`]);
});
afterAll(async () => {
  await running?.stop();
  for (const server of servers) server.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

describe('--mode=approver --signers=kubelet-serving', () => {
  it.each<[string, Sent, string]>([
    [
      'the configuration',
      { name: 'good-listed', as: 'listed', san: 'DNS:listed,DNS:Listed.example.com.,IP:192.0.2.11,IP:2001:db8::11' },
      'nodes',
    ],
    [
      'a file',
      {
        name: 'good-filed',
        as: 'filed',
        san: 'DNS:filed.example.com,IP:192.0.2.21',
        key: 'rsa2048',
        usages: [...usages, 'key encipherment'],
      },
      'file',
    ],
    [
      'a Machine of Cluster API',
      { name: 'good-fleet', as: 'fleet', san: 'DNS:fleet.example.com,IP:192.0.2.31' },
      'machines',
    ],
    [
      'a Machine of OpenShift',
      { name: 'good-shift', as: 'shift', san: 'DNS:shift.internal,IP:192.0.2.41' },
      'machines',
    ],
  ])('approves the names of a node that are known by %s; kcm signs them', async (_source, sent, kind) => {
    expect(await send(sent)).toBe(201);
    const certificate = await issued(sent.name);
    expect(certificate.subject).toBe(`O=system:nodes\nCN=system:node:${sent.as}`);
    expect((await csr(sent.name)).status.conditions?.[0]?.message).toContain(`(${kind})`);
  });

  it("approves an address of a range that is the node's alone by the status of all Nodes", async () => {
    // The thief says that the address is its own as well; without it the node has it alone.
    const request = { as: 'ranged', san: 'DNS:ranged,IP:198.51.100.7' };
    expect(await send({ ...request, name: 'ranged-1' })).toBe(201);
    expect(await reasonOf('ranged-1')).toBe('AddressOfOtherNode');
    const addresses = ['192.0.2.11', '198.51.100.8', '192.0.2.31'].map((address) => ({ type: 'InternalIP', address }));
    await admin('PATCH', '/api/v1/nodes/thief/status', { status: { addresses } });
    expect(await send({ ...request, name: 'ranged-2' })).toBe(201);
    expect((await issued('ranged-2')).subjectAltName).toBe('DNS:ranged, IP Address:198.51.100.7');
  });

  it('approves the names of the certificate that the kubelet serves now, and of no other', async () => {
    const pki = controlPlane.pki.clusterCa;
    const foreign = await createAuthority(join(root, 'foreign'), { commonName: 'test-cluster-ca' });
    const named = (name: string, host: string): LeafOptions => ({
      commonName: `system:node:${name}`,
      organization: 'system:nodes',
      dnsNames: [`${name}.internal`],
      ipAddresses: [host],
      usages: ['serverAuth'],
    });
    const past = { notBefore: new Date(Date.now() - 2 * hour), notAfter: new Date(Date.now() - hour) };
    const rows: readonly [string, (name: string, host: string) => LeafOptions, Pair, string][] = [
      ['valid', named, pki, 'csr.approved'],
      ['expired', (name, host) => ({ ...named(name, host), ...past }), pki, 'NodeNotInSources'],
      ['unknown-ca', named, foreign, 'NodeNotInSources'],
      ['of-other', (_name, host) => named('listed', host), pki, 'NodeNotInSources'],
      ['of-client', (name, host) => ({ ...named(name, host), usages: ['clientAuth'] }), pki, 'NodeNotInSources'],
      ['elsewhere', (name) => named(name, '127.0.0.1'), pki, 'NodeNotInSources'],
      ['no-group', (name, host) => ({ ...named(name, host), organization: 'x' }), pki, 'NodeNotInSources'],
      ['fewer-names', (name, host) => ({ ...named(name, host), dnsNames: [] }), pki, 'AddressNotOfNode'],
    ];
    // No node is given a loopback address, so kubelets are asked at one that this machine has to others, one after the other.
    const host = machineAddress();
    for (const [what, options, signer, outcome] of rows) {
      const name = `served-${what}`;
      await register(name, [host], await kubelet(host, await leaf(name, options(name, host), signer)));
      expect(await send({ name, as: name, san: `DNS:${name}.internal,IP:${host}` })).toBe(201);
      expect(await reasonOf(name), name).toBe(outcome);
      await admin('DELETE', `/api/v1/nodes/${name}`, undefined);
    }
    expect((await issued('served-valid')).subjectAltName).toBe(`DNS:served-valid.internal, IP Address:${host}`);
    await register('served-nobody', [host], 1);
    expect(await send({ name: 'served-nobody', as: 'served-nobody', san: `IP:${host}` })).toBe(201);
    expect(await reasonOf('served-nobody')).toBe('NodeNotInSources');
  });

  it('leaves what hostile requesters ask for, each by its rule', async () => {
    await admin('POST', '/api/v1/namespaces', { metadata: { name: 'shop' } });
    await admin('POST', '/api/v1/namespaces/shop/services', {
      metadata: { name: 'web' },
      spec: { ports: [{ port: 443 }] },
    });
    await register('web.shop', ['198.51.100.42']);
    await controlPlane.kubectl(
      'create',
      'clusterrolebinding',
      'askers',
      '--clusterrole=system:node-bootstrapper',
      '--group=askers',
    );
    const asker = (user: string, ...more: readonly string[]) => ({
      'impersonate-user': user,
      'impersonate-group': ['askers', ...more].at(-1) ?? '',
    });
    const own = 'DNS:listed,IP:192.0.2.11';
    const listed = { as: 'listed', san: own };
    const subject = (...attributes: readonly string[]): Promise<string> =>
      createRequest({ subject: attributes, extensions: [`subjectAltName = ${own}`] });
    const pem = await kubeletRequest('listed', { extensions: [`subjectAltName = ${own}`] });
    const other = await kubeletRequest('listed', { extensions: [`subjectAltName = ${own}`] });
    const rows: readonly [string, Omit<Sent, 'name'>][] = [
      ['RequesterUnsuitable', { ...listed, headers: asker('system:node:listed') }],
      ['RequesterUnsuitable', { ...listed, headers: asker('listed') }],
      ['RequesterUnsuitable', { ...listed, headers: asker('system:serviceaccount:default:system:node:listed') }],
      ['RequesterUnsuitable', { ...listed, headers: asker('system:bootstrap:abcdef') }],
      ['RequesterUnsuitable', { ...listed, headers: asker('system:node:') }],
      [
        'RequesterUnsuitable',
        { ...listed, headers: { 'impersonate-user': 'admin', 'impersonate-group': 'system:masters' } },
      ],
      ['SubjectUnsuitable', { as: 'rival', pem }],
      [
        'SubjectUnsuitable',
        { as: 'listed', pem: await subject('O=system:nodes', 'O=system:masters', 'CN=system:node:listed') },
      ],
      ['SubjectUnsuitable', { as: 'listed', pem: await subject('O=system:masters', 'CN=system:node:listed') }],
      ['SubjectUnsuitable', { as: 'listed', pem: await subject('CN=system:node:listed') }],
      ['SubjectUnsuitable', { as: 'listed', pem: await subject('O=system:nodes', 'CN=kubernetes') }],
      ['SubjectUnsuitable', { as: 'listed', pem: await subject('O=system:nodes', 'OU=x', 'CN=system:node:listed') }],
      ['NamesMissing', { as: 'listed' }],
      ['NamesForbidden', { as: 'listed', san: `${own},email:root@example.com` }],
      ['NamesForbidden', { as: 'listed', san: `${own},URI:spiffe://cluster.local/ns/kube-system` }],
      ['NamesForbidden', { as: 'listed', san: `${own},DNS:*.example.com` }],
      ['NamesForbidden', { as: 'listed', san: `${own},DNS:192.0.2.12` }],
      ['NamesForbidden', { as: 'listed', san: `${own},otherName:1.2.3;UTF8:x` }],
      ['NameOfCluster', { as: 'listed', san: `${own},DNS:kubernetes.default.svc` }],
      ['NameOfCluster', { as: 'listed', san: `${own},IP:10.0.0.1` }],
      ['NameOfCluster', { as: 'listed', san: `${own},IP:127.0.0.1` }],
      ['NameOfCluster', { as: 'kubernetes.default.svc', san: 'DNS:kubernetes.default.svc' }],
      ['NameOfCluster', { as: 'kubernetes.default', san: 'IP:198.51.100.40' }],
      ['NameOfCluster', { as: 'x.cluster.local', san: 'DNS:x.cluster.local,IP:198.51.100.41' }],
      ['NameOfCluster', { as: 'web.shop', san: 'DNS:web.shop,IP:198.51.100.42' }],
      ['NameOfCluster', { as: 'listed', san: `${own},DNS:localhost-recovery` }],
      ['NameOfCluster', { as: 'listed', san: `${own},IP:10.0.0.200` }],
      ['AddressNotOfNode', { as: 'fleet', san: 'DNS:fleet,IP:192.0.2.31' }],
      ['AddressNotOfNode', { as: 'listed', san: `${own},DNS:a.rival.example.com` }],
      ['AddressNotOfNode', { as: 'fleet', san: 'IP:192.0.2.31,IP:203.0.113.31' }],
      ['AddressOfOtherNode', { as: 'listed', san: `${own},IP:192.0.2.12` }],
      ['AddressOfOtherNode', { as: 'rival', san: 'IP:192.0.2.12,DNS:LISTED.example.com.' }],
      ['AddressOfOtherNode', { as: 'rival', san: 'IP:::ffff:192.0.2.11' }],
      ['AddressOfOtherNode', { as: 'rival', san: 'DNS:filed.example.com' }],
      ['AddressOfOtherNode', { as: 'rival', san: 'IP:192.0.2.31' }],
      ['AddressOfOtherNode', { as: 'shift', san: 'DNS:fleet.example.com' }],
      // In its own status it has these addresses, and some are in the ranges.
      ['AddressOfOtherNode', { as: 'thief', san: 'IP:192.0.2.11' }],
      ['AddressOfOtherNode', { as: 'thief', san: 'IP:192.0.2.31' }],
      ['AddressOfOtherNode', { as: 'thief', san: 'IP:198.51.100.7' }],
      ['AddressNotOfNode', { as: 'thief', san: 'IP:198.51.100.8,DNS:api.example.com' }],
      ['AddressNotOfNode', { as: 'ranged', san: 'IP:203.0.113.7' }],
      ['NodeNotInSources', { as: 'stranger', san: 'DNS:stranger' }],
      ['NodeUnknown', { as: 'ghost', san: 'DNS:ghost' }],
      ['NodeAmbiguous', { as: 'twice', san: 'IP:192.0.2.51' }],
      ['ExtensionForbidden', { ...listed, extensions: ['basicConstraints = critical,CA:TRUE'] }],
      ['ExtensionForbidden', { ...listed, extensions: ['extendedKeyUsage = clientAuth'] }],
      ['ExtensionForbidden', { ...listed, extensions: ['keyUsage = keyCertSign'] }],
      ['ExtensionForbidden', { ...listed, challengePassword: 'password' }],
      ['UsagesUnsuitable', { ...listed, usages: [...usages, 'client auth'] }],
      ['UsagesUnsuitable', { ...listed, usages: ['digital signature', 'client auth'] }],
      ['UsagesUnsuitable', { ...listed, usages: ['server auth'] }],
      ['UsagesUnsuitable', { ...listed, usages: [...usages, 'key encipherment', 'cert sign'] }],
      ['LifetimeUnsuitable', { ...listed, expirationSeconds: 315_360_000 }],
      ['KeyTooWeak', { ...listed, key: 'rsa1024' }],
    ];
    const sent = new Map<string, string>();
    for (const [at, [reason, request]] of rows.entries()) {
      const name = `hostile-${at}-${reason.toLowerCase()}`;
      expect(await send({ name, ...request }), name).toBe(201);
      sent.set(name, reason);
    }
    expect(sent.size).toBeGreaterThan(40);
    // Of a request that is not signed by its own key the API server makes no object.
    expect(await send({ name: 'unsigned', as: 'listed', pem: withSignatureOf(other, pem) })).toBe(422);
    for (const [name, reason] of sent) {
      expect(await reasonOf(name), name).toBe(reason);
      expect((await csr(name)).status, name).toEqual({});
    }
  });

  it('counts what it has approved and what it has left by signer', async () => {
    const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
    expect(text).toContain('kube_cert_recovery_requests_pending{signer="kubelet-serving",reason="NodeAmbiguous"} 1');
    expect(text).toMatch(/kube_cert_recovery_request_seconds_count\{signer="kubelet-serving"\} [1-9]/);
    expect((await fetch(`http://127.0.0.1:${healthPort}/readyz`)).status).toBe(200);
  });

  it('says nothing of keys, and is refused nothing that it asks for', async () => {
    expect(await running.stop()).toBe(0);
    const text = JSON.stringify(running.lines);
    for (const secret of [token, 'PRIVATE KEY', 'BEGIN CERTIFICATE']) expect(text).not.toContain(secret);
    expect(running.lines.filter(({ event }) => event === 'csr.failed' || event === 'watch.failed')).toEqual([]);
  });
});

describe('runApprover() looks again', () => {
  async function follow(options: Partial<ApproverOptions>, story: (reasons: readonly unknown[]) => Promise<void>) {
    const stop = new AbortController();
    const connection = await openConnection({ kubeconfigFile: kubeconfig, clock: systemClock, userAgent: 'test' });
    const reasons: unknown[] = [];
    const log = createLog({ write: (line) => reasons.push((JSON.parse(line) as { reason?: string }).reason) });
    const ended = runApprover({
      connection,
      nodeName: 'listed',
      nodeCertificate: '/',
      longestLifeMs: hour,
      expectedNodes: [],
      namespace,
      requesters: [],
      clockFacts: () => Promise.resolve({ builtAt: new Date(0), synchronised: true }),
      bootedAt: () => undefined,
      once: false,
      dryRun: false,
      recheckMs: hour,
      clock: systemClock,
      signers: ['kubelet-serving'],
      addresses: sources,
      signal: stop.signal,
      log,
      ...options,
    });
    try {
      await story(reasons);
    } finally {
      stop.abort();
      await ended;
      await connection.close();
    }
  }

  it('at once when a Machine gets its node, in whatever form it has the address, and when one of two is being deleted', async () => {
    await follow({}, async (reasons) => {
      expect(await send({ name: 'late-1', as: 'late', san: 'IP:192.0.2.61,IP:fd00:1101::4' })).toBe(201);
      await eventually(() => expect(reasons).toContain('NodeNotInSources'));
      await eventually(() => expect(reasons).toContain('NodeAmbiguous'));
      await machine('clusterAPI', 'late-a', 'late', ['192.0.2.61', '[fd00:1101:0:0::4]']);
      await issued('late-1');
      const waiting = (await controlPlane.admin(collection)).body as { items: { metadata: { name: string } }[] };
      const name =
        waiting.items.map(({ metadata }) => metadata.name).find((one) => one.includes('nodeambiguous')) ?? '';
      const path = `${machineApis.clusterAPI}/twice-b`;
      const finalizers = (held: readonly string[]): Promise<void> =>
        admin('PATCH', path, { metadata: { finalizers: held } });
      // Its infrastructure is taken down before it is gone, which may take as long as that does.
      await finalizers(['example.org/infrastructure']);
      await admin('DELETE', path, undefined);
      await issued(name);
      await finalizers([]);
    });
  });

  it('when a file has changed; a broken file keeps everything waiting, and says so', async () => {
    const file = join(root, 'changing.yaml');
    await writeFile(file, 'other: [192.0.2.71]\n');
    const failures: unknown[] = [];
    const log = createLog({ write: (line) => failures.push(JSON.parse(line)) });
    await follow({ addresses: [{ kind: 'file', file }], recheckMs: 100, log }, async () => {
      expect(await send({ name: 'later-1', as: 'later', san: 'IP:192.0.2.72' })).toBe(201);
      const reason = expect.objectContaining({ csr: 'later-1', reason: 'NodeNotInSources' }) as unknown;
      await eventually(() => expect(failures).toContainEqual(reason));
      await writeFile(file, 'later: 192.0.2.72\n');
      const err = `Cannot use "${file}" of approver.addresses[0] (file): later must be a list`;
      const broken = expect.objectContaining({
        event: 'csr.failed',
        err: expect.stringContaining(err) as unknown,
      }) as unknown;
      await eventually(() => expect(failures).toContainEqual(broken));
      expect((await csr('later-1')).status).toEqual({});
      await writeFile(file, 'later: [192.0.2.72]\n');
      await issued('later-1');
    });
  });
});
