// The newest state of one named Secret or ConfigMap: a list and a watch (list-watch.ts) narrowed to its name, which RBAC
// by resourceNames authorises. "Absent" is said only after a successful list without the object or a DELETED event,
// never because of an error.
import { namedListPath } from './objects.ts';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { ConfigMap, KubeConnection, ObjectState, Secret } from './kube.ts';
import { listWatch, type WatchStatus } from './list-watch.ts';

interface WatchObjectOptions<T extends Secret | ConfigMap> {
  readonly connection: KubeConnection;
  readonly kind: 'secret' | 'configMap';
  readonly namespace: string;
  readonly name: string;
  /** Called with the newest state after each list and each event. Must return at once and must not throw. */
  readonly onState: (state: ObjectState<T>) => void;
  readonly onStatus?: (status: WatchStatus) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** A kube-apiserver sends a bookmark about every minute. Default 90 000. */
  readonly silenceMs?: number;
  readonly random?: () => number;
}

/** Reports the object's newest state until `signal` aborts. Never rejects. */
export function watchObject<T extends Secret | ConfigMap>(options: WatchObjectOptions<T>): Promise<void> {
  const { kind, namespace, name, onState, log, ...rest } = options;
  return listWatch<T>({
    ...rest,
    path: namedListPath({ kind, namespace, name }),
    log: log.with({ [kind]: `${namespace}/${name}` }),
    onList: ([object]) => onState(object === undefined ? { present: false } : { present: true, object }),
    onEvent: (type, object) => onState(type === 'DELETED' ? { present: false } : { present: true, object }),
  });
}
