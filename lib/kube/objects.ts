// A named Secret or ConfigMap: its path in the API, the one rule for its absence, its replacement by compare-and-swap,
// and its newest version until the signal aborts.
import { V1MicroTime } from '@kubernetes/client-node/dist/types.js';
import { isCode } from '../errors.ts';
import type { KubeConnection, KubeRequest } from './kube.ts';
import { listWatch, type ListWatchOptions } from './list-watch.ts';
import type { ReceivedObject } from './received.ts';
import { collectionPath, apiKinds, resourcePath, withQuery } from './resources.ts';

interface ObjectName {
  readonly kind: keyof typeof apiKinds;
  readonly namespace: string;
  readonly name: string;
}

export const objectPath = ({ kind, ...object }: ObjectName): string => resourcePath(apiKinds[kind], object);

/** Path of a list of this object alone, which RBAC by resourceNames authorises; with `&watch=true` a watch of it. */
export function namedListPath({ kind, namespace, name }: ObjectName): string {
  return withQuery(collectionPath(apiKinds[kind], namespace), { fieldSelector: `metadata.name=${name}` });
}

/** A time in the format of Events and Leases, with six digits after the second. */
export const microTime = (date: Date): string => new V1MicroTime(date).toISOString();

export interface GetRequest extends Pick<KubeRequest, 'signal' | 'timeoutMs' | 'longestMs'> {
  readonly connection: Pick<KubeConnection, 'request'>;
}

/** Undefined where the API server answers 404. Throws all other errors of the connection. */
export async function getIfPresent<T>({ connection, ...limits }: GetRequest, path: string): Promise<T | undefined> {
  try {
    return await connection.request<T>({ method: 'GET', path, ...limits });
  } catch (err) {
    if (isCode(err, 'KubeNotFound')) return undefined;
    throw err;
  }
}

/**
 * Compare and swap: reads an object, changes it and replaces it unless it has changed since (the connection refuses a
 * PUT without a resourceVersion); after a conflict it is read again. `change` returns undefined where nothing is to be
 * written. Throws KubeConflict after the last attempt, and the connection's errors.
 */
export async function updateObject<T extends object>(
  request: GetRequest,
  path: string,
  change: (found: T) => T | undefined | Promise<T | undefined>,
  attempts = 5,
): Promise<'written' | 'unchanged' | 'absent'> {
  const { connection, ...limits } = request;
  for (let attempt = 1; ; attempt += 1) {
    const found = await getIfPresent<T>(request, path);
    const body = found && (await change(found));
    if (body === undefined) return found === undefined ? 'absent' : 'unchanged';
    try {
      await connection.request({
        method: 'PUT',
        path: withQuery(path, { fieldManager: 'kube-cert-recovery' }),
        body,
        ...limits,
      });
      return 'written';
    } catch (err) {
      if (!isCode(err, 'KubeConflict') || attempt >= attempts) throw err;
    }
  }
}

interface WatchPathOptions extends Omit<ListWatchOptions<ReceivedObject>, 'pages' | 'objects' | 'onList' | 'onEvent'> {
  /** Called after each list and each event; undefined: absent. Must return immediately and must not throw. */
  readonly onVersion: (version: string | undefined) => void;
}

/** Watches a Secret or a ConfigMap. */
export function watchVersion({
  kind,
  namespace,
  name,
  log,
  ...rest
}: ObjectName & Omit<WatchPathOptions, 'path'>): Promise<void> {
  const path = namedListPath({ kind, namespace, name });
  return watchPath({ ...rest, path, log: log.with({ [kind]: `${namespace}/${name}` }) });
}

/**
 * Reports the newest version of the object that alone is in the list at `path` until `signal` aborts, by a list and a
 * watch narrowed to its name. "Absent" is reported only after a successful list without the object or a DELETED event,
 * never because of an error. Never rejects.
 *
 * The object itself is not requested, and a list reports a version that is at least as new as its own: users who can
 * write objects decide how large they are, their metadata too, and many watches may receive one at the same time.
 */
export function watchPath({ onVersion, ...rest }: WatchPathOptions): Promise<void> {
  return listWatch<ReceivedObject>({
    ...rest,
    objects: 'versions',
    onList: ([object]) => onVersion(object?.metadata?.resourceVersion),
    onEvent: (type, object) => onVersion(type === 'DELETED' ? undefined : object.metadata?.resourceVersion),
  });
}
