// A named Secret or ConfigMap: where the API has it, the one rule for what is not there, and its newest state as long as
// it is asked for.
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

/** A list of this object alone, which RBAC by resourceNames authorises; with `&watch=true` a watch of it. */
export function namedListPath({ kind, namespace, name }: ObjectName): string {
  return withQuery(collectionPath(apiKinds[kind], namespace), { fieldSelector: `metadata.name=${name}` });
}

/** A time as Events and Leases have it, with six digits after the second. */
export const microTime = (date: Date): string => new V1MicroTime(date).toISOString();

export interface GetRequest extends Pick<KubeRequest, 'signal' | 'timeoutMs' | 'longestMs'> {
  readonly connection: Pick<KubeConnection, 'request'>;
}

/** Undefined where the API server says 404. Throws whatever else the connection throws. */
export async function getIfPresent<T>({ connection, ...limits }: GetRequest, path: string): Promise<T | undefined> {
  try {
    return await connection.request<T>({ method: 'GET', path, ...limits });
  } catch (err) {
    if (isCode(err, 'KubeNotFound')) return undefined;
    throw err;
  }
}

type WatchObjectOptions<T> = ObjectName &
  Omit<ListWatchOptions<T>, 'path' | 'pages' | 'objects' | 'onList' | 'onEvent'> & {
    /** Called with the newest state after each list and each event. Must return at once and must not throw. */
    readonly onState: (state: ObjectState<T>) => void;
  };

/**
 * Reports the object's newest state until `signal` aborts, by a list and a watch narrowed to its name. "Absent" is said only
 * after a successful list without the object or a DELETED event, never because of an error. Never rejects.
 */
export function watchObject<T extends Secret | ConfigMap>(options: WatchObjectOptions<T>): Promise<void> {
  return watchNamed(options);
}

interface Versioned {
  readonly metadata?: { readonly resourceVersion?: string };
}

/**
 * As watchObject, without the content: who may write objects decides how large they are, and of many watches each may just
 * receive one.
 */
export function watchMetadata(options: WatchObjectOptions<Versioned>): Promise<void> {
  return watchNamed({ ...options, objects: 'metadata' });
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
