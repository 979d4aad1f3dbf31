// Expiry of the certificates of a control-plane Machine, for Cluster API: its annotation takes precedence over the
// value read when the Machine was made (kubernetes-sigs/cluster-api, internal/controllers/machine,
// reconcileCertificateExpiry), and KubeadmControlPlane rolls out by it (rolloutBefore.certificatesExpiryDays). After a
// renewal in place it must match the certificate served, or the Machine is replaced for nothing.
import { machineApis } from '../config/address-settings.ts';
import type { ManagementPlace } from '../config/management-settings.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { ReceivedObject } from '../kube/received.ts';

/** MachineCertificatesExpiryDateAnnotation of cluster-api's api/core. */
export const expiryAnnotation = 'machine.cluster.x-k8s.io/certificates-expiry';

interface Annotating {
  readonly connection: Pick<KubeConnection, 'request'>;
  readonly machine: ManagementPlace;
  /** notAfter of the certificate that kube-apiserver serves. */
  readonly notAfter: Date;
  readonly signal: AbortSignal;
}

export const machineText = ({ namespace, name }: ManagementPlace): string => `Machine "${namespace}/${name}"`;

/** RFC 3339 in seconds, as Cluster API writes and reads it. */
export const expiryText = (notAfter: Date): string => notAfter.toISOString().replace(/\.\d+Z$/, 'Z');

/** Writes the annotation. Throws KubeNotFound where there is no such Machine, and errors of the connection. */
export async function annotateMachine(annotating: Annotating): Promise<'written' | 'unchanged'> {
  const { connection, machine, notAfter, signal } = annotating;
  const { path, object } = await readMachine(annotating);
  const { annotations, resourceVersion, deletionTimestamp } = object.metadata ?? {};
  const wanted = expiryText(notAfter);
  if (annotations?.[expiryAnnotation] === wanted || (deletionTimestamp ?? '') !== '') return 'unchanged';
  if (!resourceVersion) {
    throw new RecoveryError(
      'KubeWrongAnswer',
      `Cannot write ${machineText(machine)}: the answer has no resourceVersion`,
    );
  }
  const body = { metadata: { resourceVersion, annotations: { [expiryAnnotation]: wanted } } };
  await connection.request({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body, signal });
  return 'written';
}

async function readMachine({ connection, machine, signal }: Annotating) {
  const { group, versions } = machineApis.clusterAPI;
  const { namespace, name } = machine;
  let absent: unknown;
  for (const version of versions) {
    const path = `/apis/${group}/${version}/namespaces/${namespace}/machines/${encodeURIComponent(name)}`;
    try {
      return { path, object: await connection.request<ReceivedObject>({ method: 'GET', path, signal }) };
    } catch (err) {
      if (!isCode(err, 'KubeNotFound')) throw err;
      absent = err;
    }
  }
  throw absent;
}
