// Finds on this machine what its inventory cannot know and nobody has configured, by the finder that the inventory names.
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { discoverEtcd } from './etcd-machine.ts';
import { environmentOfKubeadm } from './kubeadm-environment.ts';
import type { Machine } from './kubeadm-machine.ts';

/**
 * The environment of an inventory: what was given, and what discovery adds where the inventory asks for it; `notes` say
 * in plain sentences what could not be read. Throws ConfigInvalid.
 */
export async function discoverEnvironment(
  inventory: Inventory,
  given: Environment,
  machine: Machine = {},
): Promise<{ readonly environment: Environment; readonly notes: readonly string[] }> {
  if (inventory.discover === 'etcd') return discoverEtcd(inventory, given, machine.root);
  if (inventory.discover !== 'kubeadm') return { environment: given, notes: [] };
  return environmentOfKubeadm(inventory, given, machine);
}
