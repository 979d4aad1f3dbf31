// Where the API has a Secret or a ConfigMap, and the one rule for what is not there.
import { isCode } from '../errors.ts';
import type { KubeConnection, KubeRequest } from './kube.ts';

interface ObjectName {
  readonly kind: 'secret' | 'configMap';
  readonly namespace: string;
  readonly name: string;
}

const resources = { secret: 'secrets', configMap: 'configmaps' } as const;

/** Of all objects of this kind in the namespace. */
function collectionPath({ kind, namespace }: Omit<ObjectName, 'name'>): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/${resources[kind]}`;
}

export function objectPath(object: ObjectName): string {
  return `${collectionPath(object)}/${encodeURIComponent(object.name)}`;
}

/** A list of this object alone, which RBAC by resourceNames authorises; with `&watch=true` a watch of it. */
export function namedListPath(object: ObjectName): string {
  return `${collectionPath(object)}?fieldSelector=${encodeURIComponent(`metadata.name=${object.name}`)}`;
}

interface GetRequest extends Pick<KubeRequest, 'signal' | 'timeoutMs'> {
  readonly connection: Pick<KubeConnection, 'request'>;
}

/** Undefined where the API server says 404. Throws whatever else the connection throws. */
export async function getIfPresent<T>(
  { connection, signal, timeoutMs }: GetRequest,
  path: string,
): Promise<T | undefined> {
  try {
    return await connection.request<T>({ method: 'GET', path, signal, ...(timeoutMs !== undefined && { timeoutMs }) });
  } catch (err) {
    if (isCode(err, 'KubeNotFound')) return undefined;
    throw err;
  }
}
