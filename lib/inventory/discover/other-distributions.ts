// Distributions that are not kubeadm's, known by a directory, and what renews certificates there.
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Absolute path of a directory, and the end of the sentence "This machine ...". */
const distributions: readonly (readonly [directory: string, advice: string])[] = [
  ['/var/lib/rancher/k3s', 'runs k3s, which renews its certificates when it starts: systemctl restart k3s (k3s-agent)'],
  [
    '/var/lib/rancher/rke2',
    'runs RKE2, which renews its certificates when it starts: systemctl restart rke2-server (rke2-agent)',
  ],
  [
    '/var/lib/k0s',
    'runs k0s, which renews its certificates when it starts: systemctl restart k0scontroller (k0sworker)',
  ],
  ['/var/snap/microk8s', 'runs MicroK8s, which renews its certificates by its own command: microk8s refresh-certs'],
  ['/etc/kubernetes/static-pod-resources', 'runs OpenShift, whose certificates are in its API: docs/openshift.md'],
  ['/etc/eks', 'is a node of EKS, whose control plane is not here'],
];

/** Returns "; this machine ..." where a distribution is known that is not kubeadm's; else an empty text. */
export function otherDistribution(root = '/'): string {
  const found = distributions.find(([directory]) => existsSync(join(root, directory)));
  return found === undefined ? '' : `; this machine ${found[1]}`;
}
