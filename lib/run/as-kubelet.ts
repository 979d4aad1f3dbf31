// Requests as the kubelet of this node, by its own credential: what a node may do of itself needs no further right.
import { RecoveryError } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { readLease } from '../kube/leases.ts';
import type { NodeObject } from '../kube/received.ts';
import { resourcePath } from '../kube/resources.ts';
import { readKubeconfig } from '../kubeconfig/credentials.ts';
import type { Running } from '../log.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { kubeletOf } from '../plan/request-rules.ts';
import { componentsOf } from '../restart/decide.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** Undefined where no kubelet is known here. */
export const credentialOfKubelet = ({ resolved }: Pick<Runtime, 'resolved'>): string | undefined =>
  componentsOf(resolved).find(({ name }) => name === 'kubelet')?.file;

/** Throws ConfigInvalid where the kubelet has another kind of credential, and errors of the connection. */
export async function asKubelet<T>(
  kubeconfig: string,
  { clock, log, signal }: Running,
  work: (connection: KubeConnection, node: string) => Promise<T>,
): Promise<T> {
  const { clientCertificate } = await readKubeconfig(kubeconfig);
  const leaf = clientCertificate && parseCertificates(clientCertificate.cert, `"${kubeconfig}"`, 'skipped')[0];
  const node = kubeletOf(leaf?.facts);
  if (node === undefined) {
    throw new RecoveryError('ConfigInvalid', `Cannot report as "${kubeconfig}": it has no certificate of a node`);
  }
  return withConnection(kubeconfig, { config: { once: true }, clock, log, signal }, (connection) =>
    work(connection, node),
  );
}

const askMs = 3000;

/** Whether this Node is Ready, by a kubelet that has renewed its Lease since then: an older state is that before a boot. */
export function isReadySince(since: Date, kubeconfig: string, running: Running): Promise<boolean> {
  const asking = { signal: running.signal, timeoutMs: askMs };
  return asKubelet(kubeconfig, running, async (connection, node) => {
    const path = resourcePath('Node', { name: node });
    const { status } = await connection.request<NodeObject>({ method: 'GET', path, ...asking });
    const lease = await readLease({ connection, lease: { namespace: 'kube-node-lease', name: node }, ...asking });
    const isReady = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
    return isReady && new Date(lease.spec?.renewTime ?? 0) >= since;
  }).catch(() => false);
}
