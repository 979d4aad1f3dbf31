// Where a kubeadm cluster has what the inventory `kubernetes` keeps in the API. Pure.
// Its CAs stay the cluster's CAs, so nobody who trusts them today has to learn of another one: kubelets verify the API
// server by them, and the API server verifies kubelets by them. Leaves are taken over as they are, service-account keys
// too: another key would make every token worthless.
import { join } from 'node:path';
import type { DiskLocation, ResolvedArtefact } from '../inventory/model.ts';

export interface KubeadmDirectories {
  readonly kubernetesDir: string;
  readonly pkiDir: string;
}

/** By artefact of the inventory: the pair below pkiDir, without `.crt` and `.key`. */
const pairs: Readonly<Record<string, string>> = {
  'kube-apiserver-serving-signer': 'ca',
  'kube-apiserver-to-kubelet-signer': 'ca',
  'kube-control-plane-signer': 'ca',
  'csr-signer-signer': 'ca',
  'next-csr-signer': 'ca',
  'aggregator-client-signer': 'front-proxy-ca',
  'aggregator-client': 'front-proxy-client',
  'kubelet-client': 'apiserver-kubelet-client',
  'kube-apiserver-serving': 'apiserver',
};

/** By artefact: the kubeconfig that holds the client certificate. */
const kubeconfigs: Readonly<Record<string, string>> = {
  'kube-controller-manager-client': 'controller-manager.conf',
  'kube-scheduler-client': 'scheduler.conf',
  'admin-client': 'admin.conf',
};

/** A certificate and its key on disk that an artefact of the API begins with; undefined where kubeadm has none. */
export function sourceOf({ name }: ResolvedArtefact, directories: KubeadmDirectories): DiskLocation | undefined {
  const pair = pairs[name];
  if (pair !== undefined) {
    const file = join(directories.pkiDir, pair);
    return { kind: 'pemPair', certFile: `${file}.crt`, keyFile: `${file}.key` };
  }
  const kubeconfig = kubeconfigs[name];
  if (kubeconfig === undefined) return undefined;
  return { kind: 'kubeconfig', file: join(directories.kubernetesDir, kubeconfig), endpoint: 'local' };
}

/** Whether people alone use what the artefact begins with: kubeadm's own components run without it. */
export const isForPeople = ({ name }: ResolvedArtefact): boolean => name === 'admin-client';

/** The keys of service-account tokens: private, public. */
export function accountKeyFiles({ pkiDir }: KubeadmDirectories): { readonly private: string; readonly public: string } {
  return { private: join(pkiDir, 'sa.key'), public: join(pkiDir, 'sa.pub') };
}
