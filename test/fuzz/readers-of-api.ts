// Readers of the API server's answers: objects that others write, answers, lists and events. Each is read as the modes read it,
// from the bytes of the answer on; a connection here is no server, it hands over one body.
import { NodeRanges } from '../../lib/approver/address-sources.ts';
import type { SourceOptions } from '../../lib/approver/addresses.ts';
import { Machines } from '../../lib/approver/machines.ts';
import { parseFirstApproval } from '../../lib/approver/first-approvals.ts';
import { parseRecorded, withIssued } from '../../lib/approver/issued-certificates.ts';
import { signsOfLife } from '../../lib/approver/node-facts.ts';
import { judgeShown } from '../../lib/approver/possession.ts';
import { RecordObject, recordedEntry } from '../../lib/approver/record-object.ts';
import { runApprover } from '../../lib/approver/run.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import { bootstrapRequester, expiredCertificateAnnotation, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { ApiLocation } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { parseAnswer } from '../../lib/kube/answer.ts';
import { statusError } from '../../lib/kube/api-error.ts';
import { type ClusterInfo, clusterInfoPath, publishedAuthority } from '../../lib/kube/cluster-info.ts';
import type { KubeConnection, WatchEvent } from '../../lib/kube/kube.ts';
import type { Lease } from '../../lib/kube/leases.ts';
import type { NodeObject } from '../../lib/kube/received.ts';
import { listWatch } from '../../lib/kube/list-watch.ts';
import { list } from '../../lib/kube/list.ts';
import { createLog } from '../../lib/log.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { parseCertificateRequest } from '../../lib/pki/csr.ts';
import { understand } from '../../lib/plan/understand.ts';
import { judgeLease } from '../../lib/regen/judge-lease.ts';
import { kubeletSigners } from '../../lib/well-known.ts';
import { foundIn } from '../../lib/store/api-store.ts';
import { objectEntries } from '../../lib/store/object-entries.ts';
import { factsOf } from '../../lib/syncer/material.ts';
import { syncedObjects } from '../../lib/syncer/synced-objects.ts';
import { judgeOffer } from '../../lib/plan/judge-authority.ts';
import type { FuzzedReader } from './fuzz.ts';
import {
  authorityPem,
  base64,
  clientPem,
  clientRequestPem,
  kubeconfigYaml,
  leafKeyPem,
  oddRequestPem,
  servingPem,
  servingRequestPem,
} from './seeds.ts';

const mib = 1 << 20;
/** Size of one object: etcd takes 1.5 MiB of a request. */
const largestObject = 1.5 * mib;
/** Size that judgeSize lets through. */
const largestRequest = 65_536;
const now = new Date('2026-06-01T00:00:00Z');
const { signal } = new AbortController();
const csrs = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const requester = bootstrapRequester('kube-cert-recovery');
const authorities = parseCertificates(Buffer.from(authorityPem), 'seed');
const shownContent = parseCertificateRequest(Buffer.from(clientRequestPem), 'seed');
const log = createLog({ format: 'text', write: () => undefined });

const json = (value: unknown): string => JSON.stringify(value);
const meta = (name: string, more: object = {}) => ({
  name,
  uid: 'u-1',
  resourceVersion: '7',
  creationTimestamp: '2026-05-31T00:00:00Z',
  ...more,
});

