// The ConfigMaps in which approvers record facts that must hold for all approvers, after a restart, and after the API
// has dropped a request, an hour later. `init` creates them; neither a node nor any requester can write them, and
// approvers may get and update these alone. Concurrent writes conflict by the resourceVersion.
import { isCode, RecoveryError } from '../errors.ts';
import type { ConfigMap } from '../kube/kube.ts';
import { objectPath } from '../kube/objects.ts';
import { locationText } from '../store/store.ts';
import type { ApproverOptions } from './settings.ts';

export type RecordAccess = Pick<ApproverOptions, 'connection' | 'namespace' | 'signal'>;

export type Recorded = Readonly<Record<string, string>>;

/** Own entries only: a node may have a name that every object has: `constructor`. */
export const recordedEntry = (entries: Recorded, name: string): string | undefined =>
  Object.hasOwn(entries, name) ? entries[name] : undefined;

/**
 * Result of a write before an approval, so that a process that dies in between approves too little and not too much.
 */
export type Noted = 'noted' | 'conflict';

export class RecordObject {
  readonly #place: { readonly kind: 'configMap'; readonly namespace: string; readonly name: string };
  readonly #access: RecordAccess;
  readonly #purpose: string;

  /** `purpose`, for messages: the question that cannot be answered without the ConfigMap. */
  constructor(name: string, purpose: string, access: RecordAccess) {
    this.#place = { kind: 'configMap', namespace: access.namespace, name };
    this.#access = access;
    this.#purpose = purpose;
  }

  /** Throws KubeNotFound and KubeForbidden with advice, and when the API refuses otherwise. */
  async read(): Promise<Recorded> {
    return entriesOf(await this.#get());
  }

  /**
   * `change` returns undefined where nothing is to be written. `conflict`: another approver has written since the read.
   */
  async write(change: (entries: Recorded) => Recorded | 'conflict' | undefined): Promise<Noted> {
    const found = await this.#get();
    const data = change(entriesOf(found));
    if (data === undefined) return 'noted';
    if (data === 'conflict') return 'conflict';
    const { connection, signal } = this.#access;
    try {
      await connection.request({ method: 'PUT', path: objectPath(this.#place), body: { ...found, data }, signal });
      return 'noted';
    } catch (err) {
      if (isCode(err, 'KubeConflict')) return 'conflict';
      throw err;
    }
  }

  async #get(): Promise<Pick<ConfigMap, 'metadata' | 'data'>> {
    const { connection, signal } = this.#access;
    try {
      return await connection.request<ConfigMap>({ method: 'GET', path: objectPath(this.#place), signal });
    } catch (err) {
      if (!isCode(err, 'KubeNotFound', 'KubeForbidden')) throw err;
      const state = err.code === 'KubeNotFound' ? 'is not there' : 'may not be read';
      const message = `Cannot tell ${this.#purpose}: ${locationText(this.#place)} ${state}; run again what installed this approver (init, init adopt or init approver), which makes it`;
      throw new RecoveryError(err.code, message, { cause: err });
    }
  }
}

const entriesOf = ({ data }: Pick<ConfigMap, 'data'>): Recorded =>
  Object.fromEntries(Object.entries(data ?? {}).filter(([, text]) => typeof text === 'string'));
