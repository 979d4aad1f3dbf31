// Standalone approver: a static pod of a control-plane machine, or a Deployment in any cluster. Pure.
import { hash } from 'node:crypto';
import { apiVersion, controlPlaneLabel } from '../well-known.ts';
import { typeMeta } from '../kube/resources.ts';
import { toYaml } from '../yaml.ts';
import { accountName } from './accounts.ts';
import { type Manifest, ownLabel } from './apply.ts';
import { kubeconfigYaml } from './component-flags.ts';
import type { SecurityLabel } from './container.ts';
import { clockOfMachine, hostPath, leastPrivileges, ownContainer, ownResources } from './own-container.ts';

export const approverName = accountName('approver');
/** Next to the health ports of an adopted machine's containers. */
const healthPort = 11446;

const configAnnotation = 'kube-cert-recovery/config';

/** Pod fields that kubeadm sets in its static pods. */
export const podOfMachine = {
  hostNetwork: true,
  priority: 2_000_001_000,
  priorityClassName: 'system-node-critical',
  securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
};

interface StaticPodOptions {
  readonly image: string;
  readonly configFile: string;
  /** Content of the configuration file. */
  readonly config: string;
  /** Directory of its configuration and credential. */
  readonly directory: string;
  /** Directory of the kubelet's certificates. */
  readonly kubeletPki: string;
  readonly seLinux?: SecurityLabel | undefined;
}

/** Static pod on the network of the machine, so that it needs no other pod. */
export function approverStaticPod({
  image,
  configFile,
  config,
  directory,
  kubeletPki,
  seLinux,
}: StaticPodOptions): object {
  const mounted = [
    hostPath('', directory, { readOnly: true }),
    hostPath('kubelet', kubeletPki, { readOnly: true }),
    clockOfMachine,
  ];
  const volumeMounts = mounted.map(({ mount }) => mount);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: approverName,
      namespace: 'kube-system',
      labels: ownLabel,
      // Another configuration is another pod: it reads its file once.
      annotations: { [configAnnotation]: hash('sha256', config).slice(0, 12) },
    },
    spec: {
      ...podOfMachine,
      containers: [
        ownContainer({ image, args: ['--mode=approver', `--config=${configFile}`], healthPort, volumeMounts, seLinux }),
      ],
      volumes: mounted.map(({ volume }) => volume),
    },
  };
}

/** Configuration of a pod. `approver`: its section. `address`: of its health probes, by default the static pod's. */
export const approverConfig = (approver: object, address = `127.0.0.1:${healthPort}`): string =>
  toYaml({ apiVersion, kind: 'Configuration', modes: ['approver'], approver, healthProbeBindAddress: address });

/** Directory of the configuration in pods of ours. */
export const mountedConfig = '/etc/kube-cert-recovery';
export const serviceAccountFiles = '/var/run/secrets/kubernetes.io/serviceaccount';
const deploymentPort = 8081;

interface DeploymentOptions {
  readonly image: string;
  readonly namespace: string;
  /** Section of the approver in its configuration. */
  readonly approver: object;
}

/**
 * Two replicas: both approve, and the resourceVersion of a request prevents a second approval. They have a Pod's token,
 * and no certificate of a machine: every node is foreign to them.
 *
 * Only the node itself, which probes them, reaches their ports. Their outgoing connections are not restricted: the
 * ports of the API server behind its Service, of the cluster's DNS and of kubelets are the cluster's own, and a wrong
 * guess would disable the approver.
 */
export function approverDeployment({ image, namespace, approver }: DeploymentOptions): readonly Manifest[] {
  const labels = { ...ownLabel, 'app.kubernetes.io/name': approverName };
  const metadata = { name: approverName, namespace, labels };
  const kubeconfig = kubeconfigYaml({
    server: 'https://kubernetes.default.svc',
    certificateAuthority: `${serviceAccountFiles}/ca.crt`,
    user: { name: approverName, tokenFile: `${serviceAccountFiles}/token` },
  });
  const own = { kubeconfig: `${mountedConfig}/kubeconfig`, bootstrapNamespace: namespace };
  const config = approverConfig({ ...approver, ...own }, `:${deploymentPort}`);
  const probe = (path: string) => ({ httpGet: { path, port: deploymentPort }, periodSeconds: 30, timeoutSeconds: 15 });
  const container = {
    name: 'approver',
    image,
    args: ['--mode=approver', `--config=${mountedConfig}/config.yaml`],
    env: [{ name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
    ports: [{ name: 'health', containerPort: deploymentPort }],
    livenessProbe: probe('/livez'),
    readinessProbe: probe('/readyz'),
    resources: ownResources,
    securityContext: leastPrivileges,
    volumeMounts: [{ name: 'config', mountPath: mountedConfig, readOnly: true }],
  };
  const spec = {
    serviceAccountName: approverName,
    automountServiceAccountToken: true,
    priorityClassName: 'system-cluster-critical',
    nodeSelector: { [controlPlaneLabel]: '' },
    tolerations: [{ key: controlPlaneLabel, operator: 'Exists', effect: 'NoSchedule' }],
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: 'kubernetes.io/hostname',
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: labels },
      },
    ],
    securityContext: { runAsNonRoot: true, runAsUser: 65_532, runAsGroup: 65_532 },
    containers: [container],
    volumes: [{ name: 'config', configMap: { name: approverName } }],
  };
  return [
    { ...typeMeta('ConfigMap'), metadata, data: { 'config.yaml': config, kubeconfig } },
    {
      ...typeMeta('NetworkPolicy'),
      metadata,
      spec: { podSelector: { matchLabels: labels }, policyTypes: ['Ingress'] },
    },
    {
      ...typeMeta('Deployment'),
      metadata,
      spec: { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    },
  ];
}
