// The two containers beside each component of an OpenShift control plane: as the static pods of its operators have them
// (bindata/assets/kube-apiserver/pod.yaml in openshift/cluster-kube-apiserver-operator at 0378867a15c8,
// .../kube-controller-manager/pod.yaml in cluster-kube-controller-manager-operator at 001746c6b225,
// .../kube-scheduler/pod.yaml in cluster-kube-scheduler-operator at 0dfab7158fb3), without image, command and arguments;
// and with ours, for manifests/openshift. Pure.
interface OperatorsContainer {
  readonly name: string;
  readonly env: readonly object[];
  readonly imagePullPolicy: 'IfNotPresent';
  readonly terminationMessagePolicy: 'FallbackToLogsOnError';
  readonly resources: object;
  readonly volumeMounts: readonly { readonly mountPath: string; readonly name: string }[];
  readonly securityContext?: object;
}

/** Where each pod sees what its revision holds, and what the cert-syncer writes. */
export const resources = '/etc/kubernetes/static-pod-resources';
export const certs = '/etc/kubernetes/static-pod-certs';

const podName = { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } };
const podNamespace = { name: 'POD_NAMESPACE', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } };
const resourceDir = { mountPath: resources, name: 'resource-dir' };
const certDir = { mountPath: certs, name: 'cert-dir' };
const scratch = [
  { mountPath: '/tmp', name: 'tmp-dir' },
  { mountPath: '/etc/pki/ca-trust/extracted/pem', name: 'ca-trust-dir' },
  { mountPath: '/var/run/kubernetes', name: 'var-run-kubernetes' },
];

const common = {
  imagePullPolicy: 'IfNotPresent',
  terminationMessagePolicy: 'FallbackToLogsOnError',
  resources: { requests: { memory: '50Mi', cpu: '5m' } },
} as const;
const readOnlyRoot = { securityContext: { readOnlyRootFilesystem: true } };

export const operatorsContainers: Readonly<Record<Component, readonly OperatorsContainer[]>> = {
  'kube-apiserver': [
    {
      ...common,
      name: 'kube-apiserver-cert-syncer',
      env: [podName, podNamespace],
      volumeMounts: [resourceDir, certDir],
    },
    {
      ...common,
      name: 'kube-apiserver-cert-regeneration-controller',
      env: [podNamespace],
      volumeMounts: [resourceDir],
    },
  ],
  'kube-controller-manager': [
    {
      ...common,
      ...readOnlyRoot,
      name: 'kube-controller-manager-cert-syncer',
      env: [podName, podNamespace],
      volumeMounts: [resourceDir, certDir, ...scratch],
    },
    {
      ...common,
      ...readOnlyRoot,
      name: 'kube-controller-manager-recovery-controller',
      env: [podNamespace],
      volumeMounts: [resourceDir, certDir, ...scratch],
    },
  ],
  'kube-scheduler': [
    {
      ...common,
      name: 'kube-scheduler-cert-syncer',
      env: [podName, podNamespace],
      volumeMounts: [resourceDir, certDir],
    },
    {
      ...common,
      name: 'kube-scheduler-recovery-controller',
      env: [podNamespace],
      volumeMounts: [resourceDir, certDir],
    },
  ],
};

/** With our image and arguments in place of the operators' image, command and arguments. */
export interface OpenshiftContainer extends OperatorsContainer {
  readonly image: string;
  readonly args: readonly string[];
}

/** The ConfigMap with the kubeconfig of the containers beside a component, by component. */
export const recoveryKubeconfigs = {
  'kube-apiserver': 'kube-apiserver-cert-syncer-kubeconfig',
  'kube-controller-manager': 'kube-controller-cert-syncer-kubeconfig',
  'kube-scheduler': 'kube-scheduler-cert-syncer-kubeconfig',
} as const;
type Component = keyof typeof recoveryKubeconfigs;

/** What the operators pass to their recovery controllers besides; the names and values stay valid here. */
const recoveryArgs: Readonly<Record<Component, readonly string[]>> = {
  'kube-apiserver': ['-v=2'],
  'kube-controller-manager': ['--listen=0.0.0.0:9443'],
  'kube-scheduler': ['--listen=0.0.0.0:11443', '-v=2'],
};

/** By component: first the one in place of the cert-syncer, then the one in place of the recovery controller. */
export function openshiftContainers(image: string): Readonly<Record<Component, readonly OpenshiftContainer[]>> {
  const containersOf = (component: Component): readonly OpenshiftContainer[] => {
    const shared = [
      `--preset=openshift-${component}`,
      `--kubeconfig=${resources}/configmaps/${recoveryKubeconfigs[component]}/kubeconfig`,
      '--namespace=$(POD_NAMESPACE)',
    ];
    const args = [
      ['--mode=syncer', ...shared, `--destination-dir=${certs}`],
      ['--mode=regen', ...shared, ...recoveryArgs[component]],
    ];
    return operatorsContainers[component].map(({ name, ...others }, at) => ({
      name,
      image,
      args: args[at] ?? [],
      ...others,
    }));
  };
  return {
    'kube-apiserver': containersOf('kube-apiserver'),
    'kube-controller-manager': containersOf('kube-controller-manager'),
    'kube-scheduler': containersOf('kube-scheduler'),
  };
}

/** Volumes of the pod that are no directories of the host. */
export const emptyDirectories: Readonly<Record<string, readonly string[]>> = {
  'kube-controller-manager': scratch.map(({ name }) => name),
};
