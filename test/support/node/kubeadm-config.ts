// What kubeadm is told: certificates as the test wants them, and a kubelet that may live in a container.
import { componentVersions } from '../cluster/binaries.ts';

export interface ClusterOptions {
  /** Of certificates and of what the controller manager signs, as kubeadm writes durations: `3m`, `8760h`. */
  readonly certificateValidity?: string;
  /** Of what the controller manager signs, where that differs. */
  readonly signingDuration?: string;
  /** Kubelets serve certificates of the cluster's CA, and the API server accepts no others from them. */
  readonly verifiedKubelets?: boolean;
  readonly encryptionAlgorithm?: 'RSA-2048' | 'RSA-3072' | 'RSA-4096' | 'ECDSA-P256' | 'ECDSA-P384';
  /** Of the API server. */
  readonly port?: number;
  /** Default: kubeadm's. */
  readonly certificatesDir?: string;
  /** Further fields of ClusterConfiguration. */
  readonly more?: Readonly<Record<string, unknown>>;
  /** By name without dashes. */
  readonly kubeletFlags?: Readonly<Record<string, string>>;
}

export const usualDirectory = '/etc/kubernetes/pki';
export const usualPort = 6443;

const nodeRegistration = (name: string) => ({
  name,
  criSocket: 'unix:///run/containerd/containerd.sock',
  imagePullPolicy: 'Never',
  ignorePreflightErrors: ['all'],
  taints: [],
});

const apiVersion = 'kubeadm.k8s.io/v1beta4';
/** Documents of JSON are YAML. */
const documents = (...all: readonly object[]): string => all.map((one) => JSON.stringify(one)).join('\n---\n');

/** Of the image that nodes have. */
export const etcdTag = (version: string): string => `${version.slice(1)}-0`;

export interface InitOptions extends ClusterOptions {
  readonly name: string;
  readonly address: string;
  readonly token: string;
  readonly certificateKey: string;
}

export async function initConfiguration(options: InitOptions): Promise<string> {
  const { name, address, token, certificateKey, certificateValidity = '8760h' } = options;
  const { signingDuration = certificateValidity, port = usualPort, certificatesDir = usualDirectory } = options;
  const { kubernetes, etcd } = await componentVersions();
  return documents(
    {
      apiVersion,
      kind: 'InitConfiguration',
      nodeRegistration: {
        ...nodeRegistration(name),
        kubeletExtraArgs: Object.entries(options.kubeletFlags ?? {}).map(([flag, value]) => ({ name: flag, value })),
      },
      localAPIEndpoint: { advertiseAddress: address, bindPort: port },
      bootstrapTokens: [{ token }],
      certificateKey,
      skipPhases: ['addon', 'mark-control-plane', 'show-join-command'],
    },
    {
      apiVersion,
      kind: 'ClusterConfiguration',
      kubernetesVersion: kubernetes,
      controlPlaneEndpoint: `${address}:${port}`,
      certificatesDir,
      certificateValidityPeriod: certificateValidity,
      ...(options.encryptionAlgorithm && { encryptionAlgorithm: options.encryptionAlgorithm }),
      // Otherwise the kubelet's client certificate would outlive the others.
      controllerManager: { extraArgs: [{ name: 'cluster-signing-duration', value: signingDuration }] },
      ...(options.verifiedKubelets === true && {
        apiServer: {
          extraArgs: [{ name: 'kubelet-certificate-authority', value: `${certificatesDir}/ca.crt` }],
        },
      }),
      etcd: { local: { imageTag: etcdTag(etcd) } },
      ...options.more,
    },
    {
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      kind: 'KubeletConfiguration',
      failCgroupV1: false,
      cgroupDriver: 'cgroupfs',
      failSwapOn: false,
      serverTLSBootstrap: options.verifiedKubelets ?? false,
    },
  );
}

export interface JoinOptions {
  readonly name: string;
  readonly address: string;
  /** Of the control plane that is there. */
  readonly endpoint: string;
  readonly token: string;
  readonly certificateKey?: string;
}

/** Without `certificateKey` the machine becomes a worker. */
export function joinConfiguration({ name, address, endpoint, token, certificateKey }: JoinOptions): string {
  return documents({
    apiVersion,
    kind: 'JoinConfiguration',
    nodeRegistration: nodeRegistration(name),
    ...(certificateKey && { controlPlane: { localAPIEndpoint: { advertiseAddress: address }, certificateKey } }),
    // kubeadm's own two minutes for a new member of etcd are too few when two cores run three machines.
    timeouts: { etcdAPICall: '5m', kubernetesAPICall: '5m', controlPlaneComponentHealthCheck: '5m' },
    discovery: { bootstrapToken: { token, apiServerEndpoint: endpoint, unsafeSkipCAVerification: true } },
  });
}
