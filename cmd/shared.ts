// What the modes of one process share.
import type { Clock } from '../lib/clock.ts';
import type { Config } from '../lib/config/config.ts';
import type { Health } from '../lib/health.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import type { Breakers } from '../lib/kube/circuit-breaker.ts';
import type { Log } from '../lib/log.ts';
import type { Metrics } from '../lib/metrics.ts';

export interface Runtime {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly builtAt: Date;
}

export interface Shared extends Runtime {
  readonly config: Config;
  readonly resolved: Resolved;
  readonly health: Health;
  readonly metrics: Metrics;
  /** Whether API servers are there is known once, for the connections of all modes. */
  readonly breakers: Breakers;
  /** Go's os.Hostname(), which is how kube-controller-manager and kube-scheduler begin their identities. */
  readonly hostName: string;
}

/** By which Events and Leases know this process. */
export function instanceOf({ config, hostName }: Shared): string {
  return config.identity.podName ?? hostName;
}
