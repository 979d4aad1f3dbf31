// `status --fleet`: which nodes of the cluster lack a CA, or have not loaded it.
import { systemClock } from '../lib/clock.ts';
import type { ToolConfig } from '../lib/config/load.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { laggingNodes, renderFleet } from '../lib/status/fleet-text.ts';
import { gatherFleet } from '../lib/status/gather-fleet.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import type { StatusRequest } from './status-flags.ts';

export async function fleetStatus(config: ToolConfig, { output }: StatusRequest, io: Io): Promise<number> {
  const { inventory, kubeconfig } = config;
  const connecting = connectingOf({ ...config, log: { ...config.log, level: 'error' } }, io);
  const report = await withConnection(kubeconfig, connecting, (connection) =>
    gatherFleet({ inventory, connection, clock: systemClock, signal: io.signal }),
  );
  io.stdout.write(renderFleet(report, output));
  return laggingNodes(report) === 0 ? exitCodes.done : exitCodes.failed;
}