/** As connection.ts hands it over. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as that of KubeConnection.request
function answered<T>(path: string, body: Buffer): T {
  const attempt = { verb: 'get', object: 'it', server: 'https://127.0.0.1:6443' };
  return parseAnswer({ method: 'GET', path, signal }, attempt, body.toString('utf8')) as T;
}

function connectionWith(
  answer: (path: string) => unknown,
  events: () => Iterable<WatchEvent> = () => [],
): KubeConnection {
  return {
    server: 'https://127.0.0.1:6443',
    files: [],
    request: <T>({ path }: { readonly path: string }) => Promise.resolve(answer(path) as T),
    // oxlint-disable-next-line require-await
    async *watch() {
      yield* events();
    },
    turn: () => Promise.resolve(() => undefined),
    reload: () => Promise.resolve('unchanged'),
    close: () => Promise.resolve(),
  };
}

const csr = (pem: string, spec: object, annotations = {}, status = {}): string =>
  json({
    kind: 'CertificateSigningRequest',
    metadata: meta('csr-1', { annotations }),
    spec: { request: base64(pem), expirationSeconds: null, ...spec },
    status,
  });
const asClient = {
  signerName: kubeletClientSigner,
  usages: ['digital signature', 'client auth'],
  username: requester.username,
  groups: requester.groups,
};
const asServer = {
  signerName: kubeletSigners['kubelet-serving'],
  usages: ['digital signature', 'server auth'],
  username: 'system:node:panda',
  groups: ['system:nodes', 'system:authenticated'],
};
const approval = { type: 'Approved', status: 'True', lastUpdateTime: '2026-05-31T00:00:00Z' };

/** One look of the approver, at a cluster that has this request, its node and a record of it. */
async function readRequest(body: Buffer): Promise<unknown> {
  const stop = new AbortController();
  const lines: string[] = [];
  const connection = connectionWith((path) => {
    if (path.includes('certificatesigningrequests'))
      return { metadata: { resourceVersion: '1' }, items: [answered(`${csrs}/csr-1`, body)] };
    if (path.endsWith('/nodes/panda')) return node;
    if (path.includes('/nodes')) return { metadata: { resourceVersion: '1' }, items: [node] };
    if (path.includes('/leases/')) return lease;
    throw new RecoveryError('KubeNotFound', `Cannot get ${path}`);
  });
  const report = await runApprover({
    connection,
    requesters: [requester],
    signers: ['kubelet-client', 'kubelet-serving'],
    addresses: [{ kind: 'cidrs', cidrs: ['192.0.2.0/24'] }],
    nodeName: 'tiger',
    nodeCertificate: '/nowhere',
    expectedNodes: ['panda'],
    namespace: 'kube-cert-recovery',
    longestLifeMs: 365 * 86_400_000,
    clockFacts: () => Promise.resolve({ builtAt: now, synchronised: true }),
    bootedAt: () => now,
    once: true,
    dryRun: true,
    recheckMs: 30_000,
    clock: { ...systemClock, sleep: () => Promise.resolve(stop.abort()) },
    log: createLog({ format: 'text', write: (line) => lines.push(line) }),
    signal: stop.signal,
  });
  return [report, lines];
}

function readAnnotation(body: Buffer): unknown {
  const shown = (JSON.parse(body.toString('utf8')) as Record<string, unknown> | null)?.[expiredCertificateAnnotation];
  // The API server keeps other values than text out.
  return judgeShown({ shown: typeof shown === 'string' ? shown : undefined, content: shownContent, authorities, now });
}

const inventory = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });
const synced = syncedObjects(inventory, '/certs');

/** As regen and the syncer read each of its entries in a Secret or ConfigMap of this kind. */
const readObject =
  (kind: ApiLocation['kind']) =>
  (body: Buffer): unknown => {
    const name = kind === 'secret' ? 'a' : 'b';
    const object = answered<object>(
      `/api/v1/namespaces/n/${kind === 'secret' ? 'secrets' : 'configmaps'}/${name}`,
      body,
    );
    const kinds = new Set<string>();
    return inventory.artefacts.flatMap((artefact) => {
      const { location } = artefact;
      if (location.kind !== kind || kinds.has(artefact.kind)) return [];
      kinds.add(artefact.kind);
      const found = foundIn(location, object);
      const sync = synced.find((one) => one.name === artefact.name);
      const { facts } = understand(artefact, found);
      return [facts, sync && factsOf(sync, objectEntries(kind, object).entries)];
    });
  };

function readClusterInfo(body: Buffer): unknown {
  const offered = publishedAuthority(answered<ClusterInfo>(clusterInfoPath, body));
  return 'problem' in offered ? offered.problem : judgeOffer(offered, authorities, now);
}

const sourceOptions = (connection: KubeConnection): SourceOptions => ({ connection, clock: systemClock, log, signal });
const question = { node: 'panda', object: {}, asked: [{ kind: 'IP', value: '192.0.2.11' }] } as const;

const leaseOf = (body: Buffer): Lease =>
  answered<Lease>('/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/panda', body);

const bodies = (body: Buffer): readonly unknown[] => {
  const lines = body.toString('utf8').split('\n');
  return lines.map((line) => JSON.parse(line) as unknown);
};

