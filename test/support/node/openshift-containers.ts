// The two containers beside each component of an OpenShift control plane, as the static pods of its operators have them
// (bindata/assets/kube-apiserver/pod.yaml in openshift/cluster-kube-apiserver-operator at 0378867a15c8,
// .../kube-controller-manager/pod.yaml in cluster-kube-controller-manager-operator at 001746c6b225,
// .../kube-scheduler/pod.yaml in cluster-kube-scheduler-operator at 0dfab7158fb3). Image, command and arguments are what is
// exchanged, so of these only their names are here: what else a container has decides whether ours runs in its place.
export interface OperatorsContainer {
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

export const operatorsContainers: Readonly<Record<string, readonly OperatorsContainer[]>> = {
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

/** Volumes of the pod that are no directories of the host. */
export const emptyDirectories: Readonly<Record<string, readonly string[]>> = {
  'kube-controller-manager': scratch.map(({ name }) => name),
};
