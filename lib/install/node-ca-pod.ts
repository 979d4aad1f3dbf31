// CA bundles on every node: a DaemonSet with an identity of its own, or a static pod that asks as the kubelet of its
// machine; and the rights of both, on one ConfigMap by name. Pure.
import { typeMeta } from '../kube/resources.ts';
import { accountName, defaultNamespace } from './accounts.ts';
import { type Manifest, ownLabel } from './apply.ts';
import { mountedConfig, podOfMachine, serviceAccountFiles } from './approver-pod.ts';
import { kubeconfigYaml } from './component-flags.ts';
import { clockOfMachine, hostPath, type Mounted, ownContainer } from './own-container.ts';
import { accountManifest, roles } from './rbac.ts';
import { followVerb, nodeCaRules } from './rules.ts';

/** ConfigMap with the CA bundles of all nodes, and its keys. The administrator who rotates CAs maintains it. */
export const nodeCaName = 'node-ca';
export const nodeCaKeys = { clients: 'client-ca.crt', servers: 'server-ca.crt' } as const;

/** Name of our objects, and of the rights of kubelets. */
export const nodeCaPod = accountName('node-ca');
export const nodeCaOfKubelets = `${nodeCaPod}-kubelets`;

const healthPort = 11450;
const kubeletConfig = '/etc/kubernetes/kubelet.conf';

interface NodeCaPod {
  readonly image: string;
  readonly namespace: string;
}

const kubelet = hostPath('kubelet', '/var/lib/kubelet', { readOnly: true });
/** Files are written below /etc/kubernetes, copies and notes in our own two directories. */
const mounted: readonly Mounted[] = [
  hostPath('kubernetes', '/etc/kubernetes', { readOnly: false }),
  // Volumes of other pods lie below it: without this they would stay mounted here after their pods.
  { ...kubelet, mount: { ...kubelet.mount, mountPropagation: 'HostToContainer' } },
  hostPath('state', '/var/lib/kube-cert-recovery', { readOnly: false, type: 'DirectoryOrCreate' }),
  hostPath('run', '/run/kube-cert-recovery', { readOnly: false, type: 'DirectoryOrCreate' }),
  clockOfMachine,
];

/** The network and the processes of the machine: kubelets that have read a former file are restarted by a signal. */
function podSpec({ image, namespace }: NodeCaPod, kubeconfig: string, own: readonly Mounted[]) {
  const volumes = [...mounted, ...own];
  const container = ownContainer({
    image,
    args: [
      '--mode=regen',
      '--restart',
      `--preset=${nodeCaName}`,
      ...(namespace === defaultNamespace ? [] : [`--namespace=${namespace}`]),
      `--kubeconfig=${kubeconfig}`,
      `--health-probe-bind-address=127.0.0.1:${healthPort}`,
    ],
    healthPort,
    volumeMounts: volumes.map(({ mount }) => mount),
    // Nodes differ; without SELinux the label has no effect.
    seLinux: { type: 'spc_t', level: 's0' },
  });
  // The profile of container runtimes keeps signals from processes without one.
  const securityContext = { ...container.securityContext, appArmorProfile: { type: 'Unconfined' } };
  return {
    ...podOfMachine,
    hostPID: true,
    dnsPolicy: 'Default',
    tolerations: [{ operator: 'Exists' }],
    automountServiceAccountToken: false,
    containers: [{ ...container, securityContext }],
    volumes: volumes.map(({ volume }) => volume),
  };
}

interface NodeCaDaemonSet extends NodeCaPod {
  /** Address at which every node reaches the API server: the service network may need the files that are kept here. */
  readonly server: string;
}

/** Without the ConfigMap of CA bundles. In the order of creation. */
export function nodeCaDaemonSet({ server, ...pod }: NodeCaDaemonSet): readonly Manifest[] {
  const { namespace } = pod;
  const labels = { ...ownLabel, 'app.kubernetes.io/name': nodeCaPod };
  const metadata = { name: nodeCaPod, namespace, labels };
  const kubeconfig = kubeconfigYaml({
    server,
    certificateAuthority: `${serviceAccountFiles}/ca.crt`,
    user: { name: nodeCaPod, tokenFile: `${serviceAccountFiles}/token` },
  });
  const volume = (name: string, source: object, mountPath: string): Mounted => ({
    volume: { name, ...source },
    mount: { name, mountPath, readOnly: true },
  });
  const sources = [
    { serviceAccountToken: { path: 'token', expirationSeconds: 3600 } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
  ];
  const { priority: _bySystem, ...spec } = podSpec(pod, `${mountedConfig}/kubeconfig`, [
    volume('config', { configMap: { name: nodeCaPod } }, mountedConfig),
    volume('credential', { projected: { sources } }, serviceAccountFiles),
  ]);
  return [
    accountManifest('node-ca', namespace),
    ...roles(nodeCaPod, nodeCaRules(namespace, nodeCaName), { kind: 'ServiceAccount', namespace, name: nodeCaPod }),
    { ...typeMeta('ConfigMap'), metadata, data: { kubeconfig } },
    {
      ...typeMeta('DaemonSet'),
      metadata,
      spec: {
        selector: { matchLabels: labels },
        updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '10%' } },
        template: { metadata: { labels }, spec: { ...spec, serviceAccountName: nodeCaPod } },
      },
    },
  ];
}

/** Rights of the kubelets, as which static pods ask. */
export function nodeCaKubelets(namespace: string): readonly Manifest[] {
  const group = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:nodes' } as const;
  return roles(nodeCaOfKubelets, nodeCaRules(namespace, nodeCaName, [followVerb]), group);
}

/** The same on every node. */
export const nodeCaStaticPod = (pod: NodeCaPod): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: nodeCaPod, namespace: 'kube-system', labels: ownLabel },
  spec: podSpec(pod, kubeletConfig, []),
});

/** Namespace with the label by which Pod Security admission takes such pods; an existing one is left alone. */
export const nodeCaNamespace = (name: string): Manifest => ({
  ...typeMeta('Namespace'),
  metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
});