/** Until the events have come: then it would list again. */
async function readEvents(body: Buffer): Promise<unknown> {
  const stop = new AbortController();
  const taken: unknown[] = [];
  const lines = body.toString('utf8').split('\n');
  const connection = connectionWith(
    () => ({ kind: 'CertificateSigningRequestList', metadata: { resourceVersion: '1' }, items: [] }),
    function* () {
      for (const line of lines) yield JSON.parse(line) as WatchEvent;
      stop.abort();
    },
  );
  await listWatch<SigningRequest, object>({
    connection,
    path: csrs,
    pages: { size: 10, keep: (request) => request },
    clock: { ...systemClock, sleep: () => Promise.resolve() },
    log,
    signal: stop.signal,
    onList: () => undefined,
    onEvent: (type) => void taken.push(type),
    onStatus: ({ phase, message }) => {
      if (phase !== 'waiting') return;
      taken.push(message);
      stop.abort();
    },
  });
  return taken;
}

async function readPages(body: Buffer): Promise<unknown> {
  const path = csrs;
  let pages = 0;
  const connection = connectionWith(() => {
    pages += 1;
    if (pages > 3) return { metadata: { resourceVersion: '1' }, items: [] };
    return answered(path, body);
  });
  return list<SigningRequest, object>({
    connection,
    path,
    pages: { size: 10, keep: (request) => request },
    signal,
  });
}

const records = {
  kind: 'ConfigMap',
  metadata: meta('b', { namespace: 'n' }),
  data: { panda: `2026-02-01T00:00:00.000Z ${'a'.repeat(64)}`, tiger: 'x' },
};

async function readRecords(body: Buffer): Promise<unknown> {
  const connection = connectionWith(() => answered('/api/v1/namespaces/n/configmaps/b', body));
  const entries = await new RecordObject('b', 'it', { connection, namespace: 'n', signal }).read();
  const recorded = recordedEntry(entries, 'panda') ?? '';
  const issued = [{ node: 'panda', notBefore: now, notAfter: now, key: 'b'.repeat(64) }];
  return [parseRecorded(recorded), parseFirstApproval(recorded), withIssued(entries, issued)];
}

const node = {
  kind: 'Node',
  metadata: meta('panda', { labels: { 'kubernetes.io/hostname': 'panda' } }),
  status: {
    addresses: [
      { type: 'InternalIP', address: '192.0.2.11' },
      { type: 'Hostname', address: 'panda' },
    ],
    conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: '2026-05-31T00:00:00Z' }],
    daemonEndpoints: { kubeletEndpoint: { Port: 10_250 } },
  },
};
const machine = {
  metadata: meta('m-1', { namespace: 'n' }),
  status: {
    nodeRef: { name: 'panda' },
    addresses: [
      { type: 'InternalIP', address: '192.0.2.11' },
      { type: 'InternalDNS', address: 'panda' },
    ],
  },
};
const lease = {
  kind: 'Lease',
  metadata: meta('panda', { namespace: 'kube-node-lease' }),
  spec: {
    holderIdentity: 'panda_1',
    leaseDurationSeconds: 40,
    renewTime: '2026-05-31T00:00:00.000000Z',
    acquireTime: null,
  },
};
const request = JSON.parse(csr(clientRequestPem, asClient)) as object;

const readNode = (body: Buffer): unknown => {
  const object = answered<NodeObject>('/api/v1/nodes/panda', body);
  return [signsOfLife(object, undefined)];
};

