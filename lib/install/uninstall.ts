// `uninstall`: takes out what `init` made: rights first, then identities, then the files with their tokens. The
// certificates' own objects stay, because the control plane lives on them; with `purge` they go too. Everything of ours
// is found by its label, so what an earlier inventory made goes as well. Running it again finds nothing to do.
import { RecoveryError } from '../errors.ts';
import type { Resolved } from '../inventory/model.ts';
import { isOfOthers } from '../inventory/kinds.ts';
import { isFile } from '../inventory/places.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { leasePath } from '../kube/lease-path.ts';
import { restartTurn } from '../leases/turn.ts';
import { locationText } from '../store/store.ts';
import { adoptedNodes } from './adopted-nodes.ts';
import { type Api, deleteObject, ownObjects, readIfThere } from './apply.ts';
import { namesIn, removeDirectory } from './files.ts';
import { layoutOf } from './layout.ts';
import { manifestText, objectPath } from './manifest.ts';

export interface UninstallOptions {
  /** As an administrator. */
  readonly connection: KubeConnection;
  readonly resolved: Resolved;
  readonly directory: string;
  /** Also delete every Secret and ConfigMap of the inventory, signers' keys included. */
  readonly purge?: boolean;
  readonly dryRun?: boolean;
  readonly signal: AbortSignal;
}

export interface UninstallOutcome {
  /** Objects and directories that were (with dryRun: would be) removed. */
  readonly removed: readonly string[];
}

const kinds = ['ClusterRoleBinding', 'RoleBinding', 'ClusterRole', 'Role', 'Secret', 'ServiceAccount'] as const;

/** Throws KubeConflict when a machine still lives on what is to be purged, and what the API refuses. */
export async function runUninstall(options: UninstallOptions): Promise<UninstallOutcome> {
  const { connection, signal, resolved, dryRun = false, purge = false } = options;
  const api: Api = { connection, signal };
  if (purge) await requireNoneAdopted(api);
  const removed: string[] = [];
  const remove = async (path: string, what: string): Promise<void> => {
    const isThere = dryRun
      ? (await readIfThere(api, path)) !== undefined
      : (await deleteObject(api, path)) === 'deleted';
    if (isThere) removed.push(what);
  };
  for (const kind of kinds) {
    for (const manifest of await ownObjects(api, kind)) await remove(objectPath(manifest), manifestText(manifest));
  }
  // Whoever took turns by it has no identity any more.
  await remove(leasePath(restartTurn), `Lease "${restartTurn.namespace}/${restartTurn.name}"`);
  if (purge) {
    for (const row of resolved.artefacts) {
      const { truth } = row;
      if (isFile(truth) || isOfOthers(row)) continue;
      const kind = truth.kind === 'secret' ? 'secrets' : 'configmaps';
      await remove(`/api/v1/namespaces/${truth.namespace}/${kind}/${truth.name}`, locationText(truth));
    }
  }
  const { credentials } = layoutOf(options.directory);
  if ((await namesIn(credentials)).length > 0) {
    if (!dryRun) await removeDirectory(credentials);
    removed.push(credentials);
  }
  return { removed };
}

/** A component of an adopted machine whose certificates are gone comes to an end with those that it has. */
async function requireNoneAdopted(api: Api): Promise<void> {
  const nodes = await adoptedNodes(api);
  if (nodes.length === 0) return;
  const message = `Cannot delete the certificates of this cluster: static pods of ${nodes.join(', ')} live on them; run "kube-cert-recovery uninstall adopt" there first, and delete the Node of a machine that is gone for good`;
  throw new RecoveryError('KubeConflict', message);
}
