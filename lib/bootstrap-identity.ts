// Who asks for a kubelet's first certificate, and for its next one after the present one has expired: a ServiceAccount
// whose token may create CertificateSigningRequests and nothing else. It is not bound to `...:nodeclient`, or
// kube-controller-manager's own approver would approve whatever it asks for (sarapprove.go).

export const bootstrapAccount = 'kube-cert-recovery-node-bootstrapper';

/** Who signs client certificates of kubelets (staging/src/k8s.io/api/certificates/v1/types.go). */
export const kubeletClientSigner = 'kubernetes.io/kube-apiserver-client-kubelet';

/** Where `init` makes ServiceAccounts, unless told otherwise. */
export const defaultBootstrapNamespace = 'kube-cert-recovery';

/** The ConfigMap beside the accounts in which approvers note which expected nodes have had their first certificate. */
export const firstApprovalsName = 'first-approvals';

export interface Requester {
  readonly username: string;
  readonly groups: readonly string[];
}

/** As the API server writes it into requests (staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go). */
export function bootstrapRequester(namespace: string): Requester {
  return {
    username: `system:serviceaccount:${namespace}:${bootstrapAccount}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  };
}