export const readersOfApi: readonly FuzzedReader[] = [
  {
    name: 'request',
    form: 'json',
    seeds: [
      csr(clientRequestPem, asClient),
      csr(clientRequestPem, asClient, { [expiredCertificateAnnotation]: clientPem }),
      csr(servingRequestPem, asServer),
      csr(oddRequestPem, asClient, {}, { conditions: [approval], certificate: base64(clientPem) }),
    ],
    largest: largestObject,
    read: readRequest,
  },
  {
    name: 'request, PEM',
    form: 'pem',
    seeds: [clientRequestPem, servingRequestPem, oddRequestPem],
    largest: largestRequest,
    read: (pem) => parseCertificateRequest(pem, 'it'),
  },
  {
    name: 'annotation of possession',
    form: 'json',
    seeds: [json({ [expiredCertificateAnnotation]: clientPem })],
    largest: largestRequest,
    read: readAnnotation,
  },
  {
    name: 'Secret',
    form: 'json',
    seeds: [
      json({
        kind: 'Secret',
        metadata: meta('a', { namespace: 'n', annotations: { x: 'y' } }),
        type: 'kubernetes.io/tls',
        data: { 'tls.crt': base64(servingPem), 'tls.key': base64(leafKeyPem), 'ca.crt': base64(authorityPem) },
      }),
    ],
    largest: largestObject,
    read: readObject('secret'),
  },
  {
    name: 'ConfigMap',
    form: 'json',
    seeds: [
      json({
        kind: 'ConfigMap',
        metadata: meta('b', { namespace: 'n' }),
        data: { 'ca-bundle.crt': authorityPem + clientPem },
        binaryData: { x: base64(authorityPem) },
      }),
    ],
    largest: largestObject,
    read: readObject('configMap'),
  },
  {
    name: 'cluster-info',
    form: 'json',
    seeds: [
      json({
        kind: 'ConfigMap',
        metadata: meta('cluster-info', { namespace: 'kube-public' }),
        data: { kubeconfig: kubeconfigYaml, 'jws-kubeconfig-abcdef': 'x..y' },
      }),
    ],
    largest: mib,
    read: readClusterInfo,
  },
  { name: 'Node', form: 'json', seeds: [json(node)], largest: largestObject, read: readNode },
  {
    name: 'Nodes',
    form: 'json',
    seeds: [
      json({
        kind: 'NodeList',
        metadata: { resourceVersion: '1' },
        items: [node, { ...node, metadata: meta('tiger') }],
      }),
    ],
    largest: largestObject,
    read: (body) =>
      new NodeRanges(
        'it',
        { kind: 'cidrs', cidrs: ['192.0.2.0/24'] },
        sourceOptions(connectionWith(() => answered('/api/v1/nodes', body))),
      ).answer(question),
  },
  {
    name: 'Machines',
    form: 'json',
    seeds: [json({ kind: 'MachineList', metadata: { resourceVersion: '1' }, items: [machine, machine] })],
    largest: largestObject,
    read: (body) =>
      new Machines(
        'it',
        { kind: 'machines', api: 'clusterAPI' },
        sourceOptions(
          connectionWith((path) =>
            path.endsWith('/machines') || path.includes('machines?')
              ? answered('/apis/cluster.x-k8s.io/v1beta1/machines', body)
              : { versions: [] },
          ),
        ),
      ).answer(question),
  },
  {
    name: 'Lease',
    form: 'json',
    seeds: [json(lease)],
    largest: largestObject,
    read: (body) => {
      const found = leaseOf(body);
      const boot = { bootedAt: now, clockStepped: false };
      return [signsOfLife(undefined, found), judgeLease({ lease: found, hostName: 'panda', now, ...boot })];
    },
  },
  {
    name: 'answer',
    form: 'json',
    seeds: [
      json(node),
      json({
        kind: 'Status',
        status: 'Failure',
        message: 'admission webhook "a.b" denied the request: x',
        reason: 'Forbidden',
        code: 403,
        details: { name: 'x', causes: [{ reason: 'FieldValueInvalid', field: 'spec.x', message: 'y' }] },
      }),
    ],
    largest: 2 * mib,
    read: (body) => {
      const attempt = { verb: 'get', object: 'it', server: 'https://x' };
      const refused = [403, 422].map((status) => statusError(attempt, status, body.toString('utf8'), '5'));
      return [refused.map(({ message }) => message), answered('/api/v1/nodes/panda', body)];
    },
  },
  {
    name: 'list pages',
    form: 'json',
    seeds: [
      json({
        kind: 'CertificateSigningRequestList',
        metadata: { resourceVersion: '1', continue: 'x' },
        items: [request, request],
      }),
    ],
    largest: largestObject,
    read: readPages,
  },
  {
    name: 'watch events',
    form: 'json',
    seeds: [
      json({ type: 'ADDED', object: request }),
      json({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' } }),
      json({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '9' } } }),
    ],
    largest: largestObject,
    read: (body) => {
      // Other texts than JSON never leave exchange.ts.
      try {
        bodies(body);
      } catch {
        return undefined;
      }
      return readEvents(body);
    },
  },
  { name: 'record', form: 'json', seeds: [json(records)], largest: largestObject, read: readRecords },
];
