// The static pods of an OpenShift control plane, for upstream's components: names, containers, paths, mounts and settings
// are those of its operators (bindata/assets/*/pod.yaml and bindata/assets/config in
// openshift/cluster-kube-apiserver-operator, cluster-kube-controller-manager-operator, cluster-kube-scheduler-operator).
// The containers beside the components are those of manifests/openshift.
import { parseYaml } from '../../../lib/yaml.ts';
import {
  certs,
  emptyDirectories,
  type OpenshiftContainer,
  recoveryKubeconfigs,
  resources,
} from '../../../scripts/openshift-containers.ts';
import { page } from '../../docs/markdown.ts';
import { componentVersions } from '../cluster/binaries.ts';
import { flagArguments, type Flags } from '../cluster/components.ts';
import { programReference } from './program-image.ts';

export { resources };

export interface Component {
  readonly name: 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler';
  readonly preset: string;
  /** Of the pod and of what its cert-syncer writes. */
  readonly namespace: string;
  readonly pod: string;
  /** The ConfigMap with the kubeconfig of the containers beside the component. */
  readonly recoveryKubeconfig: string;
}

const component = (name: Component['name'], pod: string): Component => ({
  name,
  preset: `openshift-${name}`,
  namespace: `openshift-${name}`,
  pod,
  recoveryKubeconfig: recoveryKubeconfigs[name],
});
export const components: readonly Component[] = [
  component('kube-apiserver', 'kube-apiserver'),
  component('kube-controller-manager', 'kube-controller-manager'),
  component('kube-scheduler', 'openshift-kube-scheduler'),
];

/** On the machine. */
export const certsOf = ({ name }: Component): string => `${resources}/${name}-certs`;
export const revisionOf = ({ name }: Component): string => `${resources}/${name}-pod-7`;
export const manifestOf = ({ name }: Component): string => `/etc/kubernetes/manifests/${name}-pod.yaml`;

/** By the names in them, in this order. */
const served = [
  `${certs}/secrets/localhost-serving-cert-certkey`,
  `${certs}/secrets/service-network-serving-certkey`,
  `${certs}/secrets/external-loadbalancer-serving-certkey`,
  `${certs}/secrets/internal-loadbalancer-serving-certkey`,
  `${resources}/secrets/localhost-recovery-serving-certkey`,
];
const pair = (directory: string): string => `${directory}/tls.crt,${directory}/tls.key`;
const bundle = (directory: string, name: string): string => `${directory}/configmaps/${name}/ca-bundle.crt`;

function settings(address: string): Readonly<Record<Component['name'], Flags>> {
  const client = (name: string): Flags =>
    Object.fromEntries(
      ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map((flag) => [
        flag,
        `${resources}/configmaps/${name}/kubeconfig`,
      ]),
    );
  return {
    'kube-apiserver': {
      'advertise-address': address,
      'authorization-mode': 'Node,RBAC',
      'enable-admission-plugins': 'NodeRestriction',
      'allow-privileged': 'true',
      'service-cluster-ip-range': '10.96.0.0/12',
      'client-ca-file': bundle(certs, 'client-ca'),
      'requestheader-client-ca-file': bundle(certs, 'aggregator-client-ca'),
      'requestheader-allowed-names': [
        'kube-apiserver-proxy',
        'system:kube-apiserver-proxy',
        'system:openshift-aggregator',
      ],
      'requestheader-username-headers': 'X-Remote-User',
      'requestheader-group-headers': 'X-Remote-Group',
      'requestheader-extra-headers-prefix': 'X-Remote-Extra-',
      'tls-cert-file': `${certs}/secrets/service-network-serving-certkey/tls.crt`,
      'tls-private-key-file': `${certs}/secrets/service-network-serving-certkey/tls.key`,
      'tls-sni-cert-key': served.map(pair),
      'proxy-client-cert-file': `${certs}/secrets/aggregator-client/tls.crt`,
      'proxy-client-key-file': `${certs}/secrets/aggregator-client/tls.key`,
      'kubelet-client-certificate': `${certs}/secrets/kubelet-client/tls.crt`,
      'kubelet-client-key': `${certs}/secrets/kubelet-client/tls.key`,
      'kubelet-certificate-authority': bundle(resources, 'kubelet-serving-ca'),
      'etcd-servers': 'https://127.0.0.1:2379',
      'etcd-cafile': bundle(resources, 'etcd-serving-ca'),
      'etcd-certfile': `${resources}/secrets/etcd-client/tls.crt`,
      'etcd-keyfile': `${resources}/secrets/etcd-client/tls.key`,
      // Upstream takes files where OpenShift's kube-apiserver takes these directories.
      'service-account-key-file': ['sa-token-signing-certs', 'bound-sa-token-signing-certs'].map(
        (name) => `${resources}/configmaps/${name}/service-account-001.pub`,
      ),
      'service-account-signing-key-file': `${certs}/secrets/bound-service-account-signing-key/service-account.key`,
      'service-account-issuer': 'https://kubernetes.default.svc.cluster.local', // kubeadm's, so that tokens stay valid
    },
    'kube-controller-manager': {
      ...client('controller-manager-kubeconfig'),
      'bind-address': '127.0.0.1',
      'use-service-account-credentials': 'true',
      'client-ca-file': bundle(certs, 'client-ca'),
      'requestheader-client-ca-file': bundle(certs, 'aggregator-client-ca'),
      'cluster-signing-cert-file': `${certs}/secrets/csr-signer/tls.crt`,
      'cluster-signing-key-file': `${certs}/secrets/csr-signer/tls.key`,
      'cluster-signing-duration': '720h',
      'root-ca-file': bundle(resources, 'serviceaccount-ca'),
      'service-account-private-key-file': `${resources}/secrets/service-account-private-key/service-account.key`,
    },
    'kube-scheduler': {
      ...client('scheduler-kubeconfig'),
      'bind-address': '127.0.0.1',
      'leader-elect-resource-namespace': 'openshift-kube-scheduler',
    },
  };
}

