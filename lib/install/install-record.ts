// Record of an installation: a ConfigMap next to the accounts that names the inventory and the objects that `init` has
// created in the API. `uninstall` learns from it what was installed, and `--purge` finds these objects without a
// configuration, and no object that existed before. It stays as long as they do. Names only, no secrets.
import type { ConfigMap } from '../kube/kube.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { PodList } from '../kube/received.ts';
import { typeMeta } from '../kube/resources.ts';
import { RecoveryError } from '../errors.ts';
import { isFile, isObject, isOfOthers } from '../inventory/places.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import { type Api, type Manifest, manifestText, ownLabel, ownObjects, pathInApi } from './apply.ts';

export interface Installed {
  readonly inventory: string;
  /** Objects that `init` has created. */
  readonly objects: readonly ApiLocation[];
  /** The record itself. */
  readonly manifest: Manifest;
}

const prefix = 'kube-cert-recovery-installed-';

/** All objects of an inventory except objects of another owner. Pure. */
export function purgeable({ artefacts }: Pick<Resolved, 'artefacts'>): readonly ApiLocation[] {
  return artefacts.flatMap((artefact) =>
    !isObject(artefact.location) || isOfOthers(artefact) ? [] : [artefact.location satisfies ApiLocation],
  );
}

/** Whether another controller, such as an operator, works on objects of this inventory: any may be its own. Pure. */
export const isShared = ({ artefacts }: Pick<Resolved, 'artefacts'>): boolean =>
  artefacts.some((artefact) => !isFile(artefact.location) && isOfOthers(artefact));

/** Pure. `namespace`: namespace of the accounts. */
export function installedRecord(inventory: string, namespace: string, created: readonly ApiLocation[]): Manifest {
  const lines = (wanted: ApiLocation['kind']): string => {
    const names = created.flatMap(({ kind, ...one }) => (kind === wanted ? [`${one.namespace}/${one.name}\n`] : []));
    return [...new Set(names)].toSorted().join('');
  };
  return {
    ...typeMeta('ConfigMap'),
    metadata: { namespace, name: `${prefix}${inventory}`, labels: ownLabel },
    data: { inventory, objects: 'created', secrets: lines('secret'), configMaps: lines('configMap') },
  };
}

/**
 * Returns the record to apply before `absent` is created: the current record plus these objects. Call it after their
 * absence was seen. Then two machines that adopt at the same time do not lose each other's entries: objects that the
 * other machine creates from here on were absent here, too. Throws MaterialInvalid.
 */
export async function recordToCome(
  api: Api,
  { resolved, namespace, absent }: { resolved: Resolved; namespace: string; absent: readonly ApiLocation[] },
): Promise<Manifest> {
  const known = await readRecord(api, installedRecord(resolved.name, namespace, []));
  return installedRecord(resolved.name, namespace, [...(known?.objects ?? []), ...absent]);
}

async function readRecord(api: Api, manifest: Manifest): Promise<Installed | undefined> {
  const found = await getIfPresent<ConfigMap>(api, pathInApi(manifest));
  return found && parseInstalled(found.data ?? {}, manifest);
}

export const isInstalledRecord = ({ kind, metadata }: Manifest): boolean =>
  kind === 'ConfigMap' && metadata.name.startsWith(prefix);

/** Records of all inventories, sorted. Throws MaterialInvalid for a record that this program has not written. */
export async function readInstalled(api: Api): Promise<readonly Installed[]> {
  const records: Installed[] = [];
  for (const manifest of await ownObjects(api, 'ConfigMap')) {
    if (!isInstalledRecord(manifest)) continue;
    const found = await readRecord(api, manifest);
    if (found !== undefined) records.push(found);
  }
  return records.toSorted((a, b) => (a.inventory < b.inventory ? -1 : 1));
}

/** Pure. */
export function parseInstalled(data: Readonly<Record<string, string>>, manifest: Manifest): Installed {
  const { inventory = '', objects: which, secrets = '', configMaps = '' } = data;
  const objects = [...locations('secret', secrets), ...locations('configMap', configMaps)];
  const isRecord = manifest.metadata.name === `${prefix}${inventory}` && which === 'created';
  if (isRecord && objects.every((one) => one !== undefined)) return { inventory, objects, manifest };
  const message = `Cannot use ${manifestText(manifest)}: it is not the record that init has written; delete it, and name the inventory to uninstall (--preset or --config)`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** Undefined for a line that names no object. */
function locations(kind: ApiLocation['kind'], text: string): (ApiLocation | undefined)[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [, namespace, name] = /^([a-z0-9][a-z0-9.-]*)\/([a-z0-9][a-z0-9.-]*)$/.exec(line) ?? [];
    return namespace === undefined || name === undefined ? undefined : { kind, namespace, name };
  });
}

/** Digest of everything that `init adopt` added to a static pod: in a mirror pod it identifies the running manifest. */
export const digestAnnotation = 'kube-cert-recovery/digest';

/**
 * Names of adopted machines, sorted. Mirror pods have the annotations of the manifests that kubelets run, also on
 * machines that are off. Throws the API's refusals.
 */
export async function adoptedNodes(api: Api): Promise<readonly string[]> {
  const pods = await getIfPresent<PodList>(api, '/api/v1/namespaces/kube-system/pods');
  const adopted = (pods?.items ?? []).filter(({ metadata }) => digestAnnotation in (metadata?.annotations ?? {}));
  return [...new Set(adopted.map(({ metadata, spec }) => spec?.nodeName ?? metadata?.name ?? ''))].toSorted();
}
