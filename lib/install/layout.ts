// Files that `init` leaves on this host, and their paths. Pure. All lie below one directory; only files whose location
// is on disk (etcd's) lie at the paths that the inventory names.
import { join } from 'node:path';

/** Directory of everything that `init` writes on a machine. */
export const defaultDirectory = '/etc/kubernetes/kube-cert-recovery';

export function hostLayout(directory: string) {
  return {
    directory,
    /** The syncer's destination: `secrets/<name>/<key>` and `configmaps/<name>/<key>`. */
    certs: join(directory, 'certs'),
    kubeconfigs: join(directory, 'kubeconfigs'),
    /** Every object of the first generation, signers' keys included, until `init` has uploaded them. Mode 0700. */
    staging: join(directory, 'staging'),
    /** Tokens of regen and of syncer, one directory each. Mode 0700. */
    credentials: join(directory, 'credentials'),
    /** Written last by `init render`: the first generation is complete. Holds no secrets. */
    generationFile: join(directory, 'generation.json'),
    configFile: join(directory, 'config.yaml'),
  };
}

/** Token with which a worker requests its kubelet's next certificate. */
export function workerTokenFile({ credentials }: Pick<HostLayout, 'credentials'>): string {
  return join(credentials, 'worker', 'token');
}

export type HostLayout = Readonly<ReturnType<typeof hostLayout>>;

/** Record for `init adopt --repair`; present where this machine is adopted. Next to the directories of the pods. */
export function adoptionFile(directory: string): string {
  return join(directory, 'adoption.json');
}

/** CA by which the approver of `init approver` verifies the API server. */
export function approverAuthorityFile(directory: string): string {
  return join(directory, 'approver', 'ca.crt');
}

/** A static pod's manifest before our additions. */
export function formerManifest({ directory }: HostLayout): string {
  return join(directory, 'former-manifest.yaml');
}

export function kubeconfigFile({ kubeconfigs }: HostLayout, component: string): string {
  return join(kubeconfigs, `${component}.kubeconfig`);
}
