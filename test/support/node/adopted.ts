// A machine whose static pods follow objects in the API: how it becomes one, and what it looks like then.
import { X509Certificate } from 'node:crypto';
import { readdir, readFile, readlink, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Parameters, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { isFile } from '../../../lib/inventory/places.ts';
import { loadPreset, presetText } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { parseYaml } from '../../../lib/yaml.ts';
import { blocks, page } from '../../docs/markdown.ts';
import { eventually } from '../eventually.ts';
import { expire } from '../cluster/expire.ts';
import { withStore } from './cluster-store.ts';
import type { Cluster } from './cluster.ts';
import { programPath } from './container.ts';
import { kubeletClient, past, reissue } from './leaves.ts';
import type { Node } from './node.ts';
import { programReference } from './program-image.ts';
import { standStill } from './stand-still.ts';
import { ownLog } from './steps.ts';

export const recoveryDirectory = '/etc/kubernetes/kube-cert-recovery';

const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration', log: { level: 'debug' } };

/** What is to expire must not be renewed before; then it gets no more than this grace. Logs tell the steps. */
const recovering = {
  ...head,
  preset: 'kubernetes',
  policy: { kind: 'OnlyWhenExpired', grace: '2s' },
  approver: { requesters: ['kube-cert-recovery', 'openshift'] },
};

/** The preset, with its own policy, and leaves in the API that live so long: all but what recovery stands on. */
export function renewing(life: { readonly validity: string; readonly refresh: string }): object {
  const {
    apiVersion: _,
    kind: _kind,
    ...preset
  } = parseYaml(presetText('kubernetes')) as {
    readonly apiVersion: string;
    readonly kind: string;
    readonly artefacts: readonly {
      readonly kind: string;
      readonly location: { readonly secret?: string };
      readonly renewAhead?: boolean;
    }[];
  };
  const artefacts = preset.artefacts.map((row) =>
    row.kind === 'target' && row.location.secret !== undefined && row.renewAhead !== true ? { ...row, ...life } : row,
  );
  return { ...head, inventory: { ...preset, artefacts } };
}

const documented = blocks(page('docs/static-pods.md')).map(({ text }) => text.trim());

/** The one command of docs/static-pods.md that begins so, with the program and the image of these machines. */
function asDocumented(start: string): string {
  const [command, ...others] = documented.filter((text) => text.startsWith(`kube-cert-recovery ${start}`));
  if (command === undefined || others.length > 0) throw new Error(`The page has not one command "${start}"`);
  return command.replace(/^kube-cert-recovery/, programPath).replace(/--image=\S+/, `--image=${programReference}`);
}

const openshift = { namespace: 'openshift-machine-config-operator', name: 'node-bootstrapper' };
/** As the API server writes it into requests. */
export const openshiftBootstrapper = `system:serviceaccount:${openshift.namespace}:${openshift.name}`;

/**
 * Gives the kubelet the bootstrap kubeconfig of an OpenShift node (machine-config-operator, manifests/machineconfigserver):
 * the token of that ServiceAccount, with upstream's right to request. Resolves with what puts back what was there.
 */
export async function bootstrapAsOpenShift(cluster: Cluster): Promise<() => Promise<void>> {
  const { node } = cluster;
  const { namespace, name } = openshift;
  const post = async (path: string, body: object): Promise<void> => {
    const { status, body: said } = await cluster.api(path, { method: 'POST', body });
    if (status !== 201) throw new Error(`${path}: ${JSON.stringify(said)}`);
  };
  await post('/api/v1/namespaces', { metadata: { name: namespace } });
  await post(`/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  const annotations = { 'kubernetes.io/service-account.name': name };
  const secret = { metadata: { name: `${name}-token`, annotations }, type: 'kubernetes.io/service-account-token' };
  await post(`/api/v1/namespaces/${namespace}/secrets`, secret);
  await post('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: 'system-bootstrap-node-bootstrapper' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:node-bootstrapper' },
    subjects: [{ kind: 'ServiceAccount', ...openshift }],
  });
  const token = await eventually(async () => {
    const { body } = await cluster.api(`/api/v1/namespaces/${namespace}/secrets/${name}-token`);
    return Buffer.from((body as { data: { token: string } }).data.token, 'base64').toString();
  });
  const file = '/etc/kubernetes/bootstrap-kubelet.conf';
  const before = '/var/lib/machine/bootstrap-before';
  await node.sh(
    `cp -p ${file} ${before} && sed -i 's|token: .*|token: ${token}|' ${file} && grep -q 'token: ${token}' ${file}`,
  );
  return async () => void (await node.sh(`cp -p ${before} ${file}`));
}

/** What the page tells to type, with what it prints. */
export async function adopt(node: Node, ...more: readonly string[]): Promise<string> {
  return adoptWith(node, recovering, more);
}

/** The same with another configuration. */
export async function adoptWith(node: Node, configuration: object, more: readonly string[] = []): Promise<string> {
  const config = '/var/lib/machine/recovery.yaml';
  await node.sh(`cat > ${config} <<'END'\n${JSON.stringify(configuration)}\nEND`);
  const command = [asDocumented('init adopt'), `--config=${config}`, ...more].join(' ');
  return node.sh(`${command} 2>&1`, { seconds: 300 });
}

/** The way back that the page tells. */
export async function giveBack(node: Node): Promise<string> {
  return node.sh(`${asDocumented('uninstall adopt')} 2>&1`, { seconds: 300 });
}

/** Has our container in the pod of kube-apiserver start again with that configuration. */
export async function configure(cluster: Cluster, content: string): Promise<void> {
  const { node } = cluster;
  const pod = `kube-apiserver-${node.name}`;
  const own = async () => {
    const { body } = await cluster.api(`/api/v1/namespaces/kube-system/pods/${pod}`);
    const { containerStatuses = [] } = (body as { status: { containerStatuses?: readonly ContainerStatus[] } }).status;
    return containerStatuses.find(({ name }) => name === 'kube-cert-recovery');
  };
  const before = await own();
  await node.sh(`cat > ${recoveryDirectory}/kube-apiserver/config.yaml <<'END'\n${content}\nEND
    labels='labels."io.kubernetes.container.name"==kube-cert-recovery,labels."io.kubernetes.pod.name"==${pod}'
    for id in $(ctr -n k8s.io containers list "$labels" --quiet); do ctr -n k8s.io tasks kill "$id" || true; done`);
  await eventually(
    async () => {
      const now = await own();
      if (now?.ready !== true || now.containerID === before?.containerID)
        throw new Error(`Our container has not started again: ${JSON.stringify(now)}`);
    },
    { everyMs: 500 },
  );
}

interface ContainerStatus {
  readonly name: string;
  readonly ready: boolean;
  readonly containerID?: string;
}

/** Every leaf in the API but what recovery stands on. */
export const leavesInApi: readonly string[] = loadPreset('kubernetes').artefacts.flatMap((row) =>
  row.kind === 'target' && !isFile(row.location) && row.renewAhead !== true ? [row.name] : [],
);

/** The leaves of the API that one of our containers has made since then, as often as it made them. */
export async function renewedSince(node: Node, since: number): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const { event, artefact = '' } of await ownLog(node, since)) {
    if (event === 'target.regenerated') counts.set(artefact, (counts.get(artefact) ?? 0) + 1);
  }
  return counts;
}

/** etcd cannot be healed by an API that needs it: its certificates are to outlive the test. */
export async function renewEtcd(node: Node): Promise<void> {
  const lasting = '/var/lib/machine/kubeadm-year.yaml';
  await node.sh(`sed 's/"certificateValidityPeriod":"[^"]*"/"certificateValidityPeriod":"8760h"/' \\
    /var/lib/machine/kubeadm.yaml > ${lasting}`);
  for (const name of ['etcd-server', 'etcd-peer', 'etcd-healthcheck-client', 'apiserver-etcd-client']) {
    await node.sh(`kubeadm certs renew ${name} --config ${lasting} 2>&1`);
  }
}

interface Ending {
  readonly inMs: number;
  readonly except: (artefact: ResolvedArtefact) => boolean;
}

/**
 * Gives certificates in the API a new end: same keys, same signers. The containers that would act on it stand still
 * meanwhile, because a half-changed set looks broken. Resolves when the machine has them on disk.
 */
async function endSoon(cluster: Cluster, { inMs, except }: Ending): Promise<void> {
  const { parameters } = parseYaml(await cluster.node.read(`${recoveryDirectory}/kube-apiserver/config.yaml`)) as {
    parameters: Parameters;
  };
  const { artefacts, ...resolved } = resolve(loadPreset('kubernetes'), { parameters });
  const objects = { ...resolved, artefacts: artefacts.filter(({ location }) => !isFile(location)) };
  await withStore(cluster, async ({ store }) => {
    const paused = await Promise.all(cluster.nodes.map(async (node) => standStill(node, '^kube-cert-recovery$')));
    try {
      await expire({ resolved: objects, store, now: new Date(), agoMs: -inMs, lifeMs: inMs + 60_000, except });
    } finally {
      await Promise.all(paused.map((resume) => resume()));
    }
  });
}

/** What outlives everything else: recovery itself stands on it. */
const lasting = new Set([
  'localhost-recovery-serving-signer',
  'localhost-recovery-serving-ca',
  'localhost-recovery-serving',
]);

/** Leaves that every recovery of a machine must bring back: one of each pod. */
export const leavesOfPods = ['kube-apiserver-serving', 'kube-controller-manager-client', 'kube-scheduler-client'];

/** Every leaf in the API ends at the same moment, which is the answer; all machines have them on disk by then. */
export async function endLeaves(cluster: Cluster, { inMs }: { readonly inMs: number }): Promise<number> {
  return endAll(cluster, { inMs, except: ({ name, kind }) => lasting.has(name) || kind !== 'target' });
}

/** The same of every certificate, those of CAs too. */
export async function endWithAuthorities(cluster: Cluster, { inMs }: { readonly inMs: number }): Promise<number> {
  return endAll(cluster, { inMs, except: ({ name }) => lasting.has(name) });
}

/** How often a machine may be too slow for an end, which is twice as far away each time. */
const attemptsToEnd = 5;

async function endAll(cluster: Cluster, ending: Ending, attempt = 1): Promise<number> {
  const { inMs, except } = ending;
  const end = Date.now() + inMs;
  const isWritten = await endSoon(cluster, { inMs, except }).then(
    () => true,
    (err: unknown) => {
      // The certificate of the API server has ended while others were still to be written. Its end has whole seconds.
      if (Date.now() < end - 1000 && !isExpired(err)) throw err;
      return false;
    },
  );
  const onDisk = isWritten ? await Promise.all(cluster.nodes.map(async (node) => isEndOnDisk(node, end))) : [false];
  if (onDisk.every(Boolean)) return end;
  if (attempt === attemptsToEnd)
    throw new Error(`Certificates that live ${inMs} ms have ended before all were written`);
  // Too slow a machine for that: it renews all of it, and everything ends once more, after twice the time. Valid on disk
  // may still be what was there before, and expired the one that is served: then that attempt is too slow as well.
  await delay(Math.max(0, end + 1000 - Date.now()));
  for (const node of cluster.nodes) await leavesValid(node);
  await eventually(async () => expectOk((await cluster.api('/readyz')).status), { withinMs: 900_000, everyMs: 1000 });
  return endAll(cluster, { inMs: 2 * inMs, except }, attempt + 1);
}

const isExpired = (err: unknown): boolean => String(err).includes('CERT_HAS_EXPIRED');

function expectOk(status: number): void {
  if (status !== 200) throw new Error(`the API server answers /readyz with ${status}`);
}

/** The time before the end that a test needs to ask the API server, whose certificate ends then, too. */
const askingMs = 15_000;

/** Resolves with true when a machine has that end on disk, with false when too little time is left before it. */
async function isEndOnDisk(node: Node, end: number): Promise<boolean> {
  return eventually(
    async () => {
      if (Date.now() >= end - askingMs) return false;
      const found = await ends(node);
      const late = leavesOfPods.filter((name) => !((found.get(name)?.getTime() ?? Infinity) < end + 2000));
      if (late.length > 0) throw new Error(`${node.name} does not have on disk yet: ${late.join(', ')}`);
      return true;
    },
    { withinMs: Infinity, everyMs: 300 },
  );
}

/** Resolves when a machine has valid ones on disk. */
export async function leavesValid(node: Node, withinMs = 900_000): Promise<void> {
  await eventually(
    async () => {
      const found = await ends(node);
      const expired = leavesOfPods.filter((name) => !((found.get(name)?.getTime() ?? 0) > Date.now()));
      if (expired.length > 0) throw new Error(`${node.name} has expired: ${expired.join(', ')}`);
    },
    { withinMs, everyMs: 300 },
  );
}

/** Switches a machine off, past the end of the kubelet's own certificate and that moment. */
export async function offPast(node: Node, end: number): Promise<void> {
  await node.off();
  await reissue(node, [kubeletClient], past(new Date()));
  await delay(end + 3000 - Date.now());
}

/**
 * Stands still past the end of every leaf, the kubelet's own among them, and goes on. Resolves when the machine has valid
 * ones again, the kubelet's excepted; the answer is when it went on.
 */
export async function suspendPast(cluster: Cluster, { inMs }: { readonly inMs: number }): Promise<number> {
  const { node } = cluster;
  const end = await standStillBefore(cluster, { inMs, lifeMs: 100_000 });
  await delay(end + 3000 - Date.now());
  const thawed = Date.now();
  await node.thaw();
  await leavesValid(node);
  console.log(`thawed to valid on disk: ${Date.now() - thawed} ms`);
  return thawed;
}

interface Lives {
  /** Of the leaves in the API, from now on. */
  readonly inMs: number;
  /** Of the kubelet's own certificate, from the boot on. */
  readonly lifeMs: number;
}

/**
 * Stands still before any of that is renewed; the answer is when all of it ends. A machine that was too slow for that goes
 * on and is prepared again, with twice the time.
 */
async function standStillBefore(cluster: Cluster, { inMs, lifeMs }: Lives): Promise<number> {
  const { node } = cluster;
  await node.off();
  const began = Date.now();
  const dates = { notBefore: new Date(began - 1000), notAfter: new Date(began + lifeMs) };
  await reissue(node, [kubeletClient], dates);
  await node.on();
  await cluster.ready(node, { since: began });
  const end = await endLeaves(cluster, { inMs });
  await node.freeze();
  // A kubelet asks for its next certificate at 70 to 90 % of a life (client-go, util/certificate).
  if (Date.now() < Math.min(end, began + 0.7 * lifeMs - 1000)) return Math.max(end, dates.notAfter.getTime());
  await node.thaw();
  return standStillBefore(cluster, { inMs: 2 * inMs, lifeMs: 2 * lifeMs });
}

const mounted = (name: string, path: string) => ({
  volume: { name, hostPath: { path } },
  mount: { name, mountPath: path },
});

/** A Pod on the network of its machine, as root, with directories of the machine at the same paths. */
function podSpec(name: string, container: object, paths: readonly string[]) {
  const all = paths.map((path, at) => mounted(`path${at}`, path));
  const image = { image: programReference, imagePullPolicy: 'Never' };
  return {
    hostNetwork: true,
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 0,
    tolerations: [{ operator: 'Exists' }],
    containers: [{ name, ...image, ...container, volumeMounts: all.map(({ mount }) => mount) }],
    volumes: all.map(({ volume }) => volume),
  };
}

function workload(kind: 'DaemonSet' | 'Deployment', name: string, spec: object) {
  const labels = { app: name };
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: { name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

/** Brings the configuration of the network to each machine, as network plugins do: without it no node is Ready. */
export async function networkFromDaemonSet(cluster: Cluster): Promise<void> {
  const [from, to] = ['/usr/local/share/machine-cni', '/etc/cni/net.d'];
  const script = `fs.cpSync('${from}', '${to}', { recursive: true }); setInterval(() => {}, 1e6)`;
  const container = { command: ['/usr/bin/node', '-e', script] };
  await create(cluster, workload('DaemonSet', 'network', podSpec('network', container, [from, to])));
  for (const node of cluster.nodes) await node.sh('touch /var/lib/machine/no-cni');
}

/** What a cluster is for: a Deployment of which kube-controller-manager makes the Pod and the scheduler places it. */
export async function startWorkload(cluster: Cluster): Promise<void> {
  const container = { command: ['/usr/bin/node', '-e', 'setInterval(() => {}, 1e6)'] };
  await create(cluster, workload('Deployment', 'workload', podSpec('workload', container, [])));
}

export interface Moments {
  readonly created: number;
  readonly scheduled: number;
  readonly running: number;
}

/** When its Pod was there, had a node, and ran. */
export async function workloadRuns(
  cluster: Cluster,
  { withinMs = 120_000, node = cluster.node } = {},
): Promise<Moments> {
  const moments: { created?: number; scheduled?: number; running?: number } = {};
  return eventually(
    async () => {
      const { body } = await cluster.api('/api/v1/namespaces/default/pods?labelSelector=app%3Dworkload', { node });
      const [pod] = (body as { items?: { spec: { nodeName?: string }; status: { phase: string } }[] }).items ?? [];
      const at = Date.now();
      if (pod !== undefined) moments.created ??= at;
      if (pod?.spec.nodeName !== undefined) moments.scheduled ??= at;
      if (pod?.status.phase === 'Running') moments.running ??= at;
      const { created, scheduled, running } = moments;
      if (created === undefined || scheduled === undefined || running === undefined) {
        throw new Error(`The workload does not run: ${JSON.stringify(moments)}, ${JSON.stringify(pod?.status)}`);
      }
      return { created, scheduled, running };
    },
    { withinMs, everyMs: 100 },
  );
}

async function create(cluster: Cluster, object: ReturnType<typeof workload>): Promise<void> {
  const path = `/apis/apps/v1/namespaces/default/${object.kind.toLowerCase()}s`;
  await eventually(
    async () => {
      const { status, body } = await cluster.api(path, { method: 'POST', body: object });
      if (status !== 201)
        throw new Error(`${object.kind} "${object.metadata.name}" was not made: ${JSON.stringify(body)}`);
    },
    { everyMs: 200 },
  );
}

/** When the published certificates end, by name, and under `kubelet` its own; the machine may be off. */
export async function ends(node: Node): Promise<ReadonlyMap<string, Date>> {
  const copy = await node.copyOut(recoveryDirectory);
  const kubelet = await node.copyOut('/var/lib/kubelet/pki');
  try {
    // A link, whose target is named as on the machine.
    const own = await readlink(join(kubelet, 'kubelet-client-current.pem'));
    const found: [string, string][] = [['kubelet', join(kubelet, basename(own))]];
    for (const pod of await readdir(copy)) {
      const secrets = join(copy, pod, 'certs/secrets');
      for (const name of await readdir(secrets).catch(() => [])) found.push([name, join(secrets, name, 'tls.crt')]);
    }
    const all = new Map<string, Date>();
    for (const [name, path] of found) {
      const pem = await readFile(path, 'utf8').catch(() => '');
      const certificate = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/.exec(pem)?.[0];
      if (certificate !== undefined) all.set(name, new X509Certificate(certificate).validToDate);
    }
    return all;
  } finally {
    for (const path of [copy, kubelet]) await rm(dirname(path), { recursive: true, force: true });
  }
}
