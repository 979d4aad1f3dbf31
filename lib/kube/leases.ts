// A Lease (coordination.k8s.io/v1): its path in the API, its holder, and reading, creating and replacing it.
import type { V1Lease } from '@kubernetes/client-node';
import type { Received } from './received.ts';
import { type GetRequest, updateObject } from './objects.ts';
import { resourcePath, typeMeta, withQuery } from './resources.ts';

export interface LeaseName {
  readonly namespace: string;
  readonly name: string;
}

export type Lease = Received<V1Lease>;
export type LeaseSpec = NonNullable<Lease['spec']>;

/** Lease to access, by which connection and in what time. */
export interface LeaseRequest extends GetRequest {
  readonly lease: LeaseName;
}

/** Name of a Lease in messages. */
export const leaseText = ({ namespace, name }: LeaseName): string => `Lease "${namespace}/${name}"`;

export const leasePath = (lease: LeaseName): string => resourcePath('Lease', lease);

/**
 * The host name in a holder's identity: client-go users write `<host name>_<UUID>`, and a UUID has no `_`. Cutting at
 * the last one keeps `node1` apart from `node1_x`, and comparing the whole keeps it apart from `node10`.
 */
export function holderHost(identity: string): string | undefined {
  const cut = identity.lastIndexOf('_');
  return cut > 0 && cut < identity.length - 1 ? identity.slice(0, cut) : undefined;
}

/** Throws the connection's errors: KubeNotFound where there is none. */
export function readLease({ connection, lease, ...asking }: LeaseRequest): Promise<Lease> {
  return connection.request<Lease>({ method: 'GET', path: leasePath(lease), ...asking });
}

const writePath = (lease: LeaseName): string => withQuery(leasePath(lease), { fieldManager: 'kube-cert-recovery' });

/**
 * Creates by server-side apply, because RBAC can name an object that is created so; a resourceVersion that no object
 * has lets the apply only create. Throws KubeConflict where another client was quicker, and the connection's errors.
 */
export async function createLease({ connection, lease, ...asking }: LeaseRequest, spec: object): Promise<void> {
  const body = { ...typeMeta('Lease'), metadata: { ...lease, resourceVersion: '1' }, spec };
  const contentType = 'application/apply-patch+yaml';
  await connection.request({ method: 'PATCH', path: writePath(lease), contentType, body, ...asking });
}

/** Replaces the spec of the Lease that is there. Throws like updateObject. */
export const updateLease = (
  { lease, ...request }: LeaseRequest,
  change: (found: Lease) => LeaseSpec | undefined | Promise<LeaseSpec | undefined>,
  attempts?: number,
): Promise<'written' | 'unchanged' | 'absent'> => {
  const changed = async (found: Lease): Promise<Lease | undefined> => {
    const spec = await change(found);
    return spec && { ...found, spec };
  };
  return updateObject(request, leasePath(lease), changed, attempts);
};

/**
 * Replaces the Lease unless it has changed since it was read. Throws KubeConflict then, and the connection's errors.
 */
export async function replaceLease(
  { connection, lease, ...asking }: LeaseRequest,
  found: Lease,
  spec: object,
): Promise<void> {
  await connection.request({ method: 'PUT', path: writePath(lease), body: { ...found, spec }, ...asking });
}
