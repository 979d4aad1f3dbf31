// Collaborators that the modes of one process share, and that a run of regen is given.
import type { Clock } from '../clock.ts';
import type { Config, ToolConfig } from '../config/load.ts';
import type { RecoveryError } from '../errors.ts';
import type { Health } from '../health.ts';
import { isClockSynchronised } from '../host/clock-synchronised.ts';
import type { Resolved } from '../inventory/model.ts';
import type { Breakers } from '../kube/circuit-breaker.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';

export interface Runtime extends Pick<Config, 'once' | 'dryRun'> {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly builtAt: Date;
  /**
   * A unit of systemd has started this process, which logs to the journal: lasting states are not logged at each run.
   */
  readonly isOfUnit?: boolean;
  /** One of many runs of this process (repeated-runs.ts). */
  readonly isRepeated?: boolean;
  /** Aborts when an input of repeated runs has changed: the next run does not wait for a proof of this one. */
  readonly news?: AbortSignal;
  /** Time for which a single run waits for an API server. Default: as long as one may take to start. */
  readonly apiPatienceMs?: number;
  readonly resolved: Resolved;
  /** What the inventory means on this machine now. Throws ConfigInvalid, InventoryInvalid. */
  readonly resolveAgain?: (log: Log) => Promise<Resolved>;
  readonly health: Health;
  readonly metrics: Metrics;
  /** Circuit breakers of API servers, shared by the connections of all modes. */
  readonly breakers: Breakers;
  /** Go's os.Hostname(), with which the identities of kube-controller-manager and kube-scheduler begin. */
  readonly hostName: string;
}

/** A runtime with an API server. `signal` aborts when the process must stop, and when the mode has stopped. */
export interface Connected extends Runtime {
  readonly connection: KubeConnection;
  readonly events: Pick<EventRecorder, 'record' | 'flush'>;
}

/** Logs what a store on disk could not keep. */
export const storeReports = (backupDir: string, log: Pick<Log, 'warn'>) => ({
  onBackupFailed: ({ code, message: err }: RecoveryError): void =>
    log.warn('backup.failed', { path: backupDir, code, err }),
  onAttributesLost: ({ code, message: err }: RecoveryError): void => log.warn('attributes.lost', { code, err }),
});

/** Facts about this machine's clock, read again at each call; `thorough` costs a process. */
export const clockFactsFor =
  ({ clockSynchronised }: Pick<ToolConfig, 'clockSynchronised'>, builtAt: Date) =>
  async (thorough: boolean): Promise<ClockFacts> => ({
    builtAt,
    synchronised: await isClockSynchronised(clockSynchronised, { thorough }),
  });
