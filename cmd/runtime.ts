// What a command gets from its process, and what the modes of one process share.
import type { Clock } from '../lib/clock.ts';
import type { Config } from '../lib/config/load.ts';
import type { Health } from '../lib/health.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import type { Breakers } from '../lib/kube/circuit-breaker.ts';
import type { Log } from '../lib/log.ts';
import type { Metrics } from '../lib/metrics.ts';

interface Output {
  write(text: string): unknown;
}

/** Tests give their own. */
export interface Io {
  /** Without the executable and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the process is asked to stop. */
  readonly signal: AbortSignal;
}

export interface Runtime extends Pick<Config, 'once' | 'dryRun'> {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly builtAt: Date;
  /** A unit of systemd has started this process, and its log is in the journal: what lasts is not said at each run. */
  readonly isOfUnit?: boolean;
  readonly resolved: Resolved;
  readonly health: Health;
  readonly metrics: Metrics;
  /** Whether API servers are there is known once, for the connections of all modes. */
  readonly breakers: Breakers;
  /** Go's os.Hostname(), which is how kube-controller-manager and kube-scheduler begin their identities. */
  readonly hostName: string;
}
