// What kubeadm makes on a control-plane node (kubernetes/kubernetes: cmd/kubeadm/app/phases/certs/certlist.go,
// phases/kubeconfig/kubeconfig.go), under the names that `kubeadm certs check-expiration` prints. Sorted by code unit.

export const kubeadmPairs = [
  'apiserver',
  'apiserver-etcd-client',
  'apiserver-kubelet-client',
  'etcd-healthcheck-client',
  'etcd-peer',
  'etcd-server',
  'front-proxy-client',
];
export const kubeadmKubeconfigs = ['admin.conf', 'controller-manager.conf', 'scheduler.conf', 'super-admin.conf'];
/** All eleven. */
export const kubeadmCertificates: readonly string[] = [...kubeadmPairs, ...kubeadmKubeconfigs].toSorted();
export const kubeadmAuthorities = ['ca', 'etcd-ca', 'front-proxy-ca'];
