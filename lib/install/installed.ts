// The record of an installation: a ConfigMap beside the accounts that names the inventory and its objects in the API. So
// `uninstall` need not be told what was installed, and `--purge` finds the objects when no configuration is left. It stays
// as long as they do. Names only, no secrets.
import { RecoveryError } from '../errors.ts';
import { isOfOthers } from '../inventory/kinds.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { type Api, ownObjects, readIfThere } from './apply.ts';
import { type Manifest, manifestText, pathInApi, ownLabel } from './manifest.ts';

export interface Installed {
  readonly inventory: string;
  /** What only `--purge` deletes. */
  readonly objects: readonly ApiLocation[];
  /** The record itself. */
  readonly manifest: Manifest;
}

const prefix = 'kube-cert-recovery-installed-';

/** What of an inventory `--purge` deletes: what others keep stays theirs. Pure. */
export function purgeable({ artefacts }: Pick<Resolved, 'artefacts'>): readonly ApiLocation[] {
  return artefacts.flatMap((artefact) =>
    isFile(artefact.truth) || isOfOthers(artefact) ? [] : [artefact.truth satisfies ApiLocation],
  );
}

/** Pure. `namespace`: of the accounts. */
export function installedRecord(resolved: Pick<Resolved, 'name' | 'artefacts'>, namespace: string): Manifest {
  const objects = purgeable(resolved);
  const lines = (wanted: ApiLocation['kind']): string =>
    objects.flatMap((one) => (one.kind === wanted ? [`${one.namespace}/${one.name}\n`] : [])).join('');
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace, name: `${prefix}${resolved.name}`, labels: ownLabel },
    data: { inventory: resolved.name, secrets: lines('secret'), configMaps: lines('configMap') },
  };
}

export const isInstalledRecord = ({ kind, metadata }: Manifest): boolean =>
  kind === 'ConfigMap' && metadata.name.startsWith(prefix);

/** Those of all inventories, sorted. Throws MaterialInvalid for one that this program has not written. */
export async function readInstalled(api: Api): Promise<readonly Installed[]> {
  const records: Installed[] = [];
  for (const manifest of await ownObjects(api, 'ConfigMap')) {
    if (!isInstalledRecord(manifest)) continue;
    const found = await readIfThere<{ readonly data?: Readonly<Record<string, string>> }>(api, pathInApi(manifest));
    if (found !== undefined) records.push(parseInstalled(found.data ?? {}, manifest));
  }
  return records.toSorted((a, b) => (a.inventory < b.inventory ? -1 : 1));
}

/** Pure. */
export function parseInstalled(data: Readonly<Record<string, string>>, manifest: Manifest): Installed {
  const { inventory = '', secrets = '', configMaps = '' } = data;
  const objects = [...locations('secret', secrets), ...locations('configMap', configMaps)];
  if (manifest.metadata.name === `${prefix}${inventory}` && objects.every((one) => one !== undefined)) {
    return { inventory, objects, manifest };
  }
  const message = `Cannot use ${manifestText(manifest)}: it is not the record that init has written; run init again, or delete it and name the inventory (--preset or --config)`;
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
