// Finds values on this machine that its inventory cannot have and the configuration does not give, by its finder.
import type { MachineFinder } from '../finders.ts';
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { discoverEtcd } from './etcd.ts';
import { environmentOfKubelet } from './kubelet.ts';
import { environmentOfKubeadm } from './kubeadm-environment.ts';
import type { Discovered } from './machine-files.ts';
import type { Machine } from './kubeadm-machine.ts';

/** Each throws ConfigInvalid, or PreconditionFailed on another machine. */
const machineFinders: Readonly<
  Record<MachineFinder, (inventory: Inventory, given: Environment, machine: Machine) => Promise<Discovered>>
> = {
  kubeadm: environmentOfKubeadm,
  etcd: (inventory, given, { root }) => discoverEtcd(inventory, given, root),
  kubelet: (inventory, given, { root }) => environmentOfKubelet(inventory, given, root),
};

const isMachineFinder = (name: string): name is MachineFinder => Object.hasOwn(machineFinders, name);

/**
 * Returns the environment of an inventory: given values, and the discovered ones where the inventory has a finder.
 * Throws ConfigInvalid, PreconditionFailed.
 */
export async function discoverEnvironment(
  inventory: Inventory,
  given: Environment,
  machine: Machine = {},
): Promise<Discovered> {
  const { discover = '' } = inventory;
  return isMachineFinder(discover)
    ? machineFinders[discover](inventory, given, machine)
    : { environment: given, notes: [] };
}
