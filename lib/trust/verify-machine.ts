// Whether everybody on this machine who must trust somebody does so: its facts, and what is judged of them. Impure: it
// reads files, and nothing else. Never fails because of a file.
import { allDirectories } from '../inventory/located.ts';
import { directoriesOfKubeadm } from '../inventory/discover/kubeadm-machine.ts';
import { movedPaths } from '../inventory/discover/named-files.ts';
import type { Inventory } from '../inventory/model.ts';
import type { Environment } from '../inventory/resolve.ts';
import { gatherTrust } from './gather-trust.ts';
import { judgeRelations, type RelationRow } from './judge-relations.ts';
import { relations } from './relations.ts';

interface MachineQuestion {
  readonly inventory: Inventory;
  readonly environment: Environment;
}

/** `without`: fingerprints of CAs that are taken out of every trust. */
export async function verifyMachine(
  { inventory, environment }: MachineQuestion,
  at: Date,
  without: ReadonlySet<string> = new Set(),
): Promise<{ readonly rows: readonly RelationRow[]; readonly notes: readonly string[] }> {
  const usual = directoriesOfKubeadm(allDirectories(inventory, {}));
  const here = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const { facts, notes } = await gatherTrust({ ...here, moved: movedPaths(usual, here), without });
  return { rows: judgeRelations(relations, facts, at), notes };
}
