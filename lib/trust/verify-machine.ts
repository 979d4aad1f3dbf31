// Whether everybody on this machine who must trust somebody does so: its facts, and what is judged of them. Impure: it
// reads files, and nothing else. Never fails because of a file.
import { allDirectories } from '../inventory/places.ts';
import { directoriesOfKubeadm } from '../inventory/discover/kubeadm-machine.ts';
import { movedPaths } from '../inventory/discover/named-files.ts';
import type { Inventory } from '../inventory/model.ts';
import type { Environment } from '../inventory/resolve.ts';
import { gatherTrust } from './gather-trust.ts';
import { judgeRelations, type RelationRow } from './judge-relations.ts';
import { relations } from './relations.ts';
import type { TrustFacts } from './trust-facts.ts';

interface VerifiedMachine {
  readonly inventory: Inventory;
  readonly environment: Environment;
}

interface TrustQuestion {
  readonly at: Date;
  /** Fingerprints of CAs that are taken out of every trust. */
  readonly without?: ReadonlySet<string> | undefined;
  /** Trust that the API keeps (gather-published.ts). */
  readonly published?: TrustFacts['files'] | undefined;
}

export async function verifyMachine(
  { inventory, environment }: VerifiedMachine,
  { at, without = new Set(), published = new Map() }: TrustQuestion,
): Promise<{ readonly rows: readonly RelationRow[]; readonly notes: readonly string[] }> {
  const usual = directoriesOfKubeadm(allDirectories(inventory, {}));
  const here = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const { facts, notes } = await gatherTrust({ ...here, moved: movedPaths(usual, here), without });
  const files = new Map([...facts.files, ...published]);
  return { rows: judgeRelations(relations, { ...facts, files }, at), notes };
}
