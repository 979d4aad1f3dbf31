// Manifests as plain data: applies and deletes them in the API. Server-side apply: fields that the API server or
// another controller adds to the object (a token, a uid annotation) stay, and applying the same manifest again changes
// nothing.
import { isCode, RecoveryError } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { getIfPresent } from '../kube/objects.ts';
import { collectionPath, type Kind, resourcePath, typeMeta, withQuery } from '../kube/resources.ts';

export const fieldManager = 'kube-cert-recovery-init';

interface LiveObject {
  readonly metadata: Manifest['metadata'] & { readonly resourceVersion?: string };
}

export interface Api {
  readonly connection: KubeConnection;
  readonly signal: AbortSignal;
}

export async function applyManifest(api: Api, manifest: Manifest): Promise<'created' | 'updated' | 'unchanged'> {
  const path = pathInApi(manifest);
  const before = await getIfPresent<LiveObject>(api, path);
  if (manifest.kind === 'Namespace') {
    // not ours once it exists
    if (before !== undefined) return 'unchanged';
  } else if (before !== undefined && !isOurs(before)) {
    throw new RecoveryError(
      'KubeConflict',
      `Cannot apply ${manifestText(manifest)}: one is there that was not made by this program; remove or rename it`,
    );
  }
  const after = await api.connection.request<LiveObject>({
    method: 'PATCH',
    path: withQuery(path, { fieldManager, force: 'true' }),
    contentType: 'application/apply-patch+yaml',
    body: manifest,
    signal: api.signal,
  });
  if (before === undefined) return 'created';
  return before.metadata.resourceVersion === after.metadata.resourceVersion ? 'unchanged' : 'updated';
}

/** Applies all in their order, and prints the changed ones. */
export async function applyManifests(
  api: Api,
  manifests: readonly Manifest[],
  print: (line: string) => void,
): Promise<void> {
  for (const manifest of manifests) {
    const outcome = await applyManifest(api, manifest);
    if (outcome !== 'unchanged') print(`${outcome === 'created' ? 'Created' : 'Updated'} ${manifestText(manifest)}`);
  }
}

function isOurs({ metadata }: LiveObject): boolean {
  return Object.entries(ownLabel).every(([key, value]) => metadata.labels?.[key] === value);
}

/** Deletes the object; an absent object is accepted. */
export async function deleteObject({ connection, signal }: Api, path: string): Promise<'deleted' | 'absent'> {
  try {
    await connection.request({ method: 'DELETE', path, signal });
    return 'deleted';
  } catch (err) {
    if (isCode(err, 'KubeNotFound')) return 'absent';
    throw err;
  }
}

/** Objects of one kind with our label, in all namespaces. */
export async function ownObjects(api: Api, kind: Kind): Promise<Manifest[]> {
  const [label = ''] = Object.entries(ownLabel).map(([key, value]) => `${key}=${value}`);
  const path = withQuery(collectionPath(kind), {
    labelSelector: label,
    // a Secret of another type is not ours, whatever its label
    ...(kind === 'Secret' && { fieldSelector: 'type=kubernetes.io/service-account-token' }),
  });
  const list = await getIfPresent<{ readonly items?: readonly LiveObject[] }>(api, path);
  return (list?.items ?? []).map(({ metadata }) => ({ ...typeMeta(kind), metadata }));
}

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: Kind;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** Rule of a Role or a ClusterRole. */
export interface RbacRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Label of every object that `init` makes, except certificates, so that `uninstall` finds it again. */
export const ownLabel = { 'app.kubernetes.io/managed-by': 'kube-cert-recovery' } as const;

export const pathInApi = ({ kind, metadata }: Manifest): string => resourcePath(kind, metadata);

export function manifestText({ kind, metadata: { namespace, name } }: Manifest): string {
  return `${kind} "${namespace === undefined ? name : `${namespace}/${name}`}"`;
}
