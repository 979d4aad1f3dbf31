// Expiry of the certificates of a control-plane Machine, for Cluster API: its annotation takes precedence over the
// value read when the Machine was made (kubernetes-sigs/cluster-api, internal/controllers/machine,
// reconcileCertificateExpiry), and KubeadmControlPlane rolls out by it (rolloutBefore.certificatesExpiryDays). After a
// renewal in place it must match the certificate served, or the Machine is replaced for nothing.
import { machineApis } from '../config/address-settings.ts';
import type { ManagementPlace } from '../config/management-settings.ts';
import type { RegenConfig } from '../config/mode-settings.ts';
import { secondsText } from '../clock.ts';
import { errorFields, isCode, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { ReceivedObject } from '../kube/received.ts';
import { identityOf, inTime, withPlace } from '../origin/other-cluster.ts';
import { connectorOf } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** MachineCertificatesExpiryDateAnnotation of cluster-api's api/core. */
export const expiryAnnotation = 'machine.cluster.x-k8s.io/certificates-expiry';

const machineText = ({ namespace, name }: ManagementPlace): string => `Machine "${namespace}/${name}"`;

/** A timer runs each minute; another controller may have changed the annotation. */
const pace = { againMs: 24 * 3_600_000, afterFailureMs: 600_000 };

/**
 * `regen.machine`: annotates the Machine in the management cluster with notAfter of the certificate that kube-apiserver
 * serves. Never rejects: a management cluster that is away is none of this machine's faults.
 */
export async function keepMachineExpiry(mode: RegenConfig, notAfter: Date, runtime: Runtime): Promise<void> {
  const { machine, lockDir } = mode;
  const { clock, log, signal } = runtime;
  if (machine === undefined) return;
  const [message, wanted] = [machineText(machine), secondsText(notAfter)];
  const connect = connectorOf({ clock, log, signal });
  const what = `${identityOf(machine)} ${wanted}`;
  await new RunState(lockDir).whenDue('machine-expiry', what, { ...pace, clock }, async () => {
    try {
      const outcome = await inTime(signal, message, (limited) =>
        withPlace(machine, connect, (connection) => annotate({ connection, machine, wanted, signal: limited })),
      );
      if (outcome === 'written') log.info('machine.annotated', { message, notAfter: notAfter.toISOString() });
      return 'done';
    } catch (err) {
      if (signal.aborted) return 'open';
      log.warn('machine.failed', { message, ...errorFields(err) });
      return 'failed';
    }
  });
}

interface Annotating {
  readonly connection: KubeConnection;
  readonly machine: ManagementPlace;
  readonly wanted: string;
  readonly signal: AbortSignal;
}

/** Throws KubeNotFound where there is no such Machine, and errors of the connection. */
async function annotate(annotating: Annotating): Promise<'written' | 'unchanged'> {
  const { connection, machine, wanted, signal } = annotating;
  const { path, object } = await readMachine(annotating);
  const { annotations, resourceVersion, deletionTimestamp } = object.metadata ?? {};
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
