// Names and values on which several folders must agree.

/** Version of our own files. */
export const apiVersion = 'kube-cert-recovery/v1alpha1';

/** Server name under which the API server serves the certificate that outlives all others. */
export const defaultRecoveryServerName = 'localhost-recovery';

/** Directory of the lock that keeps a second process of this machine from writing the same files. */
export const defaultLockDir = '/run/kube-cert-recovery';
export const defaultBackupDir = '/var/lib/kube-cert-recovery/backups';

/** Algorithm of a new key that replaces none. */
export const defaultKeyAlgorithm = { name: 'RSA', bits: 2048 } as const;

/** Services of a machine before whose start its certificates are repaired, where its inventory names none. */
export const usualServices: readonly string[] = ['kubelet.service'];

/** The last part of a certificate's life in which `status` announces its expiry. */
export const announcedPart = 0.2;

/** The last part in which a kubelet that rotates its certificate is late: it does so after 70 to 90 % of the life. */
export const latePart = 0.1;

/** User names and the group of kubelets (k8s.io/api and pkg/auth/nodeidentifier of kubernetes/kubernetes). */
export const nodePrefix = 'system:node:';
export const nodesGroup = 'system:nodes';

/**
 * Label of the Node of a control-plane machine. NodeRestriction lets no kubelet set a label of this domain on its own.
 */
export const controlPlaneLabel = 'node-role.kubernetes.io/control-plane';
/** The label before Kubernetes 1.24. */
export const formerControlPlaneLabel = 'node-role.kubernetes.io/master';

/**
 * Identity of control-plane hosts at the API server while they renew: `init host --renew-before` grants this group its
 * rights.
 */
export const hostsGroup = 'kube-cert-recovery:hosts';
export const hostUser = (nodeName: string): string => `kube-cert-recovery:host:${nodeName}`;

/** Signers of certificates of kubelets, by their names in configurations and metrics. */
export const kubeletSigners = {
  'kubelet-client': 'kubernetes.io/kube-apiserver-client-kubelet',
  'kubelet-serving': 'kubernetes.io/kubelet-serving',
} as const;

export type KubeletSigner = keyof typeof kubeletSigners;
export const kubeletSignerNames = Object.keys(kubeletSigners) as readonly KubeletSigner[];

/** The short name of `spec.signerName`; of an unknown signer the whole. */
export const signerName = (signer: string): string =>
  kubeletSignerNames.find((name) => kubeletSigners[name] === signer) ?? signer;

/** Exit code of a run that has left something to an administrator, and has done everything else. */
export const exitByHand = 5;
