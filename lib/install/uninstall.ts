// `uninstall`: takes out what `init` made: rights first, then identities, then the files with their tokens. The
// certificates' own objects stay, because the control plane lives on them, and so does the binding by which the API
// server may reach kubelets; with `purge` they go too. Everything of ours is found by its label, so what an earlier
// inventory made goes as well; which objects there are besides says the record of the installation. Running it again
// finds nothing to do.
import { RecoveryError } from '../errors.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { leasePath } from '../kube/lease-path.ts';
import { objectPath } from '../kube/object-path.ts';
import { restartTurn } from '../leases/turn.ts';
import { locationText } from '../store/store.ts';
import { adoptedNodes } from './adopted-nodes.ts';
import { type Api, deleteObject, ownObjects, readIfThere } from './apply.ts';
import { namesIn, removeDirectory } from './files.ts';
import { type Installed, isInstalledRecord, purgeable, readInstalled } from './installed.ts';
import { layoutOf } from './layout.ts';
import { manifestText, pathInApi } from './manifest.ts';
import { kubeletClientBinding } from './rbac.ts';

export interface UninstallOptions {
  /** As an administrator. */
  readonly connection: KubeConnection;
  /** The inventory that somebody has named; without it the recorded one. */
  readonly resolved?: Resolved;
  readonly directory: string;
  /** Also delete every Secret and ConfigMap of the inventory, signers' keys included. */
  readonly purge?: boolean;
  /** Although machines are adopted. */
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly signal: AbortSignal;
}

export interface UninstallOutcome {
  /** Objects and directories that were (with dryRun: would be) removed. */
  readonly removed: readonly string[];
  /** What is still there, and only goes with `purge`. */
  readonly kept: readonly string[];
}

const kinds = [
  'ClusterRoleBinding',
  'RoleBinding',
  'ClusterRole',
  'Role',
  'Secret',
  'ConfigMap',
  'ServiceAccount',
] as const;

/**
 * Throws KubeConflict while machines are adopted, ConfigInvalid when it is not clear which inventory is meant, and what
 * the API refuses.
 */
export async function runUninstall(options: UninstallOptions): Promise<UninstallOutcome> {
  const { connection, signal, resolved, dryRun = false, purge = false, force = false } = options;
  const api: Api = { connection, signal };
  if (!force) await requireNoneAdopted(api);
  const records = await readInstalled(api);
  const { objects, record } = wanted(records, resolved, purge);
  const removed: string[] = [];
  const kept: string[] = [];
  const isThere = async (path: string): Promise<boolean> => (await readIfThere(api, path)) !== undefined;
  const remove = async (path: string, what: string): Promise<void> => {
    if (dryRun ? await isThere(path) : (await deleteObject(api, path)) === 'deleted') removed.push(what);
  };
  for (const kind of kinds) {
    for (const manifest of await ownObjects(api, kind)) {
      if (isInstalledRecord(manifest)) continue; // goes with its objects
      const isNeeded = kind === 'ClusterRoleBinding' && manifest.metadata.name === kubeletClientBinding && !purge;
      if (isNeeded) kept.push(`${manifestText(manifest)}, without which "kubectl logs" and "exec" are refused`);
      else await remove(pathInApi(manifest), manifestText(manifest));
    }
  }
  // Whoever took turns by it has no identity any more.
  await remove(leasePath(restartTurn), `Lease "${restartTurn.namespace}/${restartTurn.name}"`);
  if (purge) {
    for (const object of objects) await remove(objectPath(object), locationText(object));
    // Last: a run that was killed is completed by the next.
    if (record !== undefined) await remove(pathInApi(record.manifest), manifestText(record.manifest));
  } else {
    for (const { inventory, objects: own, manifest } of records) {
      const what = `${own.length} Secrets and ConfigMaps of inventory "${inventory}"`;
      kept.push(`${what}, the CAs' keys among them, which ${manifestText(manifest)} names`);
    }
  }
  const { credentials } = layoutOf(options.directory);
  if ((await namesIn(credentials)).length > 0) {
    if (!dryRun) await removeDirectory(credentials);
    removed.push(credentials);
  }
  return { removed, kept };
}

interface Wanted {
  readonly objects: readonly ApiLocation[];
  readonly record?: Installed;
}

/** What `purge` deletes. Another inventory than the installed one would leave the keys of its CAs behind. */
function wanted(records: readonly Installed[], resolved: Resolved | undefined, purge: boolean): Wanted {
  const names = records.map(({ inventory }) => `"${inventory}"`).join(', ');
  if (resolved !== undefined) {
    const record = records.find(({ inventory }) => inventory === resolved.name);
    if (record === undefined && records.length > 0) {
      const message = `Cannot uninstall inventory "${resolved.name}": what is installed is ${names}; leave out --preset and --config, or name that one`;
      throw new RecoveryError('ConfigInvalid', message);
    }
    return { objects: purgeable(resolved), ...(record !== undefined && { record }) };
  }
  const [record, ...others] = records;
  if (!purge || (record !== undefined && others.length === 0))
    return { objects: record?.objects ?? [], ...(record !== undefined && { record }) };
  const state = record === undefined ? 'no record tells what was installed' : `several are installed (${names})`;
  const message = `Cannot delete the objects of the inventory: ${state}; name one with --preset or --config`;
  throw new RecoveryError('ConfigInvalid', message);
}

/** The containers of an adopted machine live on these tokens, and its components on these certificates. */
async function requireNoneAdopted(api: Api): Promise<void> {
  const nodes = await adoptedNodes(api);
  if (nodes.length === 0) return;
  const message = `Cannot uninstall: static pods of ${nodes.join(', ')} live on it. Without these identities nothing renews their certificates, and the control plane ends with the first that expires; run "kube-cert-recovery uninstall adopt" there first, and delete the Node of a machine that is gone for good. --force does it all the same`;
  throw new RecoveryError('KubeConflict', message);
}
