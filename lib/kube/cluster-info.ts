// The ConfigMap `kube-public/cluster-info`, which kubeadm publishes for joining nodes; its kubeconfig holds the CA of
// the cluster (kubernetes/kubernetes cmd/kubeadm/app/phases/bootstraptoken/clusterinfo). Any client may read it,
// without a credential. Pure.
import { bounds } from '../bounds.ts';
import { onlyEntries } from '../kubeconfig/document.ts';
import { isBase64 } from '../kubeconfig/schema.ts';
import type { ConfigMap } from './kube.ts';
import type { Received } from './received.ts';
import { resourcePath } from './resources.ts';

export const clusterInfoName = { namespace: 'kube-public', name: 'cluster-info' } as const;
export const clusterInfoPath = resourcePath('ConfigMap', clusterInfoName);
export const clusterInfoText = `ConfigMap "${clusterInfoName.namespace}/${clusterInfoName.name}"`;

/** Fields that are read; all others go back as the server sent them. */
export type ClusterInfo = Received<Pick<ConfigMap, 'metadata' | 'data'>>;

/** Key of the kubeconfig in the data. */
export const clusterInfoKey = 'kubeconfig';

const mostCharacters = bounds.clusterInfo.most.characters;

/** Address of the API server in it; undefined where it names none. */
export function publishedServer({ data }: ClusterInfo): string | undefined {
  const text: unknown = data?.[clusterInfoKey];
  if (typeof text !== 'string' || text.length > mostCharacters) return undefined;
  const server = onlyEntries(Buffer.from(text)).cluster?.['server'];
  return typeof server === 'string' && URL.parse(server)?.protocol === 'https:' ? server : undefined;
}

/** Unchecked bytes of the CA in it, or why there are none. */
export function publishedAuthority({ data }: ClusterInfo): Buffer | { readonly problem: string } {
  const text: unknown = data?.[clusterInfoKey];
  if (typeof text !== 'string') return { problem: `it has no "${clusterInfoKey}"` };
  if (text.length > mostCharacters) {
    return { problem: `its "${clusterInfoKey}" has ${text.length} characters, wanted ${mostCharacters} at most` };
  }
  const value = onlyEntries(Buffer.from(text)).cluster?.['certificate-authority-data'];
  if (typeof value !== 'string' || value === '') return { problem: 'its kubeconfig holds no CA' };
  return isBase64(value) ? Buffer.from(value, 'base64') : { problem: 'the CA in it is not base64' };
}