/** As manifests/openshift has them. */
export const publishedContainers = ({ name }: Pick<Component, 'name'>): readonly OpenshiftContainer[] =>
  parseYaml(page(`manifests/openshift/${name}.yaml`)) as readonly OpenshiftContainer[];

export interface PodOptions {
  readonly address: string;
  /** What the names of load balancers lead to. */
  readonly hosts: readonly string[];
  /** Besides what the manifest says, of mode regen. */
  readonly regenArgs?: readonly string[];
  /** Of credentials that `init` has made, one directory for each mode: they take the place of the original one. */
  readonly credentials?: string;
}

const modes = ['regen', 'syncer'] as const;
type Mode = (typeof modes)[number];

function replacedFlag(argument: string, values: Readonly<Record<string, string>>): string {
  const [flag = ''] = argument.split('=');
  return flag in values ? `${flag}=${values[flag]}` : argument;
}

/** JSON, which is YAML. */
export async function podManifest(of: Component, options: PodOptions): Promise<string> {
  const { address, hosts, regenArgs = [], credentials } = options;
  const { kubernetes } = await componentVersions();
  const mount = (name: string, mountPath: string, readOnly = false) => ({ name, mountPath, readOnly });
  const own = (mode: Mode): string | undefined => credentials && `${credentials}/${mode}`;
  const beside = publishedContainers(of).map(({ args, volumeMounts, ...rest }) => {
    const mode = args.includes('--mode=regen') ? 'regen' : 'syncer';
    const directory = own(mode);
    const identity = directory === undefined ? {} : { '--kubeconfig': `${directory}/kubeconfig` };
    return {
      ...rest,
      image: programReference,
      args: [...args.map((arg) => replacedFlag(arg, identity)), ...(mode === 'regen' ? regenArgs : [])],
      volumeMounts: [...volumeMounts, ...(directory === undefined ? [] : [mount(`own-${mode}`, directory, true)])],
    };
  });
  const volume = (name: string, path: string) => ({ name, hostPath: { path, type: 'Directory' } });
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: of.namespace, name: of.pod, labels: { app: of.pod } },
    spec: {
      hostNetwork: true,
      priorityClassName: 'system-node-critical',
      hostAliases: [{ ip: address, hostnames: hosts }],
      containers: [
        {
          name: of.name,
          image: `registry.k8s.io/${of.name}:${kubernetes}`,
          imagePullPolicy: 'IfNotPresent',
          command: [of.name, ...flagArguments(settings(address)[of.name])],
          volumeMounts: [mount('resource-dir', resources), mount('cert-dir', certs)],
        },
        ...beside,
      ],
      volumes: [
        volume('resource-dir', revisionOf(of)),
        volume('cert-dir', certsOf(of)),
        ...(emptyDirectories[of.name] ?? []).map((name) => ({ name, emptyDir: {} })),
        ...modes.flatMap((mode) => {
          const directory = own(mode);
          return directory === undefined ? [] : [volume(`own-${mode}`, directory)];
        }),
      ],
    },
  });
}
