// An inventory made concrete on this machine: where it declares whose machine that is, names, addresses and features are
// found on it first. What is configured beats what is found.
import type { CommonConfig } from '../lib/config/config.ts';
import { discoverEnvironment } from '../lib/inventory/discover/discover.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import type { Log } from '../lib/log.ts';

/** Throws ConfigInvalid, InventoryInvalid. */
export async function resolveHere(
  { inventory, environment }: Pick<CommonConfig, 'inventory' | 'environment'>,
  log?: Pick<Log, 'warn'>,
): Promise<Resolved> {
  const found = await discoverEnvironment(inventory, environment);
  for (const message of found.notes) log?.warn('discovery.partial', { message });
  return resolve(inventory, found.environment);
}
