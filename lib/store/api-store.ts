// The store of artefacts that live in Secrets and ConfigMaps. Every write is guarded by the server: an existing object
// by the resourceVersion that was read, an absent one by an apply that only succeeds while nothing is there. The live
// object is put back whole, so entries, labels and annotations that the inventory does not know stay as they are.
import { isUtf8 } from 'node:buffer';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import { RecoveryError, isCode } from '../errors.ts';
import type { ApiLocation, Location } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { objectEntries } from './object-entries.ts';
import {
  locationText,
  verifyMaterial,
  type Entries,
  type Found,
  type Material,
  type Seen,
  type Store,
} from './store.ts';
import { isFile } from '../inventory/places.ts';
import { privateKeyKey } from '../inventory/content.ts';

/** What a Secret and a ConfigMap have in common; whatever else the server sends goes back as it came. */
interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly type?: string;
  readonly metadata?: {
    readonly namespace?: string;
    readonly name?: string;
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  /** Of a ConfigMap, base64: what `kubectl create --from-file` takes for no text. No key is both here and in data. */
  readonly binaryData?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

interface ApiStoreOptions {
  readonly connection: KubeConnection;
  /** Named in the managedFields of every object that is written. */
  readonly fieldManager: string;
  /** Until a read is given up, milliseconds. Default 3000: an API server that starts or hangs is asked again. */
  readonly readTimeoutMs?: number;
}

export function createApiStore({ connection, fieldManager, readTimeoutMs = 3000 }: ApiStoreOptions): Store {
  // The object of the last read, by path. A PUT is made from it when its resourceVersion is the one that the caller
  // saw; then a second GET would prove nothing, because the server compares the resourceVersion again anyway, and
  // recovery would pay one more round trip for each artefact.
  const lastRead = new Map<string, ApiObject>();

  async function get(location: ApiLocation, signal: AbortSignal): Promise<ApiObject | undefined> {
    const path = objectPath(location);
    lastRead.delete(path);
    const object = await getIfPresent<ApiObject>({ connection, timeoutMs: readTimeoutMs, signal }, path);
    if (object !== undefined) lastRead.set(path, object);
    return object;
  }

  async function replace(location: ApiLocation, next: Material, version: string, signal: AbortSignal): Promise<void> {
    const path = objectPath(location);
    const cached = lastRead.get(path);
    const live = cached?.metadata?.resourceVersion === version ? cached : await get(location, signal);
    if (live?.metadata?.resourceVersion !== version) throw changed(location);
    if (live.immutable === true) throw immutable(location);
    const body = merged(location, live, next);
    await connection.request({ method: 'PUT', path: `${path}?fieldManager=${fieldManager}`, body, signal });
  }

  async function create(location: ApiLocation, next: Material, signal: AbortSignal): Promise<void> {
    const path = `${objectPath(location)}?fieldManager=${fieldManager}`;
    try {
      // Not a POST: RBAC cannot limit `create` by name there, and can here.
      const contentType = 'application/apply-patch+yaml';
      await connection.request({ method: 'PATCH', path, contentType, body: absentObject(location, next), signal });
    } catch (err) {
      if (!isCode(err, 'KubeNotFound')) throw err;
      throw new RecoveryError(
        'WriteFailed',
        `Cannot create ${locationText(location)}: namespace "${location.namespace}" does not exist; create it`,
        { cause: err },
      );
    }
  }

  return {
    async read(location, signal): Promise<Found | undefined> {
      const object = await get(apiLocation(location), signal);
      return object === undefined ? undefined : foundIn(location, object);
    },

    async write(location, next, seen: Seen, signal): Promise<'written' | 'conflict'> {
      const at = apiLocation(location);
      verifyMaterial(at, next);
      try {
        if (seen === 'absent') await create(at, next, signal);
        else await replace(at, next, seen.version, signal);
        return 'written';
      } catch (err) {
        // Not found by a PUT: deleted since it was seen. A create reports a missing namespace as WriteFailed.
        if (isCode(err, 'KubeConflict', 'KubeNotFound')) return 'conflict';
        throw err;
      } finally {
        lastRead.delete(objectPath(at));
      }
    },
  };
}

function apiLocation(location: Location): ApiLocation {
  if (!isFile(location)) return location;
  throw new RecoveryError('ReadFailed', `Cannot use ${locationText(location)}: not an object of the API`);
}

function changed(location: ApiLocation): RecoveryError {
  return new RecoveryError(
    'KubeConflict',
    `Cannot replace ${locationText(location)}: it has changed since it was read`,
  );
}

/** The server would say the same with a 422 that names a field; nothing but a new object helps. */
function immutable(location: ApiLocation): RecoveryError {
  return new RecoveryError(
    'KubeRejected',
    `Cannot write ${locationText(location)}: it is immutable; delete it, then it is created again`,
  );
}

/** What an object holds. Throws ReadFailed where it has no version. */
export function foundIn(location: Location, object: ApiObject): Found {
  const version = object.metadata?.resourceVersion;
  if (version === undefined || version === '') {
    throw new RecoveryError('ReadFailed', `Cannot read ${locationText(location)}: the answer has no resourceVersion`);
  }
  const { entries, problem } = objectEntries(location.kind === 'secret' ? 'secret' : 'configMap', object);
  const { annotations, labels } = object.metadata ?? {};
  return {
    version,
    entries,
    problem: problem && `Cannot use ${locationText(location)}: ${problem}`,
    annotations: { ...annotations },
    labels,
  };
}

/** As the server takes them. A ConfigMap has text in data; what is no UTF-8 would not come back as it was. */
function encoded(location: ApiLocation, entries: Entries): Required<Pick<ApiObject, 'data' | 'binaryData'>> {
  const isText = (value: Uint8Array): boolean => location.kind === 'configMap' && isUtf8(value);
  const as = (encoding: BufferEncoding, wanted: (value: Uint8Array) => boolean): Record<string, string> =>
    Object.fromEntries(
      Object.entries(entries).flatMap(([key, value]) =>
        wanted(value) ? [[key, Buffer.from(value).toString(encoding)] as const] : [],
      ),
    );
  if (location.kind === 'secret') return { data: as('base64', () => true), binaryData: {} };
  return { data: as('utf8', isText), binaryData: as('base64', (value) => !isText(value)) };
}

function merged(location: ApiLocation, live: ApiObject, next: Material): ApiObject {
  // A PUT without a resourceVersion overwrites whatever is there.
  if ((live.metadata?.resourceVersion ?? '') === '') throw changed(location);
  const { data, binaryData } = encoded(location, next.entries);
  const { binaryData: _, ...others } = live;
  return {
    ...others,
    ...typeMeta(location),
    metadata: {
      ...live.metadata,
      ...labelled({ ...next.metadata?.labels, ...live.metadata?.labels }),
      annotations: { ...next.metadata?.annotations, ...live.metadata?.annotations, ...next.annotations },
    },
    data: { ...without(live.data, next.entries), ...data },
    ...binary({ ...without(live.binaryData, next.entries), ...binaryData }),
  };
}

/** The server refuses a key that is in data and in binaryData. */
function without(held: ApiObject['data'], written: Entries): Record<string, string> {
  return Object.fromEntries(Object.entries(held ?? {}).filter(([key]) => !(key in written)));
}

const binary = (binaryData: Readonly<Record<string, string>>): Pick<ApiObject, 'binaryData'> =>
  Object.keys(binaryData).length === 0 ? {} : { binaryData };

function absentObject(location: ApiLocation, next: Material): ApiObject {
  const { namespace, name } = location;
  const { data, binaryData } = encoded(location, next.entries);
  return {
    ...typeMeta(location),
    metadata: {
      namespace,
      name,
      ...labelled({ ...next.metadata?.labels }),
      annotations: { ...next.metadata?.annotations, ...next.annotations },
      // No object ever has this version. With it the server answers 409 when something is there, and 201 when nothing
      // is; without it an apply by the same field manager overwrites what a second actor has just made.
      resourceVersion: '1',
    },
    ...(location.kind === 'secret' ? { type: privateKeyKey in next.entries ? 'kubernetes.io/tls' : 'Opaque' } : {}),
    data,
    ...binary(binaryData),
  };
}

const labelled = (labels: Readonly<Record<string, string>>): Pick<NonNullable<ApiObject['metadata']>, 'labels'> =>
  Object.keys(labels).length === 0 ? {} : { labels };

function typeMeta(location: ApiLocation): { apiVersion: string; kind: string } {
  return { apiVersion: 'v1', kind: location.kind === 'secret' ? 'Secret' : 'ConfigMap' };
}
