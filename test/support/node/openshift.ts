// A kubeadm machine becomes one of an OpenShift control plane: objects, files and static pods with the names of OpenShift,
// and no operator. How its certificates come to an end, too.
import { blocks, page, section } from '../../docs/markdown.ts';
import { eventually } from '../eventually.ts';
import { type Admin, create, giveBundles, giveNames, prepareOpenshift } from '../cluster/openshift.ts';
import { externalHost, internalHost, openshiftPresets } from '../cluster/openshift-objects.ts';
import type { Cluster } from './cluster.ts';
import { programPath } from './container.ts';
import { entriesOf, kubeletClientCa, openshiftFiles, putFiles } from './openshift-files.ts';
import {
  type Component,
  components,
  manifestOf,
  podManifest,
  type PodOptions,
  resources,
  revisionOf,
} from './openshift-pods.ts';

export const adminOf = (cluster: Cluster): Admin => ({ admin: (path, request) => cluster.api(path, request) });

/** Everything that regen is not to make: what others keep, and the identity of the original containers. */
async function prepareApi(cluster: Cluster): Promise<void> {
  const api = adminOf(cluster);
  const { node } = cluster;
  await prepareOpenshift(api);
  await giveNames(api, { serviceNetwork: ['10.96.0.0/12'] });
  // By kubeadm's CA the tests' admin and the kubelet are known, whose certificates are no part of this.
  const kubeadmCa = await node.read('/etc/kubernetes/pki/ca.crt');
  await giveBundles(api, { 'openshift-config/admin-kubeconfig-client-ca': kubeadmCa });
  for (const name of ['control-plane-node-kubeconfig', 'check-endpoints-kubeconfig']) {
    const body = { metadata: { name }, data: { kubeconfig: '{}' } };
    await create(api, '/api/v1/namespaces/openshift-kube-apiserver/configmaps', body);
  }
  const secret = (namespace: string, body: object): Promise<void> =>
    create(api, `/api/v1/namespaces/${namespace}/secrets`, body);
  await secret('openshift-kube-apiserver', {
    metadata: { name: 'bound-service-account-signing-key' },
    stringData: {
      'service-account.key': await node.read('/etc/kubernetes/pki/sa.key'),
      'service-account.pub': await node.read('/etc/kubernetes/pki/sa.pub'),
    },
  });
  for (const { namespace } of components) await recoveryClient(api, namespace, secret);
}

