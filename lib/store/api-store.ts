// The store of artefacts in Secrets and ConfigMaps. Every write is guarded by the server: an existing object by the
// resourceVersion that was read, an absent one by an apply that only succeeds while the object is absent. The live
// object is put back whole, so entries, labels and annotations that the inventory does not know stay unchanged.
import { isUtf8 } from 'node:buffer';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { ApiLocation, Location } from '../inventory/model.ts';
import type { ConfigMap, KubeConnection, Secret } from '../kube/kube.ts';
import { sharingReads } from '../kube/shared-reads.ts';
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
import { isObject } from '../inventory/places.ts';
import { readField } from './object-field.ts';
import { caBundleKey, privateKeyKey } from '../inventory/content.ts';
import { apiKinds } from '../kube/resources.ts';

type ObjectMeta = NonNullable<Secret['metadata']>;

/**
 * A Secret or ConfigMap; further fields of the server's answer are sent back unchanged. A ConfigMap has in `binaryData`
 * the files that `kubectl create --from-file` takes for binary; no key is both there and in `data`.
 */
interface ApiObject extends Omit<Secret & ConfigMap, 'metadata'> {
  readonly metadata?: Pick<ObjectMeta, 'namespace' | 'name' | 'resourceVersion' | 'annotations' | 'labels'>;
}

interface ApiStoreOptions {
  readonly connection: Pick<KubeConnection, 'request'>;
  /** Named in the managedFields of every object that is written. */
  readonly fieldManager: string;
}

type SeenObject = Exclude<Seen, 'absent'>;

/** A client that writes metadata twenty times a second fits between two attempts. */
const mostAttempts = 5;

/** Limits of a read: an API server that starts or hangs is tried again, and a slow one gets more time. */
const readLimits = { timeoutMs: 3000, longestMs: 30_000 };

