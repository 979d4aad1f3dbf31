// Whether everybody on this machine who must trust somebody does so: its facts, and what is judged of them. Impure: it
// reads files, and nothing else unless it is told how to ask the API. Never fails because of a file.
import type { Disk } from '../disk/disk.ts';
import { allDirectories } from '../inventory/places.ts';
import { directoriesOfKubeadm } from '../inventory/discover/kubeadm-machine.ts';
import { movedPaths } from '../inventory/discover/named-files.ts';
import type { Inventory } from '../inventory/model.ts';
import type { Environment } from '../inventory/resolve.ts';
import { type GatheredTrust, gatherTrust } from './gather-trust.ts';
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
  /** Adds what the API knows (gather-api.ts). */
  readonly withApi?: ((facts: TrustFacts) => Promise<GatheredTrust>) | undefined;
  /** Where certificates, keys and kubeconfigs lie. Default: on this machine, as its settings do. */
  readonly disk?: Disk;
}

interface VerifiedTrust {
  readonly rows: readonly RelationRow[];
  readonly notes: readonly string[];
  /** Whether a component was found on this machine. */
  readonly isNode: boolean;
}

export async function verifyMachine(
  { inventory, environment }: VerifiedMachine,
  { at, without = new Set(), withApi, disk }: TrustQuestion,
): Promise<VerifiedTrust> {
  const usual = directoriesOfKubeadm(allDirectories(inventory, {}));
  const here = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const own = await gatherTrust({ ...here, moved: movedPaths(usual, here), without, disk });
  const { facts, notes } = (await withApi?.(own.facts)) ?? { facts: own.facts, notes: [] };
  const isNode = Object.values(own.facts.settings).some((one) => one !== undefined);
  return { rows: judgeRelations(relations, facts, at), notes: [...own.notes, ...notes], isNode };
}