/** The account of the original containers: cluster-admin, with a token that has no end. */
async function recoveryClient(
  api: Admin,
  namespace: string,
  secret: (namespace: string, body: object) => Promise<void>,
): Promise<void> {
  const name = 'localhost-recovery-client';
  await create(api, `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  const metadata = { name: `${name}-token`, annotations: { 'kubernetes.io/service-account.name': name } };
  await secret(namespace, { metadata, type: 'kubernetes.io/service-account-token' });
  await create(api, '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: `system:${namespace}:${name}` },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', namespace, name }],
  });
  await eventually(async () => {
    const { body } = await api.admin(`/api/v1/namespaces/${namespace}/secrets/${name}-token`);
    if ((body as { data?: { token?: string } }).data?.token === undefined) throw new Error(`${namespace} has no token`);
  });
}

const adminConf = '/var/lib/machine/admin.kubeconfig';
const regenConfig = `${resources}/configmaps/recovery-config/config.yaml`;
// Certificates get no more than this grace after their end: the cluster has no other rotator.
const settings = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
policy: { grace: 2s }
log: { level: debug }
`;

/** An administrator's kubeconfig on the machine. */
async function writeAdminConf(cluster: Cluster): Promise<void> {
  await cluster.node.sh(`cat > ${adminConf} <<'END'\n${cluster.kubeconfig()}\nEND`);
}

/** One pass of each, twice: they are made of each other, so that the first ones of some are not complete. */
async function makeObjects({ node }: Cluster): Promise<void> {
  const pass = (preset: string): string =>
    `${programPath} --mode=regen --once --preset=${preset} --kubeconfig=${adminConf} --log-level=warn 2>&1`;
  for (const preset of openshiftPresets) await node.run(pass(preset));
  for (const preset of openshiftPresets) await node.sh(pass(preset));
}

async function manifest({ node }: Cluster, component: Component, more: Partial<PodOptions> = {}): Promise<string> {
  return podManifest(component, {
    address: node.address,
    hosts: [externalHost, internalHost],
    // The scheduler's pod has what the page says and no more.
    ...(component.name !== 'kube-scheduler' && { regenArgs: [`--config=${regenConfig}`] }),
    ...more,
  });
}

/** Static pods, files and objects; the original identity. Resolves when the node is Ready with them. */
export async function becomeOpenshift(cluster: Cluster): Promise<void> {
  const { node } = cluster;
  await prepareApi(cluster);
  await writeAdminConf(cluster);
  await makeObjects(cluster);
  const files = new Map(await openshiftFiles(cluster, { internalHost }));
  for (const component of components) {
    files.set(regenConfig.replace(resources, revisionOf(component)), { content: settings, mode: 0o644 });
    const content = await manifest(cluster, component);
    files.set(`/var/lib/machine/${component.name}-pod.yaml`, { content, mode: 0o600 });
  }
  const ca = await serverCa(cluster);
  await putFiles(cluster, files);
  const names = components.map(({ name }) => name);
  const began = Date.now();
  await node.sh(`cd /etc/kubernetes/manifests && rm ${names.map((name) => `${name}.yaml`).join(' ')}`);
  // A kubelet that has just started ends no pod before it has reached an API server, and these hold the ports.
  await eventually(
    async () => {
      const { code, output } = await node.run(`pgrep -lx 'kube-apiserver|kube-controller|kube-scheduler'`);
      if (code !== 1) throw new Error(`still running: ${output}`);
    },
    { everyMs: 200 },
  );
  await node.sh(`sed -i 's|clientCAFile: .*|clientCAFile: ${kubeletClientCa}|' /var/lib/kubelet/config.yaml
    cd /etc/kubernetes/manifests
    ${components.map((one) => `mv /var/lib/machine/${one.name}-pod.yaml ${manifestOf(one)}`).join('\n')}
    pkill -x kubelet`);
  cluster.useServerName('localhost-recovery', ca);
  await writeAdminConf(cluster);
  await cluster.ready(node, { since: began });
  // kubeadm's kube-controller-manager is gone; its successor is not to wait for its lease.
  const lease = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager';
  await cluster.api(lease, { method: 'PATCH', body: { spec: { holderIdentity: '' } } });
}

async function serverCa(cluster: Cluster): Promise<string> {
  const entries = await entriesOf(cluster, 'configMap', 'openshift-kube-apiserver/kube-apiserver-server-ca');
  const bundle = entries?.['ca-bundle.crt'];
  if (bundle === undefined) throw new Error('There is no CA bundle of the API server');
  return bundle.toString();
}

/** The identity that `init` makes for one pod takes the place of the original's. The answer is what it printed. */
export async function useOwnIdentity(cluster: Cluster, component: Component): Promise<string> {
  const command = documentedCommand('init').replaceAll('kube-controller-manager', component.name);
  const said = await cluster.node.sh(`KUBECONFIG=${adminConf} ${command} 2>&1`);
  const [, directory = ''] = /--out=(\S+)/.exec(command) ?? [];
  await replaceManifest(
    cluster,
    component,
    await manifest(cluster, component, { credentials: `${directory}/credentials` }),
  );
  return said;
}

/** Without our containers its files are plain ones again. The answer is what the documented command printed. */
export async function giveBack(cluster: Cluster, component: Component): Promise<string> {
  const pod = JSON.parse(await manifest(cluster, component)) as { readonly spec: { readonly containers: unknown[] } };
  const { spec } = pod;
  const alone = { ...pod, spec: { ...spec, containers: spec.containers.slice(0, 1) } };
  await replaceManifest(cluster, component, JSON.stringify(alone));
  const ours = `ctr -n k8s.io tasks list --quiet | while read -r id; do ctr -n k8s.io containers info "$id"; done |
    grep 'io.kubernetes.container.name": "${component.name}-cert-syncer'`;
  await eventually(
    async () => {
      if ((await cluster.node.run(ours)).code === 0) throw new Error(`${component.name} still has our syncer`);
    },
    { everyMs: 500 },
  );
  const command = documentedCommand('uninstall').replaceAll('kube-scheduler', component.name);
  return cluster.node.sh(`KUBECONFIG=${adminConf} ${command} 2>&1`);
}

/** As an installer does it: the path is never absent, and never holds a half. */
async function replaceManifest(cluster: Cluster, component: Component, content: string): Promise<void> {
  const staged = '/var/lib/machine/pod.yaml';
  await putFiles(cluster, new Map([[staged, { content, mode: 0o600 }]]));
  await cluster.node.sh(`mv ${staged} ${manifestOf(component)}`);
}

/** The one command of the page that begins so, with the program of these machines. */
export function documentedCommand(start: string): string {
  const found = blocks(section(page('docs/openshift.md'), 'In place of the original containers')).filter(({ text }) =>
    text.startsWith(`kube-cert-recovery ${start} `),
  );
  const [command, ...others] = found;
  if (command === undefined || others.length > 0) throw new Error(`The page has not one command "${start}"`);
  return command.text.trim().replace(/^kube-cert-recovery/, programPath);
}
