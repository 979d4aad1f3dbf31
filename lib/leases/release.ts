// Releases stale leader-election leases once, at the API server's first answer: one GET and one PUT with the
// resourceVersion that was read, so that a holder who renews in between wins. A conflict is looked at once more, then
// left: somebody lives. An API server that starts refuses one thing and answers another (its caches of rights fill one
// after the other), so a refusal is asked again for some seconds. Nothing here fails recovery; a lease that stays costs
// its duration.
import type { Clock } from '../clock.ts';
import { errorText, isCode } from '../errors.ts';
import { unanswered } from '../kube/api-error.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { type LeaseName, leasePath } from '../kube/lease-path.ts';
import type { Log } from '../log.ts';
import { observeBoot, type Boot } from './boot.ts';
import { judgeLease, type Lease, type LeaseReason } from './judge.ts';

export interface ReleaseOptions {
  readonly connection: KubeConnection;
  readonly leases: readonly LeaseName[];
  /** As kube-controller-manager and kube-scheduler see it: Go's os.Hostname(). */
  readonly hostName: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** From observeBoot at the start of the process; without it a step of the clock before this call stays unseen. */
  readonly boot?: () => Boot;
  /**
   * The API server answered before this process looked, so a holder may have renewed in this boot by a clock that was set
   * since: he is given the time of a renewal first. Default: false.
   */
  readonly mayHaveRenewed?: boolean;
  /** How long a server that refuses is asked again, milliseconds. Default 10,000: a lease lasts little longer. */
  readonly patienceMs?: number;
}

export type ReleaseOutcome = LeaseName &
  (
    | { readonly outcome: 'released'; readonly holder: string }
    | { readonly outcome: 'kept'; readonly reason: LeaseReason | 'NotFound' | 'Conflict' | 'Failed' }
  );

interface ReadLease extends Lease {
  readonly metadata?: { readonly resourceVersion?: string };
  readonly spec?: Lease['spec'] & { readonly leaseDurationSeconds?: number | null };
}

const attempts = 2;
const defaultPatienceMs = 10_000;
const pauseMs = 250;

/** Judges each lease and releases the stale ones. Resolves when all are decided; never rejects. */
export async function releaseDeadLeases(options: ReleaseOptions): Promise<readonly ReleaseOutcome[]> {
  const boot = options.boot ?? observeBoot(options.clock);
  return Promise.all(
    options.leases.map(async ({ namespace, name }) => {
      const log = options.log.with({ namespace, lease: name });
      try {
        const outcome = await answered(() => releaseOne({ namespace, name }, boot, options), options);
        if (outcome.outcome === 'released') log.info('lease.released', { message: `holder was ${outcome.holder}` });
        else log.info('lease.kept', { reason: outcome.reason });
        return outcome;
      } catch (err) {
        log.warn('lease.kept', { reason: 'Failed', err: errorText(err) });
        return { namespace, name, outcome: 'kept', reason: 'Failed' };
      }
    }),
  );
}

/** What `ask` throws while the server starts is no answer yet. */
async function answered<T>(ask: () => Promise<T>, { clock, signal, patienceMs }: ReleaseOptions): Promise<T> {
  const began = clock.now().getTime();
  for (;;) {
    try {
      return await ask();
    } catch (err) {
      const waitedMs = clock.now().getTime() - began;
      const isStarting = isCode(err, ...unanswered);
      const isOver = waitedMs >= (patienceMs ?? defaultPatienceMs) || waitedMs < 0; // negative: the clock was set back
      if (!isStarting || isOver || signal.aborted) throw err;
      await clock.sleep(pauseMs, signal);
    }
  }
}

/**
 * Whether its holder renews it while we look: whoever lives does so more often than five times in a lease's duration
 * (client-go: every 2 s of 15, in OpenShift every 26 s of 137). Throws what the connection throws, and when it is stopped.
 */
async function isRenewed(
  found: ReadLease,
  path: string,
  { connection, clock, signal }: ReleaseOptions,
): Promise<boolean> {
  await clock.sleep(((found.spec?.leaseDurationSeconds ?? 15) * 1000) / 5, signal);
  const again = await connection.request<ReadLease>({ method: 'GET', path, signal });
  return again.metadata?.resourceVersion !== found.metadata?.resourceVersion;
}

async function releaseOne(lease: LeaseName, boot: () => Boot, options: ReleaseOptions): Promise<ReleaseOutcome> {
  const { connection, hostName, clock, signal } = options;
  const path = leasePath(lease);
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    try {
      const found = await connection.request<ReadLease>({ method: 'GET', path, signal });
      const verdict = judgeLease({ lease: found, hostName, ...boot(), now: clock.now() });
      if (!verdict.release) return { ...lease, outcome: 'kept', reason: verdict.reason };
      if (options.mayHaveRenewed === true && (await isRenewed(found, path, options))) {
        return { ...lease, outcome: 'kept', reason: 'RenewedSinceBoot' };
      }
      // Without a resourceVersion a PUT is unconditional and could take the lease from a living holder.
      if (!found.metadata?.resourceVersion) return { ...lease, outcome: 'kept', reason: 'Failed' };
      const body = { ...found, spec: { ...found.spec, holderIdentity: '' } };
      await connection.request({ method: 'PUT', path, body, signal });
      return { ...lease, outcome: 'released', holder: found.spec?.holderIdentity ?? '' };
    } catch (err) {
      if (isCode(err, 'KubeNotFound')) return { ...lease, outcome: 'kept', reason: 'NotFound' };
      if (!isCode(err, 'KubeConflict')) throw err;
    }
  }
  return { ...lease, outcome: 'kept', reason: 'Conflict' };
}
