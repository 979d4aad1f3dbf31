// The CA in kube-public/cluster-info after a renewal: joining machines, and workers that follow, take it from there. A
// node replaces a CA that its own CA succeeds, with the same key. The other fields stay unchanged; signatures for join
// tokens, which cover the whole kubeconfig, are made again by kube-controller-manager (pkg/controller/bootstrap,
// bootstrapsigner).
import { type ClusterInfo, clusterInfoKey, clusterInfoPath, publishedAuthority } from '../kube/cluster-info.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { updateObject } from '../kube/objects.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { succeededBy } from '../pki/successor.ts';
import { editYaml } from '../yaml.ts';

/**
 * `own`: the CA of this machine. Pure. Undefined where it succeeds none of the published CAs, and where nothing is to
 * be changed.
 */
export function withRenewedAuthority(object: ClusterInfo, own: Certificate): ClusterInfo | undefined {
  const published = publishedAuthority(object);
  if ('problem' in published) return undefined; // not made by kubeadm
  const next = succeededBy(wholeCertificates(published), own);
  if (next === undefined) return undefined;
  const edit = editYaml(object.data?.[clusterInfoKey] ?? '');
  const authority = Buffer.from(next.map(({ pem }) => pem).join('')).toString('base64');
  edit.set(['clusters', 0, 'cluster', 'certificate-authority-data'], authority);
  return { ...object, data: { ...object.data, [clusterInfoKey]: edit.text() } };
}

interface ClusterInfoUpdate {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly own: Certificate;
  readonly signal: AbortSignal;
}

/**
 * Writes the renewed CA into cluster-info, which kube-controller-manager and other control-plane nodes write, too.
 * Throws errors of the connection.
 */
export const updateClusterInfo = ({
  own,
  ...request
}: ClusterInfoUpdate): Promise<'written' | 'unchanged' | 'absent'> =>
  updateObject<ClusterInfo>(request, clusterInfoPath, (object) => withRenewedAuthority(object, own));
