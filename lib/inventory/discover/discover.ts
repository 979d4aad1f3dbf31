// Finds values on this machine that its inventory cannot have and the configuration does not give, by its finder.
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { discoverEtcd } from './etcd-machine.ts';
import { environmentOfKubelet } from './kubelet.ts';
import { environmentOfKubeadm } from './kubeadm-environment.ts';
import type { Machine } from './kubeadm-machine.ts';

/**
 * Returns the environment of an inventory: given values, and the discovered ones where the inventory has a finder;
 * `notes` name in plain sentences the files that could not be read. Throws ConfigInvalid.
 */
export async function discoverEnvironment(
  inventory: Inventory,
  given: Environment,
  machine: Machine = {},
): Promise<{ readonly environment: Environment; readonly notes: readonly string[] }> {
  if (inventory.discover === 'etcd') return discoverEtcd(inventory, given, machine.root);
  if (inventory.discover === 'kubelet') return environmentOfKubelet(inventory, given, machine.root);
  if (inventory.discover !== 'kubeadm') return { environment: given, notes: [] };
  return environmentOfKubeadm(inventory, given, machine);
}