export function createApiStore({ connection, fieldManager }: ApiStoreOptions): Store {
  // The object of the last read, by path. A PUT is made from it when it has the resourceVersion that the caller saw;
  // then a second GET would prove nothing, because the server compares the resourceVersion again anyway, and recovery
  // would pay one more round trip for each artefact. Large objects are not kept, but read again.
  const lastRead = new Map<string, ApiObject>();
  /** Serialises writes that read again: other users of the objects determine their size. */
  let largeWrites: Promise<unknown> = Promise.resolve();

  const shared = sharingReads(connection);

  async function get(
    location: ApiLocation,
    signal: AbortSignal,
    from: Pick<KubeConnection, 'request'> = connection,
  ): Promise<ApiObject | undefined> {
    const path = objectPath(location);
    lastRead.delete(path);
    const object = await getIfPresent<ApiObject>({ connection: from, ...readLimits, signal }, path);
    if (object !== undefined && isSmall(object)) lastRead.set(path, object);
    return object;
  }

  async function replace(location: ApiLocation, next: Material, seen: SeenObject, signal: AbortSignal): Promise<void> {
    const cached = lastRead.get(objectPath(location));
    if (cached?.metadata?.resourceVersion === seen.version) {
      const conflict = await put(location, next, cached, signal).then(() => undefined, conflictOf);
      if (conflict === undefined) return;
      // Only the entries that were seen show whether another client has changed more than metadata.
      if (seen.entries === undefined) throw conflict;
    }
    const write = async (): Promise<void> => {
      for (let attempt = 2; ; attempt += 1) {
        const live = await get(location, signal);
        if (live === undefined || !isAsSeen(location, live, seen, next)) throw changed(location);
        const conflict = await put(location, next, live, signal).then(() => undefined, conflictOf);
        if (conflict === undefined) return;
        if (seen.entries === undefined || attempt >= mostAttempts) throw conflict;
      }
    };
    const mine = largeWrites.then(write);
    largeWrites = mine.catch(() => undefined);
    return mine;
  }

  async function put(location: ApiLocation, next: Material, live: ApiObject, signal: AbortSignal): Promise<void> {
    if (live.immutable === true) throw immutable(location);
    const path = `${objectPath(location)}?fieldManager=${fieldManager}`;
    await connection.request({ method: 'PUT', path, body: merged(location, live, next), signal });
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
      if (location.kind === 'field') return readField(location, { connection: shared, ...readLimits, signal });
      const at = apiLocation(location);
      const object = await get(at, signal, shared);
      return object === undefined ? undefined : foundIn(at, object);
    },

    async write(location, next, seen: Seen, signal): Promise<'written' | 'conflict'> {
      const at = apiLocation(location);
      verifyMaterial(at, next);
      try {
        if (seen === 'absent') await create(at, next, signal);
        else await replace(at, next, seen, signal);
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

/** The error, where it is a conflict; throws another. */
function conflictOf(err: unknown): RecoveryError {
  if (isCode(err, 'KubeConflict')) return err;
  throw err;
}

const smallCharacters = 64 * 1024;

/** Whether the parts under control of other clients are small. */
function isSmall({ data, binaryData, metadata }: ApiObject): boolean {
  let size = 0;
  for (const texts of [data, binaryData, metadata?.annotations]) {
    for (const value of Object.values(texts ?? {})) size += (value as string | null)?.length ?? 0;
  }
  return size <= smallCharacters;
}

function apiLocation(location: Location): ApiLocation {
  if (isObject(location)) return location;
  throw new RecoveryError('ReadFailed', `Cannot use ${locationText(location)}: not an object of the API`);
}

function changed(location: ApiLocation): RecoveryError {
  return new RecoveryError(
    'KubeConflict',
    `Cannot replace ${locationText(location)}: it has changed since it was read`,
  );
}

/** Whether it has the version that was seen, or each entry to be written is still as it was seen. */
function isAsSeen(location: ApiLocation, live: ApiObject, { version, entries }: SeenObject, next: Material): boolean {
  if (live.metadata?.resourceVersion === version) return true;
  if (entries === undefined) return false;
  const held = objectEntries(location.kind, live).entries;
  return Object.keys(next.entries).every((key) => {
    const [before, now] = [entries[key], held[key]];
    return before === undefined || now === undefined ? before === now : Buffer.compare(before, now) === 0;
  });
}

/** The server would answer with a 422 that names a field; only a new object helps. */
function immutable(location: ApiLocation): RecoveryError {
  return new RecoveryError(
    'KubeRejected',
    `Cannot write ${locationText(location)}: it is immutable; delete it, then it is created again`,
  );
}

/** Content of an object. Throws ReadFailed where it has no version. */
export function foundIn(location: ApiLocation, object: ApiObject): Found {
  const version = object.metadata?.resourceVersion;
  if (version === undefined || version === '') {
    throw new RecoveryError('ReadFailed', `Cannot read ${locationText(location)}: the answer has no resourceVersion`);
  }
  const { entries: all, problem } = objectEntries(location.kind, object);
  const { annotations, labels } = object.metadata ?? {};
  return {
    version,
    entries: location.key === undefined ? all : bundleIn(all, location.key),
    problem: problem && `Cannot use ${locationText(location)}: ${problem}`,
    annotations: { ...annotations },
    labels,
  };
}

/** The bundle of one entry, under the key that bundles have in every location. */
function bundleIn(entries: Entries, key: string): Entries {
  const bundle = entries[key];
  return bundle === undefined ? {} : { [caBundleKey]: bundle };
}

type Texts = Readonly<Record<string, string>>;

export interface NewObject {
  readonly apiVersion: 'v1';
  readonly kind: 'Secret' | 'ConfigMap';
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly type?: string;
  readonly data: Texts;
  /** Bytes that are no UTF-8 would come back changed from `data`. */
  readonly binaryData?: Texts;
}

export function objectOf({ kind, namespace, name }: ApiLocation, entries: Entries): NewObject {
  const isSecret = kind === 'secret';
  const isText = ([, bytes]: readonly [string, Uint8Array]): boolean => isSecret || isUtf8(bytes);
  const all = Object.entries(entries);
  const [plain, binary] = [all.filter(isText), all.filter((entry) => !isText(entry))];
  return {
    apiVersion: 'v1',
    kind: apiKinds[kind],
    metadata: { namespace, name },
    ...(isSecret && { type: privateKeyKey in entries ? 'kubernetes.io/tls' : 'Opaque' }),
    data: encoded(plain, isSecret ? 'base64' : 'utf8'),
    ...(binary.length > 0 && { binaryData: encoded(binary, 'base64') }),
  };
}

const encoded = (entries: readonly (readonly [string, Uint8Array])[], encoding: BufferEncoding): Texts =>
  Object.fromEntries(entries.map(([key, bytes]) => [key, Buffer.from(bytes).toString(encoding)] as const));

function merged(location: ApiLocation, live: ApiObject, next: Material): ApiObject {
  const { apiVersion, kind, data, binaryData } = objectOf(location, next.entries);
  const { binaryData: before, ...others } = live;
  const binary = { ...without(before, next.entries), ...binaryData };
  return {
    ...others,
    apiVersion,
    kind,
    metadata: {
      ...live.metadata,
      ...labelled({ ...next.metadata?.labels, ...live.metadata?.labels }),
      annotations: { ...next.metadata?.annotations, ...live.metadata?.annotations, ...next.annotations },
    },
    data: { ...without(live.data, next.entries), ...data },
    ...(Object.keys(binary).length > 0 && { binaryData: binary }),
  };
}

/** Removes written keys: the server refuses a key that is in data and in binaryData. */
function without(held: ApiObject['data'], written: Entries): Record<string, string> {
  return Object.fromEntries(Object.entries(held ?? {}).filter(([key]) => !(key in written)));
}

function absentObject(location: ApiLocation, next: Material): ApiObject {
  const object = objectOf(location, next.entries);
  return {
    ...object,
    metadata: {
      ...object.metadata,
      ...labelled({ ...next.metadata?.labels }),
      annotations: { ...next.metadata?.annotations, ...next.annotations },
      // No object ever has this version. With it the server answers 409 when the object exists, and 201 when it does
      // not; without it an apply by the same field manager overwrites an object that a second actor has just created.
      resourceVersion: '1',
    },
  };
}

const labelled = (labels: Readonly<Record<string, string>>): Pick<NonNullable<ApiObject['metadata']>, 'labels'> =>
  Object.keys(labels).length === 0 ? {} : { labels };
