// Rights of a host in the API, granted by `init host` as an administrator.
import type { ToolConfig } from '../lib/config/load.ts';
import { errorText } from '../lib/errors.ts';
import { applyManifests } from '../lib/install/apply.ts';
import { hostManifests } from '../lib/install/rbac.ts';
import { clusterInfoText } from '../lib/kube/cluster-info.ts';
import { leaseText } from '../lib/kube/leases.ts';
import { nextCommand } from '../lib/next-command.ts';
import { renewalLease } from '../lib/restart/machine-lease.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { administratorOf, grantOf } from '../lib/run/host-rights.ts';
import type { Io } from './io.ts';

/** Applies the rights for a host's API requests: no repair needs them, so the units are written even without an API. */
export async function grantRights(config: ToolConfig, io: Io): Promise<void> {
  const grant = grantOf(config);
  const manifests = hostManifests(grant);
  if (manifests.length === 0) return;
  const kubeconfig = config.kubeconfig ?? administratorOf(config);
  const print = (line: string): void => void io.stdout.write(`${line}\n`);
  try {
    await withConnection(kubeconfig, connectingOf(config, io), (connection) =>
      applyManifests({ connection, signal: io.signal }, manifests, print),
    );
  } catch (err) {
    const lease = grant.renewsAhead ? `take ${leaseText(renewalLease)}, ` : '';
    const without = grant.renewsAhead ? 'control-plane nodes wait until a tenth of --renew-before is left, ' : '';
    io.stderr.write(
      `The right of this host to ${lease}release its stale leader Leases, to read kubeadm's configuration and\n` +
        `to write ${clusterInfoText} is not granted:\n` +
        `${errorText(err)}.\nUntil it is, ${without}a control plane waits for stale Leases after a boot,\n` +
        'certificates live a year whatever kubeadm says, and workers and new nodes get no CA that was renewed here. A run of\n' +
        `the timer grants it by "${administratorOf(config)}" when the API server answers; "${nextCommand('status')}" says\n` +
        'whether that was so. By another administrator: set KUBECONFIG, and run this again.\n',
    );
  }
}
