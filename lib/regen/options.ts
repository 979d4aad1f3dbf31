// What the loop of regen is given.
import type { Clock } from '../clock.ts';
import type { Health } from '../health.ts';
import type { Resolved } from '../inventory/model.ts';
import type { NamesInApi } from '../inventory/names-in-api.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { KeyAlgorithm } from '../pki/facts.ts';
import type { KeyPool } from '../pki/key-pool.ts';
import type { ClockFacts, OtherClock } from '../plan/clock-rules.ts';
import type { RenewalPolicy } from '../plan/decision.ts';
import type { Lock } from '../store/lock.ts';
import type { Store } from '../store/store.ts';

export interface RegenOptions {
  readonly resolved: Resolved;
  readonly store: Store;
  /** Names that only the API tells, read at each look; needed where the inventory asks for them. */
  readonly namesInApi?: (signal: AbortSignal) => Promise<NamesInApi>;
  readonly policy: RenewalPolicy;
  /**
   * What is known about the machine's clock; jumps are noticed here. `thorough`: somebody must be signed for and may not,
   * because nothing says that the clock is synchronised, so asking is worth its time.
   */
  readonly clockFacts: (
    thorough: boolean,
  ) => Omit<ClockFacts, 'settlesAt' | 'made' | 'others'> | Promise<Omit<ClockFacts, 'settlesAt' | 'made' | 'others'>>;
  /** The clocks of other machines, asked when something is to be signed and nothing says that ours is right. Never rejects. */
  readonly otherClocks?: (signal: AbortSignal) => Promise<readonly OtherClock[]>;
  readonly clock: Clock;
  readonly log: Log;
  readonly keyPool: KeyPool;
  readonly keyAlgorithm?: KeyAlgorithm;
  /** Which rows are ours to look at. `disk`: before there is an API server, on the host. Default: all. */
  readonly rows?: 'all' | 'disk' | 'api';
  readonly once: boolean;
  /** Says what would be done: makes no key and no write. */
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  readonly health?: Health;
  readonly metrics?: Metrics;
  readonly events?: Pick<EventRecorder, 'record'>;
  /** When an earlier run has last told how all of it stands: a timer that runs each minute tells it once a day. */
  readonly summaryToldAt?: Date;
  /**
   * Called once when the API answers for the first time: what else waits for that begins then. `wasAway`: it did not answer
   * before, since this process began. Must not throw.
   */
  readonly onFirstAnswer?: (seen: { readonly wasAway: boolean }) => void;
  /**
   * The right to write files of this host: of a single run for as long as it lasts, otherwise for each look that writes,
   * so that a process that lasts shuts nobody out.
   */
  readonly lockDisk?: () => Promise<Lock>;
  /** Asked before each look that writes files. Throws AlreadyRunning beside a writer that takes no lock. */
  readonly refuseBesideOthers?: () => void;
}
