// A named Secret or ConfigMap: its path in the API, the one rule for its absence, and its newest state until the signal
// aborts.
import { V1MicroTime } from '@kubernetes/client-node/dist/types.js';
import { isCode } from '../errors.ts';
import type { ConfigMap, KubeConnection, KubeRequest, ObjectState, Secret } from './kube.ts';
import { listWatch, type ListWatchOptions } from './list-watch.ts';
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

type WatchObjectOptions<T> = ObjectName &
  Omit<ListWatchOptions<T>, 'path' | 'pages' | 'objects' | 'onList' | 'onEvent'> & {
    /** Called with the newest state after each list and each event. Must return immediately and must not throw. */
    readonly onState: (state: ObjectState<T>) => void;
  };

/**
 * Reports the object's newest state until `signal` aborts, by a list and a watch narrowed to its name. "Absent" is
 * reported only after a successful list without the object or a DELETED event, never because of an error. Never
 * rejects.
 */
export function watchObject<T extends Secret | ConfigMap>(options: WatchObjectOptions<T>): Promise<void> {
  return watchNamed(options);
}

interface Versioned {
  readonly metadata?: { readonly resourceVersion?: string };
}

/**
 * Variant of watchObject without the object, of which a list reports a version that is at least as new as its own:
 * users who can write objects decide how large they are, their metadata too, and many watches may receive one at the
 * same time.
 */
export function watchVersion(options: WatchObjectOptions<Versioned>): Promise<void> {
  return watchNamed({ ...options, objects: 'versions' });
}

function watchNamed<T extends object>(
  options: WatchObjectOptions<T> & Pick<ListWatchOptions<T>, 'objects'>,
): Promise<void> {
  const { kind, namespace, name, onState, log, ...rest } = options;
  return listWatch<T>({
    ...rest,
    path: namedListPath({ kind, namespace, name }),
    log: log.with({ [kind]: `${namespace}/${name}` }),
    onList: ([object]) => onState(object === undefined ? { present: false } : { present: true, object }),
    onEvent: (type, object) => onState(type === 'DELETED' ? { present: false } : { present: true, object }),
  });
}
