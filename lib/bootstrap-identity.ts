// Accounts that request a kubelet's first certificate, and its next one after the present one has expired. Our own is a
// ServiceAccount whose token may create CertificateSigningRequests and nothing else. It is not bound to
// `...:nodeclient`, or kube-controller-manager's own approver would approve all of its requests (sarapprove.go). Pure.
import { kubeletSigners } from './well-known.ts';

export const bootstrapAccount = 'kube-cert-recovery-node-bootstrapper';
/** ServiceAccount of workers. It grants no node's name: only the key of that node's expired certificate does. */
export const workerAccount = 'kube-cert-recovery-worker';

/** Annotation with the node's expired certificate, PEM, on a request signed with the key of that certificate. */
export const expiredCertificateAnnotation = 'kube-cert-recovery/expired-certificate';

/** Signer of client certificates of kubelets (staging/src/k8s.io/api/certificates/v1/types.go). */
export const kubeletClientSigner = kubeletSigners['kubelet-client'];

/** Default namespace of the ServiceAccounts that `init` creates. */
export const defaultBootstrapNamespace = 'kube-cert-recovery';

/**
 * ConfigMap in the namespace of the accounts in which approvers note which expected nodes have had their first
 * certificate.
 */
export const firstApprovalsName = 'first-approvals';

/** ConfigMap in the same namespace in which approvers note the newest certificate that was issued to each node. */
export const issuedCertificatesName = 'issued-certificates';

/** ConfigMap in `kube-system` in which the API server publishes the CAs by which it verifies clients. */
export const clientAuthoritiesName = 'extension-apiserver-authentication';

/** Account whose requests for kubelets' client certificates are judged. */
export interface Requester {
  /** User name as the API server writes it into requests; a pattern where the names of the accounts differ. */
  readonly username: string | RegExp;
  /** Exactly these groups. */
  readonly groups: readonly string[];
  /**
   * Only a request that shows the expired certificate and has its key is approved, whatever else is known of the node.
   */
  readonly mustShowCertificate?: true;
}

/**
 * Names as the API server writes them into requests
 * (staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go).
 */
function serviceAccount(namespace: string, name: string): Requester & { readonly username: string } {
  return {
    username: `system:serviceaccount:${namespace}:${name}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
}

export const bootstrapRequester = (namespace: string): Requester & { readonly username: string } =>
  serviceAccount(namespace, bootstrapAccount);

/** Requesters by their names in `approver.requesters`. `namespace`: the namespace of our own ServiceAccounts. */
const knownRequesters = {
  'kube-cert-recovery': bootstrapRequester,
  worker: (namespace) => ({ ...serviceAccount(namespace, workerAccount), mustShowCertificate: true }),
  /** Tokens of `kubeadm token create` (cmd/kubeadm/app/apis/bootstraptoken/v1/utils.go, default groups). */
  kubeadm: () => ({
    username: /^system:bootstrap:[a-z0-9]{6}$/,
    groups: ['system:bootstrappers', 'system:bootstrappers:kubeadm:default-node-token', 'system:authenticated'],
  }),
  /**
   * Account of the bootstrap kubeconfig on every OpenShift node (machine-config-operator
   * manifests/machineconfigserver).
   */
  openshift: () => serviceAccount('openshift-machine-config-operator', 'node-bootstrapper'),
} as const satisfies Readonly<Record<string, (namespace: string) => Requester>>;

export type RequesterName = keyof typeof knownRequesters;
export const requesterNames = Object.keys(knownRequesters) as readonly RequesterName[];

export function requesterOf(named: RequesterName | Requester, namespace: string): Requester {
  return typeof named === 'string' ? knownRequesters[named](namespace) : named;
}

export const isOf = ({ username }: Requester, asking: string | undefined): boolean =>
  asking !== undefined && (typeof username === 'string' ? username === asking : username.test(asking));

/** User for whom the API server takes the token: `system:serviceaccount:ns:name`; undefined: another form of token. */
export function tokenAccount(token: string): string | undefined {
  const [, payload = ''] = /^[\w-]+\.([\w-]+)\.[\w-]+$/.exec(token) ?? [];
  try {
    const { sub } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { readonly sub?: unknown };
    return typeof sub === 'string' ? sub.slice(0, 200) : undefined;
  } catch {
    return undefined;
  }
}
