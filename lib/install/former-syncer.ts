// An earlier layout had one account for the syncers of all static pods, which could read what any of them publishes. Pods
// that a machine runs say whose token they have; when none is left that has this one, it goes: rights, token, account.
import { accountName, proofsName, tokenSecretName } from './accounts.ts';
import { adoptedPods, nodesOf } from './adopted-pods.ts';
import { type Api, deleteObject, ownObjects } from './apply.ts';
import { type Manifest, manifestText, objectPath } from './manifest.ts';
import { accountAnnotation } from './static-pods.ts';

export interface FormerSyncer {
  /** Objects that were removed. */
  readonly removed: readonly string[];
  /** Nodes that run pods of the earlier layout: while there are any, all stays. */
  readonly usedOn: readonly string[];
}

const account = 'syncer';
const formerNames: Readonly<Partial<Record<Manifest['kind'], string>>> = {
  ClusterRoleBinding: proofsName(account),
  RoleBinding: accountName(account),
  ClusterRole: proofsName(account),
  Role: accountName(account),
  Secret: tokenSecretName(account),
  ServiceAccount: accountName(account),
};

/** Throws what the API refuses. */
export async function removeFormerSyncer(api: Api): Promise<FormerSyncer> {
  const found: Manifest[] = [];
  for (const [kind, name] of Object.entries(formerNames)) {
    const own = await ownObjects(api, kind as Manifest['kind']);
    found.push(...own.filter(({ metadata }) => metadata.name === name));
  }
  const usedOn = found.length > 0 ? await nodesOfFormerPods(api) : [];
  if (usedOn.length > 0) return { removed: [], usedOn };
  const removed: string[] = [];
  for (const manifest of found) {
    if ((await deleteObject(api, objectPath(manifest))) === 'deleted') removed.push(manifestText(manifest));
  }
  return { removed, usedOn };
}

async function nodesOfFormerPods(api: Api): Promise<readonly string[]> {
  const pods = await adoptedPods(api);
  return nodesOf(pods.filter(({ annotations }) => !(accountAnnotation in annotations)));
}
